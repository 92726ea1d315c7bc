"""`solve`: kernel ridge regression by an algorithm, with an answer that says how good it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ridgeformer.algorithms import (
    Algorithm,
    Auto,
    Centres,
    Direct,
    Iterative,
    MixedConjugateGradients,
    MixedDirect,
    Preconditioned,
    resolve,
)
from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.core.checks import ArrayLike, as_matrix, as_targets, positive, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.memory import free_bytes
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel
from ridgeformer.solving.affordable import BUDGET, within_budget
from ridgeformer.solving.centres import double_centres, fit_on_centres
from ridgeformer.solving.direct import factorise_in_place, refine_with_factor, solve_directly, solve_with_factor
from ridgeformer.solving.engines import ENGINES, Engine, Triangle, build_engine
from ridgeformer.solving.engines.base import LinAlgError
from ridgeformer.solving.engines.stored import assemble
from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues, from_coefficients, lanczos
from ridgeformer.solving.fit import Fit
from ridgeformer.solving.mixed_pcg import mixed_pcg
from ridgeformer.solving.normal_equations import Told
from ridgeformer.solving.plan import Plan, choose_plan, plan_in_float64
from ridgeformer.solving.preconditioners import Identity, PivotedCholesky, builder
from ridgeformer.solving.run import Callback, Doubling, Run, Status, iterate
from ridgeformer.solving.system import RidgeSystem, check_memory, refuse_negative, require_range, scaled_system

__all__ = ["TOLERANCE", "solve"]

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""The relative residual asked for unless told."""

COMPARED_ROWS = 64
"""Rows of one float64 product at which a given engine is compared with its kernel."""

MIXED_STEPS = 500
"""Largest number of steps of `mixed_pcg` unless told."""

SMALL = 2000
"""Largest n at which thirty products for the extreme eigenvalues are cheap enough to always make."""

STEPS_SHOWN = 5
"""Steps taken by an algorithm that cannot converge, to show it diverging."""


def solve(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    ridge: float,
    *,
    algorithm: str | Algorithm = "auto",
    tol: float | None = None,
    engine: str | Engine | None = None,
    memory: int | None = None,
    budget: float | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    keep_iterates: bool = False,
    checkpoint: str | Path | None = None,
    progress: Told | None = None,
) -> Fit:
    """Solve (K + ridge I) alpha = y.

    Holds for positive semidefinite kernels and ridge > 0. Computed in the precision of X or, by the mixed
    algorithms, faster in float32; the residual that decides about convergence, and every bound, is computed in
    float64 with the kernel evaluated in float64.

    Args:
        kernel: any kernel of `ridgeformer.kernels`, or your own `Kernel`.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs); outputs share every product with K.
        ridge: lambda > 0.
        algorithm: a value such as `ConjugateGradients(steps=20)`, which owns its options, or shorthand: auto, which
            chooses by size and memory (`Fit.plan` says what and why), direct, mixed_direct, mixed_pcg, nystrom,
            richardson, neumann, chebyshev, heavy_ball, nesterov, cg or pcg.
        tol: largest ||y - A alpha|| / ||y||, per output; 1e-10 in float64, 1e-5 in float32.
        engine: how products with K are formed: triangle, stored, tiles, fused, attention, features, dask or `Engine`;
            chosen by default.
        memory: bytes that may be used beside the data; by default what is free.
        budget: seconds that `auto` may plan for. Above 60,000 rows it is 120 unless told: if all rows would take
            longer, the fit is one on centres, and says so. Centres that are doubled take as long at most.
        seed: for the randomised preconditioner, the centres and the estimate of extreme eigenvalues.
        callback: called with (step, alpha, relative residuals) after every step; True stops.
        keep_iterates: keep alpha of every step in `Fit.iterates`.
        checkpoint: a folder where a fit on centres writes down every step, so that the same call goes on with one that
            was killed and gives the same answer, bit for bit on the same machine.
        progress: called during the passes of a fit on centres with what is done, the fraction done of it, and the
            seconds that are left.

    Returns:
        A frozen `Fit`. One that did not converge says so in `status` and `advice`.

    Raises:
        InputError: input for which no answer exists; each subclass says which.
        DataFileError: a checkpoint of another problem, an edited one, or a full disk.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> fit = solve(Exponential(1.0), [[0.0], [1.0]], [0.0, 1.0], ridge=0.1, algorithm="cg")
        >>> fit.status.value, fit.steps
        ('converged', 2)
    """
    X = as_matrix(X, "X").detach()
    y = as_targets(y, X).detach()
    algorithm, ridge, tol = _check_arguments(kernel, X, ridge, algorithm, tol, engine, checkpoint)
    budget = None if budget is None else positive(budget, "budget (seconds)", "it is what a solve may take")
    seed, engine = whole(seed, "seed", 0), None if isinstance(engine, str) and engine == "auto" else engine
    free = free_bytes(X.device) if memory is None else whole(memory, "memory (bytes)", 1)
    with torch.no_grad():
        system, log_scale = scaled_system(kernel, X, ridge, y.reshape(len(y), -1), tol, free)
        system = system.in_range()
        if isinstance(engine, Engine):
            _require_same_kernel(engine, system)
        plan = choose_plan(system, algorithm, engine)
        if isinstance(algorithm, Auto) and algorithm.steps is None and engine is None:
            plan = _begun(system, checkpoint) or within_budget(system, plan, budget, seed)
        if isinstance(engine, Engine):
            system = system.with_engine(engine)
        if isinstance(plan.algorithm, Centres):  # where centres are nearly dependent their coefficients cancel
            system = replace(system, coefficient_dtype=torch.float64)
        if checkpoint is not None and not isinstance(plan.algorithm, Centres):
            plan = replace(plan, reasons=(*plan.reasons, "no checkpoint is written: only fits on centres go on later"))
        run = Run(system, plan, seed, callback, keep_iterates, budget=BUDGET if budget is None else budget)
        run.checkpoint, run.progress = None if checkpoint is None else Path(checkpoint), progress
        run = _follow(run)
        stalled = run.status in (Status.BREAKDOWN, Status.MAX_STEPS)
        if stalled and isinstance(algorithm, Auto) and algorithm.steps is None and engine is None:
            again = plan_in_float64(system, plan)
            if again is not None and isinstance(again.algorithm, MixedConjugateGradients):
                run = _follow(run.carried_on(system, again))
            elif again is not None:
                run = _follow(Run(system, again, seed, callback, keep_iterates))
        return Fit.of(run, X, y, log_scale)


def _check_arguments(
    kernel: object, X: Tensor, ridge: object, algorithm: object, tol: object, engine: object, checkpoint: object
) -> tuple[Algorithm, float, float]:
    """Return algorithm, ridge and tolerance in usable form, or say what is wrong, what was expected and what to do."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel is {kernel!r}; a kernel object was expected, such as Exponential(temperature=1.0).")
    chosen = resolve(algorithm)
    if checkpoint is not None and not isinstance(chosen, Auto | Centres):
        raise InputError(
            f"checkpoint is given and algorithm {chosen.name!r} writes none: use algorithm='nystrom' or 'auto'."
        )
    if isinstance(chosen, Preconditioned):
        builder(chosen.preconditioner)  # an unknown one is refused before anything is computed
    ridge = positive(ridge, "ridge", "without it the system may be singular")
    largest = torch.finfo(X.dtype).max / 1e6
    if ridge > largest:
        raise InputError(f"ridge is {ridge:g}; {X.dtype} holds at most {largest:.0e}: every prediction would be zero.")
    tol = TOLERANCE[X.dtype] if tol is None else positive(tol, "tol", "it is a relative residual")
    if tol >= 1:
        raise InputError(f"tol is {tol:g}; a relative residual between 0 and 1 was expected.")
    if not isinstance(engine, str | Engine | None):
        raise InputError(f"engine is {engine!r}; a name ({', '.join(sorted(ENGINES))}) or an Engine was expected.")
    if isinstance(engine, str) and engine not in (*ENGINES, "auto"):
        raise unknown_name("engine", engine, ENGINES)
    return chosen, ridge, tol


def _begun(system: RidgeSystem, checkpoint: str | Path | None) -> Plan | None:
    """Return the plan of a fit on centres that was begun in this folder, whatever it would take now."""
    if checkpoint is None or not Path(checkpoint).is_dir():
        return None
    found = [re.fullmatch(r"centres-(\d+)\.safetensors", one.name) for one in Path(checkpoint).iterdir()]
    counts = [int(one[1]) for one in found if one is not None]
    if not counts:
        return None
    plan = choose_plan(system, Centres(count=max(counts)))
    return replace(plan, reasons=(*plan.reasons, f"a fit on {max(counts):,} centres was begun in {checkpoint}"))


def _require_same_kernel(engine: Engine, system: RidgeSystem) -> None:
    """Refuse an engine that was built for other rows or another kernel: compare its diagonal, and a product."""
    if engine.n != system.n:
        raise InputError(f"the engine holds {engine.n:,} rows and X has {system.n:,}: build it from this X.")
    require_range(engine)
    found = engine.diagonal()
    if not torch.allclose(found.to(system.own), system.own, rtol=1e-5, atol=0.0):
        raise InputError(
            f"the engine's k(x, x) is {float(found.mean()):.3g} on average and that of the kernel solved with "
            f"{float(system.own.mean()):.3g}: build the engine from these rows and from kernel.within_range(X)."
        )
    roots = system.kernel.roots(system.X)
    v = (1 / torch.where(roots > 0, roots, 1.0))[:, None]
    rows = torch.linspace(0, system.n - 1, min(COMPARED_ROWS, system.n)).long().to(v.device)
    product = system.kernel.product(system.X[rows].to(torch.float64), system.X.to(torch.float64), v)
    gap = (engine.matmat64(v)[rows].to(product) - product).abs()[:, 0]
    if not bool((gap <= 1e-6 * system.n * roots[rows]).all()):
        raise InputError(
            f"the engine {engine.name!r} multiplies by another matrix than the kernel's (a product differs by "
            f"{float(gap.max()):.1e}): build the engine from these rows and from kernel.within_range(X)."
        )


def _follow(run: Run) -> Run:
    """Carry out a plan.

    Whatever the algorithm, the answer is settled here: rounded to what the caller gets, then judged.
    """
    algorithm, plan, system = run.plan.algorithm, run.plan, run.system
    if not isinstance(algorithm, Direct) and system.given_engine is None:
        options: dict[str, dict[str, int]] = {"stored": {"exact": plan.exact}, "triangle": {"bits": plan.bits}}
        engine = build_engine(
            plan.engine, system.kernel, system.X, getattr(torch, plan.working), **options.get(plan.engine, {})
        )
        run.system = system = system.with_engine(engine)
    try:
        if isinstance(algorithm, Direct):
            _solve_directly(run)
        elif isinstance(algorithm, MixedDirect):
            _solve_mixed_directly(run)
        elif isinstance(algorithm, Centres):
            _solve_on_centres(run, algorithm)
        elif isinstance(algorithm, MixedConjugateGradients):
            _solve_by_mixed_pcg(run, algorithm)
        elif isinstance(algorithm, Iterative):
            _solve_iteratively(run, algorithm)
        else:
            raise InputError(
                f"algorithm {algorithm.name!r} does not iterate on a kernel matrix: use interpret(X, y, Xq) of its "
                "value, or compile it."
                if isinstance(algorithm, WrittenAlgorithm)
                else f"algorithm {algorithm.name!r} has no iteration: it cannot solve."
            )
    except LinAlgError:  # a preconditioner or a core that round-off has made indefinite
        run.alpha, run.residual = torch.zeros_like(system.y), system.y
        run.status, run.spectrum = Status.BREAKDOWN, _extreme_eigenvalues(run, cheaply=True)
    _settle(run)
    return run


def _solve_directly(run: Run) -> None:
    system = run.system
    check_memory(system.n, system.X.dtype)
    run.status, run.steps = Status.BREAKDOWN, 1
    run.alpha, run.residual, run.factor = solve_directly(system, system.y)
    run.relative = [one.to(system.X.dtype) for one in (*run.relative, run.relative_norms(run.residual))]
    if run.factor is None or system.n <= SMALL:
        run.spectrum = _extreme_eigenvalues(run)
        return
    # With a factor a few steps are enough at either end: the smallest eigenvalue is the largest of the inverse.
    factor, generator = run.factor, torch_generator(run.seed, "spectrum")
    top = lanczos(system.apply, system.n, like=system.X, generator=generator, steps=4)
    bottom = lanczos(lambda v: solve_with_factor(factor, v), system.n, like=system.X, generator=generator, steps=2)
    run.spectrum = replace(top, low=min(top.low, 1 / bottom.high))
    refuse_negative(run.spectrum.low - system.ridge, system)


def _solve_mixed_directly(run: Run) -> None:
    """Factorise in the working precision, the factor taking the place of K; a stall is a breakdown."""
    system, working = run.system, getattr(torch, run.plan.working)
    held = isinstance(system.engine, Triangle)
    K = system.engine.lower() if held else assemble(system.kernel, system.X, working, working)  # type: ignore[attr-defined]
    run.status, run.steps = Status.BREAKDOWN, 1
    if factorise_in_place(K, system.ridge):
        run.alpha, run.residual = refine_with_factor(system, K, system.y, tol=system.tol)
    del K
    run.relative.append(run.relative_norms(run.residual))
    run.spectrum = _extreme_eigenvalues(run, cheaply=True)


def _solve_on_centres(run: Run, algorithm: Centres) -> None:
    if algorithm.count == "auto":
        double_centres(run, algorithm)
        return
    fit_on_centres(run, run.plan.rank, torch_generator(run.seed, "centres"))
    assert run.left_out is not None
    run.doublings = (Doubling(run.plan.rank, run.left_out, None, run.seconds),)


def _solve_by_mixed_pcg(run: Run, algorithm: MixedConjugateGradients) -> None:
    chosen, plan = builder(algorithm.preconditioner), run.plan
    if isinstance(chosen, PivotedCholesky):  # the rank and the blocks of the plan, unless it has its own
        rank = chosen.rank if chosen.rank is not None or not plan.rank else plan.rank
        block = chosen.block if chosen.block is not None or not plan.block else plan.block
        chosen = replace(chosen, rank=rank, block=block)
    inverse = chosen.build(run.system, torch_generator(run.seed, "preconditioner"))
    mixed_pcg(run, inverse, run.steps + (algorithm.steps or MIXED_STEPS))
    run.spectrum = _extreme_eigenvalues(run, cheaply=True)


def _solve_iteratively(run: Run, algorithm: Iterative) -> None:
    system = run.system
    found = _extreme_eigenvalues(run) if algorithm.needs_spectrum else None
    hopeless = found is not None and algorithm.diverges((found.low, found.high), system.ridge)
    steps = algorithm.steps or algorithm.patience(system.n)
    chosen = builder(algorithm.preconditioner if isinstance(algorithm, Preconditioned) else None)
    inverse = chosen.build(system, torch_generator(run.seed, "preconditioner"))
    assumed = (system.ridge, found.high_safe if found else system.ridge)
    iterate(run, algorithm, assumed, inverse, min(steps, STEPS_SHOWN) if hopeless else steps)
    if hopeless and run.status is Status.MAX_STEPS:
        run.status = Status.DIVERGED
    if found is None:
        preconditioned = not isinstance(chosen, Identity)
        found = from_coefficients(run.gammas, run.betas, preconditioned=preconditioned)
        if found is not None and not preconditioned:
            refuse_negative(found.low - system.ridge, system)
    run.spectrum = found or _extreme_eigenvalues(run)


def _settle(run: Run) -> None:
    """Round the coefficients to what the caller gets, and let the float64 residual of exactly those decide.

    Raises:
        InputError: the precision of the rows cannot hold the coefficients.
    """
    system = run.system
    found = run.alpha.to(torch.float64)
    if not bool(torch.isfinite(found).all()):
        found, run.residual, run.status = torch.zeros_like(system.y), system.y, Status.BREAKDOWN
    alpha = system.rounded(found)
    if not bool(torch.isfinite(alpha).all()):
        raise InputError(
            f"coefficients reach {float((found.abs() * system.unit).max()):.1e}, which {system.dtype} cannot hold: "
            "rescale the targets, raise the ridge, or use float64."
        )
    if not torch.equal(alpha, found):
        run.residual = system.residual(alpha, system.y)
    run.alpha = alpha
    if bool(run.relative_norms(run.residual).max() <= system.tol) and run.status is not Status.STOPPED:
        run.status = Status.CONVERGED
    elif run.status is Status.CONVERGED:
        run.status = Status.BREAKDOWN


def _extreme_eigenvalues(run: Run, *, cheaply: bool = False) -> ExtremeEigenvalues:
    """Return estimates of the extreme eigenvalues of A; refuse a kernel that shows a negative one.

    Cheaply means in float64 where rows are few, else what two products in the working precision show: they come near
    the largest eigenvalue and not near the smallest.
    """
    system, generator = run.system, torch_generator(run.seed, "spectrum")
    if cheaply and system.n > SMALL:
        return lanczos(system.apply, system.n, like=system.X, generator=generator, steps=2)
    if cheaply:
        system = RidgeSystem(system.kernel, system.X.to(torch.float64), system.ridge)
    found = lanczos(system.apply, system.n, like=system.X, generator=generator)
    refuse_negative(found.low - system.ridge, system)
    return found
