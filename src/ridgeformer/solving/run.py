"""One run of an algorithm on a system: its limits, its progress, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from sys import float_info
from typing import TypeAlias

import torch
from torch import Tensor

from ridgeformer.algorithms import Iterate, Iterative
from ridgeformer.algorithms.base import Precondition
from ridgeformer.solving.distance import describe_distance
from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues
from ridgeformer.solving.normal_equations import Told
from ridgeformer.solving.plan import FACTORISED, Plan
from ridgeformer.solving.system import RidgeSystem, refuse_negative

__all__ = ["Callback", "Doubling", "Run", "Status", "iterate", "refine"]

Callback: TypeAlias = Callable[[int, Tensor, Tensor], bool | None]
"""Called after every step with (step, alpha, relative residuals); returning True stops the run."""

GROWTH = 1e4
"""A stationary iteration whose residual has grown this much has diverged; CG's may grow and come back."""


class Status(StrEnum):
    """How a solve ended."""

    CONVERGED = "converged"
    MAX_STEPS = "max_steps"
    DIVERGED = "diverged"
    BREAKDOWN = "breakdown"
    STOPPED = "stopped"
    SUBSET = "subset"


@dataclass(frozen=True)
class Doubling:
    """What a number of centres came to.

    Attributes:
        centres: their number.
        left_out: per output, the root mean square leave-one-out error at sampled training rows. The weight of a row in
            its own prediction is estimated from other rows where columns of K are not kept.
        change: per output, the root mean square difference from the fit on half as many, over the training rows; None
            for the first.
        seconds: what it took.
    """

    centres: int
    left_out: Tensor
    change: Tensor | None
    seconds: float


@dataclass
class Run:
    """A run in progress: its system and plan, and what it has come to.

    Attributes:
        keep: whether to keep every iterate.
        residual: y - A alpha in float64, which belongs to `alpha` exactly as it stands here.
        relative: ||r_t|| / ||y|| of every step, by the algorithm's own recursion.
        gammas, betas: CG's coefficients for the first output, from which its Ritz values follow.
        factor: a Cholesky factor of A, if there is one.
        fit_error: the error of a fit on centres ...
        left_out: ... and its leave-one-out error, from `left_out_sample` at some rows.
        doublings: what each number of centres came to.
        budget: seconds that may be used, where there is a choice.
        centres: the rows that are centres ...
        seconds: ... and what their fit took, before it was resumed included.
        checkpoint: the folder where a fit on centres writes down how far it is, of which `problem`.
        progress: called during passes over the rows.
    """

    system: RidgeSystem
    plan: Plan
    seed: int = 0
    callback: Callback | None = None
    keep: bool = False
    alpha: Tensor = field(init=False)
    residual: Tensor = field(init=False)
    status: Status = Status.MAX_STEPS
    steps: int = 0
    relative: list[Tensor] = field(default_factory=list)
    iterates: list[Tensor] = field(default_factory=list)
    gammas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)
    spectrum: ExtremeEigenvalues | None = None
    factor: Tensor | None = None
    fit_error: Tensor | None = None
    left_out: Tensor | None = None
    left_out_sample: Tensor | None = None
    doublings: tuple[Doubling, ...] = ()
    budget: float = inf
    centres: Tensor | None = None
    seconds: float = 0.0
    checkpoint: Path | None = None
    problem: dict[str, object] | None = None
    progress: Told | None = None

    def __post_init__(self) -> None:
        y = self.system.y
        self.alpha, self.residual = torch.zeros_like(y), y
        self.relative.append(self.relative_norms(y))

    def carried_on(self, system: RidgeSystem, plan: Plan) -> Run:
        """Return a run by another plan, with an engine of its own, that starts where this one came to a halt."""
        gained = (self.residual.norm(dim=0) < self.system.norms) & torch.isfinite(self.alpha).all(0)
        run = Run(system, plan, self.seed, self.callback, self.keep)
        run.alpha = torch.where(gained, self.alpha.to(run.alpha), 0.0)
        run.residual = torch.where(gained, self.residual, self.system.y)
        run.steps, run.relative, run.iterates = self.steps, self.relative, self.iterates
        return run

    def relative_norms(self, residual: Tensor) -> Tensor:
        """Return ||r|| / ||y|| per output."""
        return residual.norm(dim=0) / self.system.norms

    def note(self, alpha: Tensor, relative: Tensor) -> bool:
        """Write a step down; False if the run ends here."""
        if not bool(torch.isfinite(relative).all() and torch.isfinite(alpha).all()):
            self.status = Status.DIVERGED
            return False
        self.alpha, self.steps = alpha, self.steps + 1
        self.relative.append(relative)
        if self.keep:
            self.iterates.append(alpha)
        if self.callback is not None and self.callback(self.steps, self.system.values(alpha), relative):
            self.status = Status.STOPPED
            return False
        return True

    def advice(self, *, subnormal: bool) -> str:
        """Return one sentence on how it ended, with the numbers, and what to do.

        `subnormal` says whether coefficients lie below the normal range of the precision they are returned in.
        """
        system, spectrum = self.system, self.spectrum
        assert spectrum is not None
        reached = float(self.relative_norms(self.residual).max())
        at = f"the relative residual is {reached:.1e} (asked: {system.tol:.0e})"
        match self.status:
            case Status.CONVERGED:
                return f"Converged: {at}."
            case Status.SUBSET:
                return self._distance()
            case Status.STOPPED:
                return f"Stopped by the callback after {self.steps} steps: {at}."
            case Status.DIVERGED:
                bounds = spectrum.low, spectrum.high
                why = self.plan.algorithm.advise_diverged(bounds, spectrum.high_safe, system.ridge)
                return f"Diverged after {self.steps} steps: {why}"
            case Status.BREAKDOWN if subnormal:
                return (
                    f"Coefficients underflow: {at}. Multiply the targets by a power of ten, or use float64 if this is "
                    "float32."
                )
            case Status.BREAKDOWN:
                ridge, floor = system.ridge, system.kernel_roundoff
                tiny = f"; the ridge {ridge:.1e} is below the round-off {floor:.1e} of the kernel matrix"
                return (
                    f"Round-off stops progress: {at}{tiny if ridge < floor else ''}. Use float64 if this is float32; "
                    "else raise ridge or tol."
                )
        kappa = max(spectrum.high / max(spectrum.low, 1e-300), 1.0)
        if not kappa < 1e15:
            remedy = "The condition number is beyond what float64 resolves: raise the ridge."
        else:
            matrix = "preconditioned condition number" if spectrum.preconditioned else "condition number"
            remedy = self.plan.algorithm.advise_more_steps(system.tol, kappa, matrix)
        return f"Stopped after {self.steps} steps: {at}. {remedy}"

    def _distance(self) -> str:
        """Return one sentence on a fit on centres: how far it is from that of all rows, and how that is known."""
        system = self.system
        assert self.fit_error is not None
        assert self.centres is not None
        size = system.norms * system.unit / system.n**0.5
        from_above = system.n * self.plan.rank <= FACTORISED
        return describe_distance(len(self.centres), system.n, self.fit_error * system.unit, size, from_above=from_above)


def refine(run: Run, one_pass: Callable[[], bool]) -> None:
    """Repeat a pass, which advances the run and says whether it finished, while the float64 residual halves.

    An algorithm's own residual drifts from the true one, so when it reports success the true residual is computed in
    float64, and another pass works on that. Coefficients are rounded to what the caller gets before they are judged.
    """
    system, before = run.system, float_info.max
    while True:  # ends, as the residual halves each time
        finished = one_pass()
        run.alpha = system.rounded(run.alpha)
        run.residual = system.residual(run.alpha, system.y)
        reached = float(run.relative_norms(run.residual).max())
        if reached <= run.system.tol and run.status is not Status.STOPPED:
            run.status = Status.CONVERGED
        elif finished and not reached <= before / 2:
            run.status = Status.BREAKDOWN
        elif finished:
            before = reached
            continue
        return


def iterate(run: Run, algorithm: Iterative, assumed: tuple[float, float], inverse: Precondition, steps: int) -> None:
    """Iterate until the float64 residual of every output is below tol ||y||, in the precision of the rows.

    `assumed` bounds the extreme eigenvalues of A, for algorithms that need them; `inverse` is the preconditioner.
    """
    system, tol = run.system, run.system.tol
    run.relative = [one.to(system.X.dtype) for one in run.relative]

    def one_pass() -> bool:
        """Advance until the algorithm's own residual is small (True) or something ends the run (False)."""
        base = run.alpha.to(system.X.dtype)
        b = run.residual.to(base.dtype)
        scale = system.norms.to(b.dtype)
        if bool((b.norm(dim=0) <= tol * scale).all()):
            return True
        run.gammas, run.betas = [], []
        for state in algorithm.iterate(system, b, spectrum=assumed, precondition=inverse):
            if run.steps >= steps:
                return False
            relative = state.residual.norm(dim=0) / scale
            if not run.note(base + state.alpha, relative):
                return False
            # conjugate gradients whose residuals are lost in underflow have nothing left to divide by
            idle = state.gamma is not None and bool((state.gamma[relative > tol] == 0).all())
            if idle or bool((relative <= tol).all()):
                return True
            if (ended := _went_wrong(run, state, relative)) is not None:
                run.status = ended
                return False
        raise AssertionError("an iterative algorithm never ends by itself")

    refine(run, one_pass)


def _went_wrong(run: Run, state: Iterate, relative: Tensor) -> Status | None:
    """Return how the run ends here, if it does; note the coefficients of conjugate gradients."""
    if state.curvature is None or state.gamma is None or state.beta is None:
        return Status.DIVERGED if float(relative.max()) > GROWTH else None
    run.gammas.append(float(state.gamma[0]))
    run.betas.append(float(state.beta[0]))
    lowest = float(torch.where(relative > run.system.tol, state.curvature, 1.0).min())
    if lowest > 0:
        return None
    refuse_negative(lowest - run.system.ridge, run.system)
    return Status.BREAKDOWN
