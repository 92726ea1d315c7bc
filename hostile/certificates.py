"""Certificates of random compiled transformers, unedited or with one weight edited, against ball arithmetic.

The oracle solves the specification's ridge regression exactly, from the very floats that the model was given. A
certificate may prove little, but what it proves must be true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from flint import arb, fmpq
from torch import Tensor

import ridgeformer as rf
from hostile.exact import ExactRegression, Rows, dot, exceeds, rational
from hostile.tally import Tally
from ridgeformer.algorithms import resolve
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.core.errors import RidgeformerError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, Kernel
from ridgeformer.language.roles import QUERY, SUPPORT, Mask, Rule

__all__ = ["attack", "draw"]

RUNS = {
    "linear": ("cg", "pcg", "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov"),
    "softmax": ("cg", "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov", "nadaraya_watson"),
    "vanilla": ("richardson",),
    "imitation": ("cg",),
}
"""The algorithms of each attention; "pcg" is conjugate gradients with Jacobi's preconditioner."""

EDITS = ("zero", "nan", "inf", "double", "nudge", "huge", "flip", "swap", "fill", "mask")

TOO_MUCH = {"precision", "inexactness", "operand range"}
"""Lines that fail where a model or its data ask too much of the arithmetic: nothing else is expected there."""

BOUND = "a proved bound is never below the exact error"
RELATIVE = "a proved relative distance is never below the exact one"
ACCURATE = "what is called accurate is proved within the tolerance"
BITS = "unedited weights pass the comparison bit by bit"
EXPECTED = "unedited models pass every expected line"
EDITED = "an edited weight is found by the comparison bit by bit"
RED = "a model with a NaN or an infinite weight is refused or red"


@dataclass(frozen=True, eq=False)
class Case:
    """One model and one task, or several tasks of one shape.

    Attributes:
        options: What it is compiled with.
        X, y, Xq: Supports, targets and queries, with a leading axis where there are several tasks.
        edit: What is done to its weights, "" for nothing.
        tolerance: What counts as accurate.
    """

    options: dict[str, Any]
    X: Tensor
    y: Tensor
    Xq: Tensor
    edit: str
    tolerance: float
    rng: np.random.Generator = field(repr=False)

    def __str__(self) -> str:
        plain = {name: value for name, value in self.options.items() if not isinstance(value, Tensor)}
        shown = ", ".join(f"{name}={value!r}" for name, value in plain.items())
        return f"compile({shown}), X {tuple(self.X.shape)}, edit {self.edit or 'none'}"


def attack(tally: Tally, index: int, seed: int) -> None:
    """Certify one random model and hold what is proved against the oracle."""
    case = draw(index, seed)
    name = f"certificates {index} (seed {seed}): {case}"
    with tally.only_our_errors(name):
        model = compiled(**case.options)
        poisoned = _edited(model, case)
        try:
            certificate = rf.certify(model, case.X, case.y, case.Xq, tolerance=case.tolerance)
        except RidgeformerError:
            if poisoned:
                tally.hold(RED, name, kept=True)
            raise
        _judge(tally, name, case, certificate, poisoned)


def compiled(
    attention: str, algorithm: str, steps: int, kernel: str = "exponential", temperature: float = 1.0,
    projection: Tensor | None = None,
    spectrum: tuple[float, float] | None = None, **options: Any,
) -> rf.CompiledTransformer:  # fmt: skip
    """Return the model of these options: names, and what belongs to the kernel or to the algorithm."""
    chosen = _kernel(attention, kernel, temperature, projection)
    given = {
        "steps": None if algorithm == "nadaraya_watson" else steps,
        "spectrum": spectrum,
        "preconditioner": "jacobi" if algorithm == "pcg" else None,
    }
    return rf.compile(
        chosen, resolve("cg" if algorithm == "pcg" else algorithm, **given), attention=attention, **options
    )


def _kernel(attention: str, name: str, temperature: float, projection: Tensor | None = None) -> Kernel:
    if attention in ("linear", "imitation"):
        return DotProduct(projection)
    return (Gaussian if name == "gaussian" else Exponential)(temperature, projection)


def _judge(tally: Tally, name: str, case: Case, certificate: rf.Certificate, poisoned: bool) -> None:
    """Hold a certificate against exact arithmetic and against what was done to the model."""
    failed = [check.name for check in certificate.failed]
    if case.edit:
        tally.hold(EDITED, name, "weights" in failed, certificate["weights"].what)
    else:
        tally.hold(BITS, name, "weights" not in failed, certificate["weights"].what)
        wrong = [c for c in certificate.failed if c.kind == "expected"]
        what = "; ".join(f"{c.name}: {c.measured:.4g} > {c.bound:.4g}" for c in wrong)
        if not TOO_MUCH & set(failed):
            tally.hold(EXPECTED, name, not wrong, what)
    if poisoned:
        tally.hold(RED, name, not certificate.holds, certificate.verdict)
    lead = (case.X, case.y, case.Xq) if case.X.ndim == 3 else (case.X[None], case.y[None], case.Xq[None])
    for task, (X, y, Xq) in enumerate(zip(*lead, strict=True)):
        _hold_bounds(tally, f"{name}, task {task}", certificate, task, Posed(case, X, y).predictions(Xq))


def _hold_bounds(tally: Tally, name: str, certificate: rf.Certificate, task: int, exact: list[list[Any]]) -> None:
    """Hold the proved bounds of one task against the exact predictions, entry by entry and relative to the largest."""
    answers, proved = certificate.predictions[task], certificate.proved[task]
    for output, within in enumerate(certificate.curves["accuracy"].measured[task]):
        largest = max((abs(row[output]) for row in exact), key=lambda size: size.mid())
        for query, row in enumerate(exact):
            answer, bound = float(answers[query, output]), float(proved[query, output])
            if not math.isfinite(answer):
                kept = bound == math.inf == within
                tally.hold(BOUND, name, kept, f"an answer of {answer} has a bound of {bound}")
                continue
            error = abs(arb(answer) - row[output])
            tally.hold(BOUND, name, not exceeds(error, bound), f"query {query}: {error.str(6)}, proved {bound:.6g}")
            kept = exceeds(error, 0.0) is False or (largest > 0 and not exceeds(error / largest, float(within)))
            kept = kept or within == math.inf
            tally.hold(
                RELATIVE, name, kept, f"query {query}: off by {error.str(6)} of {largest.str(6)}, proved {within:.6g}"
            )
    if certificate.accurate:
        kept = bool((certificate.curves["accuracy"].measured[task] <= certificate.tolerance).all())
        tally.hold(ACCURATE, name, kept, certificate.verdict)


class Posed(ExactRegression):
    """The ridge regression that a case's specification asks for: rows projected, and centred for the imitation."""

    def __init__(self, case: Case, X: Tensor, y: Tensor) -> None:
        self.case, self.mean = case, [fmpq(0)] * X.shape[1]
        if case.options["attention"] == "imitation":
            self.mean = [sum(column, fmpq(0)) / len(X) for column in zip(*rational(X), strict=True)]
        options = case.options
        kernel = _kernel(options["attention"], options["kernel"], options["temperature"])
        super().__init__(kernel, X, y, options["ridge"])

    def read(self, X: Tensor) -> Rows:
        """Return the rows as exact fractions, centred and projected."""
        rows = [[a - m for a, m in zip(row, self.mean, strict=True)] for row in rational(X)]
        projection = self.case.options.get("projection")
        return rows if projection is None else [[dot(u, row) for u in rational(projection)] for row in rows]


def draw(index: int, seed: int) -> Case:
    """Return a random case: any attention, algorithm, precision and unit, sizes from one support on, any scale."""
    rng = numpy_generator(seed, "certificates", index)
    attention = str(rng.choice(list(RUNS)))
    algorithm = str(rng.choice(RUNS[attention]))
    supports, features = int(rng.choice([1, 2, 3, 5, 8, 13, 25, 40])), int(rng.integers(1, 8))
    outputs, queries, wild = int(rng.integers(1, 4)), int(rng.integers(1, 4)), rng.random() < 0.3
    lead = () if rng.random() < 0.8 else (int(rng.integers(1, 3)),)
    size = 10.0 ** rng.uniform(-6, 4) if wild else rng.uniform(0.2, 1.2)
    X, Xq = (_rows(rng, (*lead, n, features), size) for n in (supports, queries))
    if attention == "imitation" and rng.random() < 0.3:
        offset = 10.0 ** rng.uniform(0, 5)  # which centring cancels
        X, Xq = X + offset, Xq + offset
    if rng.random() < 0.2 and supports > 1:
        X[..., -1, :] = X[..., 0, :]  # the same row twice
    far = 130 if rng.random() < 0.2 else 12  # float64 holds the squares of targets up to 1e154
    unit = 10.0 ** rng.uniform(-far, far) if wild else 1.0
    y = torch.from_numpy(unit * rng.standard_normal((*lead, supports, outputs)))
    if rng.random() < 0.1:
        y[..., 0] = 0.0
    options: dict[str, Any] = {
        "attention": attention,
        "algorithm": algorithm,
        "kernel": "gaussian" if rng.random() < 0.4 else "exponential",
        "features": features,
        "outputs": outputs,
        "ridge": float(10.0 ** rng.uniform(-14, 12) if rng.random() < 0.25 else 10.0 ** rng.uniform(-3, 1)),
        "steps": int(rng.choice([1, 2, 4, 8, 16, 30])),
        "temperature": float(10.0 ** rng.uniform(-1, 1.5)),
        "dtype": str(rng.choice(["float64", "float64", "float32"])),
        "tied": bool(rng.random() < 0.8),
    }
    if rng.random() < 0.25:
        options["projection"] = _rows(rng, (int(rng.integers(1, 9)), features), 0.7)
    _complete(options, rng, X)
    edit = str(rng.choice(EDITS)) if rng.random() < 0.5 else ""
    return Case(options, X, y, Xq, edit, float(rng.choice([0.01, 0.01, 1e-6, 0.3])), rng)


def _rows(rng: np.random.Generator, shape: tuple[int, ...], size: float) -> Tensor:
    return torch.from_numpy(size * rng.standard_normal(shape))


def _complete(options: dict[str, Any], rng: np.random.Generator, X: Tensor) -> None:
    """Add what a algorithm needs to know of the data, a sketch or stock units now and then."""
    projected = X @ options["projection"].T if "projection" in options else X
    logits = projected @ projected.mT
    softmax = options["attention"] in ("softmax", "vanilla")
    largest = float(logits.diagonal(dim1=-2, dim2=-1).max())
    if softmax:
        options["temperature"] = max(options["temperature"], largest / 60)
        if options["attention"] == "softmax" and options["kernel"] == "exponential":
            options["sink"] = largest / options["temperature"]
    K = (logits / options["temperature"]).exp() if softmax else logits  # the Gaussian kernel's entries are smaller
    norm = float(K.abs().sum(-1).max())
    if options["algorithm"] == "neumann":
        options["ridge"] = norm * float(rng.uniform(1.1, 20)) + 1e-3
    if options["algorithm"] in ("chebyshev", "heavy_ball", "nesterov"):
        options["spectrum"] = (options["ridge"], options["ridge"] + norm * float(rng.uniform(1, 4)))
    if options["algorithm"] == "cg" and options["attention"] != "imitation" and rng.random() < 0.15:
        options |= {"primitives": str(rng.choice(["swiglu", "relu"])), "steps": min(4, options["steps"]), "tied": True}
    kept = projected.shape[-1]
    if kept > 1 and options["algorithm"] != "nadaraya_watson" and rng.random() < 0.15:
        plain = {name: value for name, value in options.items() if name != "projection"}
        overhead = compiled(**{**plain, "features": kept}).layout.overhead
        options |= {"width": overhead + 2 * (kept - 1), "sketch": str(rng.choice(["gaussian", "orthogonal"]))}


def _edited(model: rf.CompiledTransformer, case: Case) -> bool:
    """Edit one weight or mask in place; return whether a weight is no longer finite."""
    if not case.edit:
        return False
    if case.edit == "mask":
        layer = next(layer for layer in model.modules() if isinstance(layer, AttentionSublayer))
        layer.masks[0] = Mask((*layer.masks[0].rules, Rule(SUPPORT, QUERY)))
        return False
    tensors = [weight for weight in model.state_dict().values() if weight.numel()]
    if case.rng.random() < 0.25:  # where a careless certificate would read its problem off
        tensors = [model.embed[SUPPORT.value]]
    weight = tensors[int(case.rng.integers(len(tensors)))].detach().reshape(-1)
    used = weight.nonzero().reshape(-1)
    place = int(case.rng.integers(len(weight)))
    if len(used) and case.rng.random() < 0.8:
        place = int(used[int(case.rng.integers(len(used)))])
    _write(weight, place, case.edit)
    return not bool(torch.isfinite(weight).all())


def _write(weight: Tensor, place: int, edit: str) -> None:
    """Edit an entry so that at least one bit changes."""
    before = weight.clone()
    value = float(before[place])
    new = {"zero": 0.0, "nan": math.nan, "inf": math.inf, "double": 2 * value, "nudge": value * (1 + 1e-6),
           "huge": 1e30, "flip": -value}  # fmt: skip
    if edit == "swap":
        other = (place + 1) % len(weight)
        weight[place], weight[other] = before[other], before[place]
    elif edit == "fill":
        weight.fill_(0.37)
    else:
        weight[place] = new[edit]
    if torch.equal(weight, before):  # nothing to zero, double or swap there
        weight[place] = 1.0 if value != 1.0 else 0.5
