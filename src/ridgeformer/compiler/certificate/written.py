"""The certificate of a program of one's own: the network does what its program says, and what theory says of that.

There is no ridge regression to compare with. The reference is the interpreter, which runs the program as it was written
on plain tensors, functions and all, and shares no code with the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.compiler.certificate.certificate import (
    Certificate,
    TaskCheck,
    check_lines,
    merge,
)
from ridgeformer.compiler.certificate.network import check_leakage, check_ranges, check_weights
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.core.checks import ArrayLike
from ridgeformer.core.seeds import torch_generator
from ridgeformer.language.interpreter import run as interpret_program

__all__ = ["ProgramCertificate", "certify_program"]

AGREEMENT = {torch.float64: 1e-10, torch.float32: 1e-3}
"""How far a network may be from its program unless told, relative to the largest value of a record."""

STATIONARY = 1e-6
"""The largest residual at which a program counts as having arrived at its fixed point."""


@dataclass(frozen=True, eq=False)
class ProgramCertificate(Certificate):
    """Whether a compiled program did what it says on some tasks.

    `exact` holds the interpreter's answers, and `tolerance` the largest relative difference from them that counts as
    agreement. Checks say of which kind they are: "expected" is a theorem about the program, "observed" a measurement.
    Nothing is proved about the distance from any other solution, so `proved` is infinite.
    """

    @property
    def within(self) -> float:
        """The largest difference from the interpreter, relative to the largest value of a record."""
        return self["steps"].measured

    @property
    def accurate(self) -> bool:
        """Whether every step is the interpreter's within the tolerance."""
        return self["steps"].holds

    @property
    def verdict(self) -> str:
        """The certificate in one sentence."""
        steps = self["steps"]
        away = [check.measured for check in self.failed if check.name.startswith("fixed point")]
        others = ", ".join(c.name for c in self.failed if c.name != "steps" and not c.name.startswith("fixed point"))
        but = f" It has not arrived at its fixed point (residual {max(away):.1e}): take more steps." if away else ""
        but += f" Checks that fail: {others}." if others else ""
        if steps.holds:
            return f"Every step is its program's, within {steps.measured:.1e} of the largest value.{but}"
        return f"The network does NOT do what its program says: it is off by {steps.measured:.1e}.{but}"

    def __str__(self) -> str:
        return "\n".join([self.verdict, self.subject, "", *check_lines(self.checks)])

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "tolerance": self.tolerance,
            "subject": self.subject,
            "checks": [asdict(check) for check in self.checks],
        }


def certify_program(
    model: CompiledTransformer,
    X: ArrayLike,
    y: ArrayLike,
    Xq: ArrayLike,
    tolerance: float | None = None,
    *,
    run: Callable[..., dict[str, Tensor]] | None = None,
    about: list[TaskCheck] | None = None,
) -> ProgramCertificate:
    """Run a compiled program and its interpreter on the same tasks, and check what can be checked.

    `run` runs something else in its place and returns its records, and `about` holds findings about that: the program
    in a class of another library.
    """
    spec, algorithm = model.spec, model.spec.algorithm
    assert isinstance(algorithm, WrittenAlgorithm)
    given = model._check(X, y, Xq)
    tasks = [part.detach() if part.ndim == 3 else part.detach()[None] for part in given.given]
    allowed = AGREEMENT[spec.torch_dtype] if tolerance is None else tolerance
    with torch.no_grad():
        trace = model.trace(*tasks).values if run is None else run(*tasks)
    doubled = [part.double() for part in tasks]
    tokens = model.tokens(tasks[0].shape[-2], tasks[2].shape[-2])
    embedding = model.carried.detach().double()

    def carried(parts: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return tasks as the stream carries them."""
        return parts[0] @ embedding, parts[1], parts[2] @ embedding

    shown = carried(doubled)
    exact = interpret_program(algorithm.program, tokens, *shown, spec.steps)
    rounded = carried([_rounded(part, spec.torch_dtype) for part in doubled])
    moved = interpret_program(algorithm.program, tokens, *rounded, spec.steps)
    found = []
    for i in range(len(tasks[0])):
        ran, plain, other = ({n: v[:, i].double() for n, v in values.items()} for values in (trace, exact, moved))
        checks = [_agreement(ran, plain, allowed), _floor(plain, other, allowed, spec.dtype)]
        checks += [_stationary(algorithm, residual, shown, i, ran) for residual in type(algorithm).residuals]
        checks += [_promised(algorithm, number, shown, i, ran) for number in range(len(type(algorithm).theorems))]
        found.append(checks)
    checks_of_tasks, curves = merge(found)
    whole = [check_weights(model), check_leakage(model, list(zip(*doubled, strict=True)))] if about is None else about
    if spec.primitives != "exact":
        whole = [*whole, check_ranges(model, *tasks)]
    about_model, curves_of_model = merge([whole])
    count = "1 task" if len(tasks[0]) == 1 else f"{len(tasks[0])} tasks"
    return ProgramCertificate(
        subject=f"{model.program.name}, {spec.steps} steps, {spec.dtype}, {spec.primitives} units; {count} of "
        f"{tasks[0].shape[1]} supports and {tasks[2].shape[1]} queries",
        tolerance=allowed,
        checks=(*checks_of_tasks[:1], *about_model, *checks_of_tasks[1:]),
        curves={**curves, **curves_of_model},
        kappa=np.full(len(doubled[0]), np.nan),
        floor=curves["float floor"].measured,
        exact=exact["f"][-1].numpy(),
        predictions=trace["f"][-1].double().numpy(),
        proved=np.full(exact["f"][-1].shape, np.inf),
    )


def _rounded(part: Tensor, dtype: torch.dtype) -> Tensor:
    """Return numbers that are off by a unit in their last place, up or down at random."""
    signs = torch.randint(0, 2, part.shape, generator=torch_generator(0, "float floor")) * 2 - 1
    return part * (1 + signs.to(part.dtype) * float(torch.finfo(dtype).eps))


def _largest(values: Tensor) -> float:
    return max(float(values.abs().max()), float(torch.finfo(torch.float64).tiny))


def _agreement(run: Mapping[str, Tensor], plain: Mapping[str, Tensor], allowed: float) -> TaskCheck:
    """Return the finding that every record of every step is the interpreter's."""
    differences = torch.stack(
        [_by_step((run[name] - plain[name]).abs(), len(plain["f"])) / _largest(plain[name]) for name in plain]
    )
    return TaskCheck(
        "steps",
        "every record after every step is the interpreter's, relative to the largest value of the record",
        "none; the interpreter runs in float64, without any weight",
        differences.amax(0),
        allowed,
        ("step",),
        kind="observed",
    )


def _by_step(values: Tensor, steps: int) -> Tensor:
    found = values.flatten(1).amax(1)
    return found if len(found) == steps else found.max().expand(steps)


def _floor(plain: Mapping[str, Tensor], moved: Mapping[str, Tensor], allowed: float, dtype: str) -> TaskCheck:
    """Return the finding that rounding of the inputs alone moves the answers by less than the tolerance."""
    return TaskCheck(
        "float floor",
        f"inputs rounded at random in {dtype} move the answers by this, relative to the largest: no run is better",
        "one random rounding of all inputs, through the interpreter in float64",
        float((plain["f"] - moved["f"]).abs().max()) / _largest(plain["f"]),
        allowed,
        kind="observed",
    )


def _stationary(
    algorithm: WrittenAlgorithm, residual: Any, tasks: Sequence[Tensor], i: int, run: Mapping[str, Tensor]
) -> TaskCheck:
    found = residual(algorithm, tasks[0][i], tasks[1][i], run)
    return TaskCheck(
        f"fixed point: {residual.__name__}",
        (residual.__doc__ or "the residual that the program gives").splitlines()[0].removeprefix("Return "),
        f"after the last step; at most {STATIONARY:g} counts as arrived: take more steps otherwise",
        float(found.abs().max()),
        STATIONARY,
        kind="observed",
    )


def _promised(
    algorithm: WrittenAlgorithm, number: int, tasks: Sequence[Tensor], i: int, run: Mapping[str, Tensor]
) -> TaskCheck:
    theorem = type(algorithm).theorems[number]
    measured, bound = theorem.check(algorithm, tasks[0][i], tasks[1][i], tasks[2][i], run)
    met = bool(torch.isfinite(bound).all())
    bound = torch.where(torch.isfinite(bound), bound, measured)
    called = theorem.check.__name__.replace("_", " ")
    condition = "in exact arithmetic, with the slack for rounding that the program gives"
    return TaskCheck(
        f"theorem: {called}",
        theorem.statement,
        condition if met else f"its condition is NOT met on this task; {condition}",
        measured,
        bound,
        ("step",),
        met,
    )
