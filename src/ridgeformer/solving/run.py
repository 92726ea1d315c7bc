"""Running an iterative method until it is done, and telling how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from sys import float_info
from typing import TypeAlias

import torch
from torch import Tensor

from ridgeformer.algorithms import Iterate
from ridgeformer.solving.semidefinite import refuse_negative
from ridgeformer.solving.solution import Status
from ridgeformer.solving.system import RidgeSystem

__all__ = ["Callback", "Output", "Run", "refine", "run"]

Callback: TypeAlias = Callable[[int, Tensor, Tensor], bool | None]
"""Called after every step with (step, alpha, relative residuals); returning True stops the run."""

Start: TypeAlias = Callable[[Tensor], Iterator[Iterate]]
"""Starts an algorithm on right-hand sides."""

GROWTH = 1e4
"""A stationary method whose residual has grown this much has diverged; CG's may grow and come back."""


@dataclass(frozen=True, eq=False)
class Output:
    """The unit and the precision in which coefficients are returned; solvers work on targets of order one.

    Attributes:
        unit: a power of two for each output, by which targets were divided.
        dtype: the precision of the rows as given.
    """

    unit: Tensor
    dtype: torch.dtype

    def values(self, alpha: Tensor) -> Tensor:
        """Return the coefficients as the caller gets them; what the precision cannot hold becomes infinite."""
        return (alpha.to(torch.float64) * self.unit).to(self.dtype)

    def rounded(self, alpha: Tensor) -> Tensor:
        """Return, in float64 and in the unit solvers work in, the very numbers that the caller gets."""
        return self.values(alpha).to(torch.float64) / self.unit


@dataclass
class Run:
    """The record of one run, filled while it goes; `residual` belongs to `alpha` exactly as it stands here."""

    alpha: Tensor
    residual: Tensor
    status: Status = Status.MAX_STEPS
    steps: int = 0
    relative: list[Tensor] = field(default_factory=list)
    iterates: list[Tensor] = field(default_factory=list)
    gammas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)


def run(
    start: Start,
    system: RidgeSystem,
    y: Tensor,
    output: Output,
    *,
    tol: float,
    max_steps: int,
    callback: Callback | None,
    keep: bool,
) -> Run:
    """Iterate until the float64 residual of every column of y (float64, of order one) is below tol ||y||.

    A method's own residual drifts from the true one, so when it reports success the true residual is
    computed in float64; if that is not there yet the method starts again on it (iterative refinement),
    as long as each such pass at least halves it.
    """
    scale = y.norm(dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    zero = y.new_zeros(y.shape, dtype=system.X.dtype)
    record = Run(zero, y, relative=[(y.norm(dim=0) / scale).to(zero.dtype)])
    return refine(
        record,
        system,
        y,
        output,
        tol,
        lambda: _one_pass(start, system, record, scale, tol, max_steps, callback, keep),
    )


def refine(
    record: Run, system: RidgeSystem, y: Tensor, output: Output, tol: float, one_pass: Callable[[], bool]
) -> Run:
    """Repeat a pass, which advances the record and says whether it finished, while the float64 residual halves.

    Coefficients are rounded to what the caller gets before they are judged, never after.
    """
    scale = y.norm(dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    before = float_info.max
    while True:  # ends, as the residual halves each time
        finished = one_pass()
        record.alpha = output.rounded(record.alpha)
        record.residual = system.residual(record.alpha, y)
        reached = float((record.residual.norm(dim=0) / scale).max())
        if reached <= tol and record.status is not Status.STOPPED:
            record.status = Status.CONVERGED
        elif finished and not reached <= before / 2:
            record.status = Status.BREAKDOWN
        elif finished:
            before = reached
            continue
        return record


def _one_pass(
    start: Start,
    system: RidgeSystem,
    record: Run,
    scale: Tensor,
    tol: float,
    max_steps: int,
    callback: Callback | None,
    keep: bool,
) -> bool:
    """Advance the record until the method's own residual is small (True) or something ends the run (False)."""
    base = record.alpha.to(system.X.dtype)
    b = record.residual.to(base.dtype)
    scale = scale.to(b.dtype)
    if bool((b.norm(dim=0) <= tol * scale).all()):
        return True
    record.gammas, record.betas = [], []
    for state in start(b):
        if record.steps >= max_steps:
            return False
        alpha = base + state.alpha
        relative = state.residual.norm(dim=0) / scale
        if not bool(torch.isfinite(relative).all() and torch.isfinite(alpha).all()):
            record.status = Status.DIVERGED
            return False
        record.alpha, record.steps = alpha, record.steps + 1
        record.relative.append(relative)
        if keep:
            record.iterates.append(alpha)
        if callback is not None and callback(record.steps, alpha, relative):
            record.status = Status.STOPPED
            return False
        if bool((relative <= tol).all()) or _idle(state, relative, tol):
            return True
        if (ended := _went_wrong(state, relative, tol, system, record)) is not None:
            record.status = ended
            return False
    raise AssertionError("an iterative method never ends by itself")


def _went_wrong(state: Iterate, relative: Tensor, tol: float, system: RidgeSystem, record: Run) -> Status | None:
    if state.curvature is None or state.gamma is None or state.beta is None:
        return Status.DIVERGED if float(relative.max()) > GROWTH else None
    record.gammas.append(float(state.gamma[0]))
    record.betas.append(float(state.beta[0]))
    open_columns = relative > tol
    lowest = float(torch.where(open_columns, state.curvature, 1.0).min())
    if lowest <= 0:
        refuse_negative(lowest - system.ridge, system)
        return Status.BREAKDOWN
    return None


def _idle(state: Iterate, relative: Tensor, tol: float) -> bool:
    """Whether conjugate gradients has nothing left to divide by: its residuals are lost in underflow."""
    return state.gamma is not None and bool((state.gamma[relative > tol] == 0).all())
