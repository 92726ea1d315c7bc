"""The audit's own problem inside transformers: compiled for these data, run and certified; one of them to watch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.auditing.certified import Certified
from ridgeformer.auditing.settings import Settings
from ridgeformer.compiler import Budget, Certificate, CompiledTransformer, certify
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.kernels import DotProduct, Exponential, Kernel
from ridgeformer.solving import solve
from ridgeformer.solving.selection import choose_ridge

__all__ = ["Compiled", "Watched", "choose_watched", "compile_softmax", "examine_compiled"]

ENOUGH = 1e-6
"""Steps are added until plain conjugate gradients reach this relative residual, or there are MOST_STEPS."""

MOST_STEPS = 60

LARGEST_LOGIT = 600.0
"""e to this is still a number; a lower temperature than this allows is raised."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """One compiled transformer on the audit's problem.

    Attributes:
        attention: "linear" or "softmax".
        steps: Steps of conjugate gradients it was compiled for.
        features: Features its stream carries; its width is that plus the overhead.
        supports: Training rows it was shown.
        training_rows: Training rows of the certified fit.
        from_fit: Largest distance of the exact answers for the rows shown from those of the certified fit, over the
            typical size of the latter; 0 where all rows were shown, None for linear attention, another kernel.
        budget: Width, layers and weights.
        difference: Largest distance of a prediction from the direct solve's.
        typical_output: Root mean square of the direct solve's predictions.
        certificate: What is proved about the run, and checked of the network.
    """

    attention: str
    steps: int
    features: int
    supports: int
    training_rows: int
    from_fit: float | None
    budget: Budget
    difference: float
    typical_output: float
    certificate: Certificate

    @property
    def agreement(self) -> float:
        """The largest distance, as a part of a typical output."""
        return self.difference / self.typical_output if self.typical_output > 0 else self.difference

    @property
    def errors(self) -> NDArray[np.float64]:
        """Relative A-norm error after every step, the worst over the outputs."""
        return self.certificate.curves["error per step"].measured.max(axis=(0, 2))

    @property
    def bound(self) -> NDArray[np.float64]:
        """What theory allows after every step (claim B2), rounding included."""
        return self.certificate.curves["error per step"].bound.max(axis=(0, 2))

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        facts = {key: value for key, value in vars(self).items() if key not in ("budget", "certificate")}
        certificate = self.certificate.as_dict()
        proved = {key: certificate[key] for key in ("holds", "accurate", "verdict", "proved_within", "checks")}
        curves = {"errors": self.errors.tolist(), "bound": self.bound.tolist()}
        return {**facts, **asdict(self.budget), **proved, **curves}


def examine_compiled(data: Split, certified: Certified, settings: Settings) -> tuple[Compiled, ...]:
    """Compile linear and softmax attention for these data, run both and certify them.

    Args:
        data: The prepared data.
        certified: The fit whose kernel and ridge softmax attention takes.
        settings: How many rows, and the seed of their choice.
    """
    order = torch.randperm(len(data.X), generator=torch_generator(settings.seed, "compiled supports"))
    order = order[: settings.compiled_rows]
    X, y, Xq = data.X[order], data.y[order], data.Xt[: settings.compiled_queries]
    linear_ridge = choose_ridge(DotProduct(), X, y).ridge
    linear = _steps(DotProduct(), X, y, linear_ridge)
    features, outputs = X.shape[1], y.shape[1]
    algorithm = ConjugateGradients(steps=linear)
    first = compile(DotProduct(), algorithm, features=features, outputs=outputs, ridge=linear_ridge)
    second = compile_softmax(certified, X, y, Xq)
    return _examine(first, X, y, Xq, certified, None), _examine(second, X, y, Xq, certified, len(Xq))


def compile_softmax(
    certified: Certified, X: Tensor, y: Tensor, Xq: Tensor, *, most_steps: int = MOST_STEPS
) -> CompiledTransformer:
    """Compile softmax attention at the temperature and ridge of a certified fit, for these rows.

    Args:
        certified: The fit.
        X: Training rows.
        y: Their targets, one column an output.
        Xq: Held-out rows; with X they bound the logits.
        most_steps: Steps of conjugate gradients at most.
    """
    kernel, ridge = certified.fit.kernel, certified.fit.ridge
    assert isinstance(kernel, Exponential)
    longest = float(torch.cat([X, Xq]).square().sum(1).max())
    temperature = max(kernel.temperature, longest / LARGEST_LOGIT)
    scale = min(kernel.log_scale, LARGEST_LOGIT)
    steps = _steps(Exponential(temperature, log_scale=scale), X, y, ridge, most_steps)
    return compile(
        Exponential(temperature), ConjugateGradients(steps=steps), features=X.shape[1], outputs=y.shape[1],
        ridge=ridge * exp(scale), sink=scale,
    )  # fmt: skip


def _steps(kernel: Kernel, X: Tensor, y: Tensor, ridge: float, most: int = MOST_STEPS) -> int:
    return max(1, solve(kernel, X, y, ridge, algorithm=ConjugateGradients(steps=most), tol=ENOUGH).steps)


def _examine(
    model: CompiledTransformer, X: Tensor, y: Tensor, Xq: Tensor, certified: Certified, queries: int | None
) -> Compiled:
    certificate = certify(model, X, y, Xq)
    from_fit = None
    if queries is not None:
        fitted = certified.outputs[:queries]
        apart = float((torch.from_numpy(certificate.exact[0]).reshape(fitted.shape) - fitted).abs().max())
        from_fit = apart / (certified.typical_output or 1.0)
    return Compiled(
        attention=model.spec.attention.name,
        steps=model.spec.steps,
        features=model.spec.carried,
        supports=len(X),
        training_rows=len(certified.fit.X),
        from_fit=from_fit,
        budget=model.budget,
        difference=float(np.abs(certificate.predictions - certificate.exact).max()),
        typical_output=float(np.sqrt(np.square(certificate.exact).mean())),
        certificate=certificate,
    )


SUPPORTS, QUERIES = 16, 5
WATCHED_STEPS = 8
"""Rows and steps one can follow by eye."""


@dataclass(frozen=True, eq=False)
class Watched:
    """A compiled model and a task for it.

    Attributes:
        model: Softmax attention at the audit's temperature and ridge.
        X, y: Training rows, and the targets of one output.
        Xq: Held-out rows.
        output: Which output it is, in words.
        labels: What each training row is, in words.
    """

    model: CompiledTransformer
    X: Tensor
    y: Tensor
    Xq: Tensor
    output: str
    labels: tuple[str, ...]


def choose_watched(data: Split, certified: Certified, settings: Settings) -> Watched:
    """Return the model and its task; the output is the one whose targets vary most over the rows drawn.

    Raises:
        InputError: targets or rows the compiler cannot take.
    """
    order = torch.randperm(len(data.X), generator=torch_generator(settings.seed, "watched supports"))[:SUPPORTS]
    X, Xq = data.X[order], data.Xt[:QUERIES]
    output = int(data.y[order].std(dim=0, correction=0).argmax())
    y = data.y[order, output]
    model = compile_softmax(certified, X, y[:, None], Xq, most_steps=WATCHED_STEPS)
    classes = data.dataset.classes
    said = f"class {classes[output]} against the rest" if classes else "the target"
    if not classes and data.y.shape[1] > 1:
        said = f"target {output + 1}"
    return Watched(model, X, y, Xq, said, tuple(_label(data, int(place)) for place in order))


def _label(data: Split, place: int) -> str:
    row = f"row {data.rows[place]}"
    return row if data.labels is None else f"{row}, class {data.dataset.classes[int(data.labels[place])]}"
