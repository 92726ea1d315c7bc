"""The ways to a solution: each takes a system and a plan, and returns a record of how it went."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ridgeformer.algorithms import Centres, Direct, Iterative, MixedConjugateGradients, MixedDirect, Preconditioned
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel
from ridgeformer.solving.arguments import Arguments, check_memory
from ridgeformer.solving.direct import cholesky_solve
from ridgeformer.solving.engines import Engine, Stored, Triangle, build_engine
from ridgeformer.solving.engines.base import LinAlgError
from ridgeformer.solving.engines.stored import assemble
from ridgeformer.solving.lanczos import SpectrumEnds, from_coefficients, lanczos_ends
from ridgeformer.solving.mixed_direct import mixed_direct
from ridgeformer.solving.mixed_pcg import mixed_pcg
from ridgeformer.solving.plan import Plan
from ridgeformer.solving.preconditioners import Builder, Identity, PivotedCholesky, builder
from ridgeformer.solving.run import Output, Run, run
from ridgeformer.solving.semidefinite import refuse_negative
from ridgeformer.solving.solution import Status
from ridgeformer.solving.subset import subset_regression
from ridgeformer.solving.system import RidgeSystem

__all__ = ["Outcome", "follow", "require_range"]

MIXED_STEPS = 500
"""Steps of `mixed_pcg` at most unless told."""

SMALL = 2000
"""Up to so many rows the ends of a spectrum cost nothing worth saving."""

STEPS_SHOWN = 5
"""Steps taken by an algorithm that cannot converge, to show it diverging."""


@dataclass(frozen=True)
class Outcome:
    """What a route found, and with which system and plan.

    Attributes:
        system: the system, with the engine that was used.
        record: how it went.
        ends: of the spectrum.
        plan: what was done.
        factor: a Cholesky factor of A, if there is one.
        fit_error: the error of a subset fit, if it is one.
    """

    system: RidgeSystem
    record: Run
    ends: SpectrumEnds
    plan: Plan
    factor: Tensor | None = None
    fit_error: Tensor | None = None


def follow(
    plan: Plan, system: RidgeSystem, engine: Engine | None, y: Tensor, output: Output, asked: Arguments
) -> Outcome:
    """Carry out a plan; `engine` is one that was given, to be used instead of the plan's.

    Whatever the route, the answer is settled here: rounded to what the caller gets, then judged.
    """
    working = getattr(torch, plan.working)
    if not isinstance(plan.algorithm, Direct):
        engine = engine or _engine(plan, system.kernel, system.X, working)
        require_range(engine)
        system = RidgeSystem(system.kernel, system.X, system.ridge, engine)
    try:
        outcome = _route(plan, system, y, output, asked)
    except LinAlgError:  # a preconditioner or a core that round-off has made indefinite
        outcome = Outcome(system, Run(torch.zeros_like(y), y, Status.BREAKDOWN), quick_ends(system, asked.seed), plan)
    _settle(outcome, y, output, asked.tol)
    return outcome


def _route(plan: Plan, system: RidgeSystem, y: Tensor, output: Output, asked: Arguments) -> Outcome:
    algorithm = plan.algorithm
    if isinstance(algorithm, Direct):
        return _direct(plan, system, y, asked)
    if isinstance(algorithm, MixedDirect):
        return _mixed_direct(plan, system, y, output, asked)
    if isinstance(algorithm, Centres):
        return _subset(plan, system, y, output, asked)
    if isinstance(algorithm, MixedConjugateGradients):
        return _mixed_pcg(plan, algorithm, system, y, output, asked)
    if isinstance(algorithm, Iterative):
        return _iterate(plan, algorithm, system, y, output, asked)
    raise InputError(f"algorithm {algorithm.name!r} has no iteration: it cannot solve.")


def _settle(outcome: Outcome, y: Tensor, output: Output, tol: float) -> None:
    """Round the coefficients to what the caller gets, and let the float64 residual of exactly those decide.

    Raises:
        InputError: the precision of the rows cannot hold the coefficients.
    """
    record, scale = outcome.record, y.norm(dim=0)
    found = record.alpha.to(torch.float64)
    if not bool(torch.isfinite(found).all()):
        found, record.residual, record.status = torch.zeros_like(y), y, Status.BREAKDOWN
    alpha = output.rounded(found)
    if not bool(torch.isfinite(alpha).all()):
        raise InputError(
            f"coefficients reach {float((found.abs() * output.unit).max()):.1e}, which {output.dtype} cannot hold: "
            "rescale the targets, raise the ridge, or use float64."
        )
    if not torch.equal(alpha, found):
        record.residual = outcome.system.residual(alpha, y)
    record.alpha = alpha
    reached = (record.residual.norm(dim=0) / torch.where(scale > 0, scale, 1.0)).max()
    if bool(reached <= tol) and record.status is not Status.STOPPED:
        record.status = Status.CONVERGED
    elif record.status is Status.CONVERGED:
        record.status = Status.BREAKDOWN


def require_range(engine: Engine) -> None:
    """Refuse an engine whose float64 products are not to be trusted on a kernel of this size."""
    low, high = engine.span
    if (low, high) == Engine.span:
        return
    own = engine.diagonal()
    used = own[own > 0]
    if len(used) and not low <= float(used.min()) <= float(used.max()) <= high:
        raise InputError(
            f"k(x, x) lies between {float(used.min()):.1e} and {float(used.max()):.1e}, and the engine "
            f"{engine.name!r} is right from {low:.1e} to {high:.1e}: use engine='stored' or 'tiles', or scale the rows."
        )


def _engine(plan: Plan, kernel: Kernel, X: Tensor, working: torch.dtype) -> Engine:
    if plan.engine == "stored":
        return Stored(kernel, X, working, exact=plan.exact)
    if plan.engine == "triangle":
        return Triangle(kernel, X, working, bits=plan.bits)
    return build_engine(plan.engine, kernel, X, working)


def _direct(plan: Plan, system: RidgeSystem, y: Tensor, asked: Arguments) -> Outcome:
    check_memory(system.n, system.X.dtype)
    result = cholesky_solve(system, y)
    norms = y.norm(dim=0)
    norms = torch.where(norms > 0, norms, 1.0)
    history = [(values / norms).to(system.X.dtype) for values in (y.norm(dim=0), result.residual.norm(dim=0))]
    record = Run(result.alpha, result.residual, Status.BREAKDOWN, 1, history)
    return Outcome(system, record, spectrum_ends(system, asked.seed), plan, result.factor)


def _mixed_direct(plan: Plan, system: RidgeSystem, y: Tensor, output: Output, asked: Arguments) -> Outcome:
    working, engine = getattr(torch, plan.working), system.engine
    K = engine.lower() if isinstance(engine, Triangle) else assemble(system.kernel, system.X, working, working)
    record = mixed_direct(system, K, y, output, tol=asked.tol)
    del K
    return Outcome(system, record, quick_ends(system, asked.seed), plan)


def _mixed_pcg(
    plan: Plan,
    algorithm: MixedConjugateGradients,
    system: RidgeSystem,
    y: Tensor,
    output: Output,
    asked: Arguments,
) -> Outcome:
    sized = _sized(builder(algorithm.preconditioner), plan)
    inverse = sized.build(system, torch_generator(asked.seed, "preconditioner"))
    steps = algorithm.steps or MIXED_STEPS
    record = mixed_pcg(
        system, inverse, y, output, tol=asked.tol, max_steps=steps, callback=asked.callback, keep=asked.keep
    )
    return Outcome(system, record, quick_ends(system, asked.seed), plan)


def _sized(chosen: Builder, plan: Plan) -> Builder:
    """Return the builder with the rank and the blocks of the plan, unless it has its own."""
    if not isinstance(chosen, PivotedCholesky):
        return chosen
    rank = chosen.rank if chosen.rank is not None or not plan.rank else plan.rank
    block = chosen.block if chosen.block is not None or not plan.block else plan.block
    return replace(chosen, rank=rank, block=block)


def _subset(plan: Plan, system: RidgeSystem, y: Tensor, output: Output, asked: Arguments) -> Outcome:
    fit = subset_regression(system, y, output, plan.rank, torch_generator(asked.seed, "centres"))
    norms = y.norm(dim=0)
    norms = torch.where(norms > 0, norms, 1.0)
    relative = fit.residual.norm(dim=0) / norms
    record = Run(fit.alpha, fit.residual, Status.SUBSET, 1, [y.norm(dim=0) / norms, relative])
    own = float(system.engine.diagonal().mean())
    ends = SpectrumEnds(own + system.ridge, own + system.ridge, own + system.ridge)
    return Outcome(system, record, ends, plan, fit_error=fit.fit_error)


def _iterate(
    plan: Plan, algorithm: Iterative, system: RidgeSystem, y: Tensor, output: Output, asked: Arguments
) -> Outcome:
    ends = spectrum_ends(system, asked.seed) if algorithm.needs_spectrum else None
    hopeless = ends is not None and algorithm.diverges((ends.low, ends.high), system.ridge)
    steps = algorithm.steps or algorithm.patience(system.n)
    assumed = (system.ridge, ends.high_safe if ends else system.ridge)
    chosen = builder(algorithm.preconditioner if isinstance(algorithm, Preconditioned) else None)
    inverse = chosen.build(system, torch_generator(asked.seed, "preconditioner"))
    record = run(
        lambda b: algorithm.iterate(system, b, spectrum=assumed, precondition=inverse),
        system,
        y,
        output,
        tol=asked.tol,
        max_steps=min(steps, STEPS_SHOWN) if hopeless else steps,
        callback=asked.callback,
        keep=asked.keep,
    )
    if hopeless and record.status is Status.MAX_STEPS:
        record.status = Status.DIVERGED
    if ends is None:
        preconditioned = not isinstance(chosen, Identity)
        ends = from_coefficients(record.gammas, record.betas, preconditioned=preconditioned)
        if ends is not None and not preconditioned:
            refuse_negative(ends.low - system.ridge, system)
    return Outcome(system, record, ends or spectrum_ends(system, asked.seed), plan)


def spectrum_ends(system: RidgeSystem, seed: int, steps: int = 30) -> SpectrumEnds:
    """Return an estimate of the ends of the spectrum of A; refuse a kernel that shows a negative eigenvalue."""
    generator = torch_generator(seed, "spectrum")
    ends = lanczos_ends(system.apply, system.n, like=system.X, generator=generator, steps=steps)
    refuse_negative(ends.low - system.ridge, system)
    return ends


def quick_ends(system: RidgeSystem, seed: int) -> SpectrumEnds:
    """Return the ends in float64 where rows are few, else what two products in the working precision show.

    Two products come near the upper end and not near the lower one.
    """
    if system.n > SMALL:
        return lanczos_ends(system.apply, system.n, like=system.X, generator=torch_generator(seed, "spectrum"), steps=2)
    return spectrum_ends(RidgeSystem(system.kernel, system.X.to(torch.float64), system.ridge), seed)
