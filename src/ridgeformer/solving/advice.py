"""One sentence for every way a solve can end: what was reached, and what to do about it."""

from __future__ import annotations

from math import log, sqrt

from ridgeformer.solving.lanczos import SpectrumEnds
from ridgeformer.solving.solution import Status

__all__ = ["advise"]


def advise(
    status: Status,
    *,
    method: str,
    reached: float,
    tol: float,
    steps: int,
    ends: SpectrumEnds,
    given: tuple[float, float] | None,
    ridge: float,
    floor: float,
    fit_error: float | None = None,
    subnormal: bool = False,
) -> str:
    """Return the sentence for a status.

    Args:
        status: how it ended.
        method: the solver's name.
        reached: the float64 relative residual.
        tol: the relative residual asked for.
        steps: iterations taken.
        ends: estimated ends of the spectrum worked with.
        given: ends that were given, if any.
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
            f"{fit_error:.1e} in root mean square (estimated). Take more centres, or method='auto' for all rows."
        )
    if status is Status.STOPPED:
        return f"Stopped by the callback after {steps} steps: {at}."
    if status is Status.DIVERGED:
        return _diverged(method, steps, ends, given, ridge)
    if status is Status.BREAKDOWN and subnormal:
        return (
            f"Coefficients underflow: {at}. Multiply the targets by a power of ten, or use float64 if this is float32."
        )
    if status is Status.BREAKDOWN:
        tiny = (
            f"; the ridge {ridge:.1e} is below the round-off {floor:.1e} of the kernel matrix" if ridge < floor else ""
        )
        return f"Round-off stops progress: {at}{tiny}. Use float64 if this is float32; else raise ridge or tol."
    return f"Stopped after {steps} steps: {at}. {_more_steps(method, tol, ends)}"


def _diverged(method: str, steps: int, ends: SpectrumEnds, given: tuple[float, float] | None, ridge: float) -> str:
    if method == "neumann":
        norm = ends.high - ridge
        return (
            f"Diverged after {steps} steps: the Neumann series needs ||K|| < ridge, and ||K|| is at least {norm:.4g} "
            f"with ridge {ridge:.4g}. Use method='cg', or a ridge above {norm:.4g}."
        )
    return (
        f"Diverged after {steps} steps: an eigenvalue (about {ends.high:.4g}) lies above the spectrum's end "
        f"({(given[1] if given else ends.high_safe):.4g}). Use method='cg', which needs none, or give a larger one."
    )


def _more_steps(method: str, tol: float, ends: SpectrumEnds) -> str:
    low = max(ends.low, 1e-300)
    kappa = max(ends.high / low, 1.0)
    if not kappa < 1e15:
        return "The condition number is beyond what float64 resolves: raise the ridge."
    cg = max(1, round(sqrt(kappa) * log(2 / tol) / 2))
    what = "preconditioned condition number" if ends.preconditioned else "condition number"
    if method in ("cg", "pcg", "mixed_pcg"):
        other = "method='pcg' with preconditioner='nystrom'" if method == "cg" else "a preconditioner of higher rank"
        return f"At the {what} found so far ({kappa:.1e}) about {cg} steps are needed: raise max_steps, or use {other}."
    return (
        f"At {what} {kappa:.1e} conjugate gradients would need about {cg} steps: use method='cg', or raise max_steps."
    )
