"""One sentence for every way a solve can end: what was reached, and what to do about it."""

from __future__ import annotations

from ridgeformer.algorithms import Algorithm
from ridgeformer.solving.lanczos import SpectrumEnds
from ridgeformer.solving.solution import Status

__all__ = ["advise"]


def advise(
    status: Status,
    *,
    algorithm: Algorithm,
    reached: float,
    tol: float,
    steps: int,
    ends: SpectrumEnds,
    ridge: float,
    floor: float,
    fit_error: float | None = None,
    subnormal: bool = False,
) -> str:
    """Return the sentence for a status.

    Args:
        status: how it ended.
        algorithm: the one that ran.
        reached: the float64 relative residual.
        tol: the relative residual asked for.
        steps: iterations taken.
        ends: estimated ends of the spectrum worked with.
        ridge: the ridge of the system.
        floor: the round-off of K, below which a ridge has no effect.
        fit_error: of a fit on centres.
        subnormal: whether coefficients lie below the normal range of the precision they are returned in.
    """
    at = f"the relative residual is {reached:.1e} (asked: {tol:.0e})"
    if status is Status.CONVERGED:
        return f"Converged: {at}."
    if status is Status.SUBSET:
        return (
            "Fitted on centres only: over the training rows the fit differs from that of all rows by at most about "
            f"{fit_error:.1e} in root mean square (estimated). Take more centres, or algorithm='auto' for all rows."
        )
    if status is Status.STOPPED:
        return f"Stopped by the callback after {steps} steps: {at}."
    if status is Status.DIVERGED:
        why = algorithm.advise_diverged((ends.low, ends.high), ends.high_safe, ridge)
        return f"Diverged after {steps} steps: {why}"
    if status is Status.BREAKDOWN and subnormal:
        return (
            f"Coefficients underflow: {at}. Multiply the targets by a power of ten, or use float64 if this is float32."
        )
    if status is Status.BREAKDOWN:
        tiny = (
            f"; the ridge {ridge:.1e} is below the round-off {floor:.1e} of the kernel matrix" if ridge < floor else ""
        )
        return f"Round-off stops progress: {at}{tiny}. Use float64 if this is float32; else raise ridge or tol."
    kappa = max(ends.high / max(ends.low, 1e-300), 1.0)
    if not kappa < 1e15:
        what_to_do = "The condition number is beyond what float64 resolves: raise the ridge."
    else:
        matrix = "preconditioned condition number" if ends.preconditioned else "condition number"
        what_to_do = algorithm.advise_more_steps(tol, kappa, matrix)
    return f"Stopped after {steps} steps: {at}. {what_to_do}"
