"""`solve`: kernel ridge regression by an algorithm, with an answer that says how good it is."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from typing import Any

import torch
from torch import Tensor

from ridgeformer.algorithms import Algorithm, Auto
from ridgeformer.core.checks import as_matrix, as_targets, whole
from ridgeformer.core.errors import InputError, LogitRangeError
from ridgeformer.core.memory import free_bytes
from ridgeformer.kernels import Kernel
from ridgeformer.solving.advice import advise
from ridgeformer.solving.arguments import Arguments, check_arguments, check_engine
from ridgeformer.solving.engines import Engine
from ridgeformer.solving.engines.tiles import diagonal64
from ridgeformer.solving.planner import choose, choose_for, describe, retry
from ridgeformer.solving.routes import Outcome, follow, require_range
from ridgeformer.solving.run import Callback, Output
from ridgeformer.solving.semidefinite import require_semidefinite
from ridgeformer.solving.solution import Solution
from ridgeformer.solving.system import RidgeSystem

__all__ = ["exact_unit", "scaled_system", "solve"]


SAFE = {torch.float32: 1e-15, torch.float64: 1e-120}
"""Sizes of K + ridge I between this and its inverse leave room for squares, sums and a ridge far below them."""

COMPARED_ROWS = 64
"""Rows of one float64 product at which a given engine is compared with its kernel."""


def solve(
    kernel: Kernel,
    X: Any,
    y: Any,
    ridge: Any,
    *,
    algorithm: str | Algorithm = "auto",
    tol: float | None = None,
    engine: str | Engine | None = None,
    memory: int | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    keep_iterates: bool = False,
) -> Solution:
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
            chooses by size and memory (`Solution.plan` says what and why), direct, mixed_direct, mixed_pcg, nystrom,
            richardson, neumann, chebyshev, heavy_ball, nesterov, cg or pcg.
        tol: largest ||y - A alpha|| / ||y||, per output; 1e-10 in float64, 1e-5 in float32.
        engine: how products with K are formed: triangle, stored, tiles, attention, features, dask or an `Engine`;
            chosen by default.
        memory: bytes that may be used beside the data; by default what is free.
        seed: for the randomised preconditioner, the centres and the spectrum estimate.
        callback: called with (step, alpha, relative residuals) after every step; True stops.
        keep_iterates: keep alpha of every step in `Solution.iterates`.

    Returns:
        A frozen `Solution`. One that did not converge says so in `status` and `advice`.

    Raises:
        InputError: input for which no answer exists; each subclass says which.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> solution = solve(Exponential(1.0), [[0.0], [1.0]], [0.0, 1.0], ridge=0.1, algorithm="cg")
        >>> solution.status.value, solution.steps
        ('converged', 2)
    """
    X = as_matrix(X, "X").detach()
    y = as_targets(y, X).detach()
    asked = check_arguments(kernel, X, ridge, algorithm, tol, seed)
    name, given = check_engine(engine)
    free = free_bytes(X.device) if memory is None else whole(memory, "memory (bytes)", 1)
    with torch.no_grad():
        system, log_scale = scaled_system(kernel, X, asked.ridge)
        columns = y.reshape(len(y), -1)
        output = Output(exact_unit(columns), X.dtype)
        columns = columns / output.unit
        problem = describe(system.kernel, system.X, columns.shape[1], system.ridge, free, asked.tol)
        system = _in_range(system, problem.span[1])
        problem = replace(problem, dtype=system.X.dtype)
        if given is not None:
            _require_same_kernel(given, system)
        plan = choose_for(given, problem, asked.algorithm) if given else choose(problem, asked.algorithm, name)
        asked = replace(asked, callback=_in_given_units(callback, output), keep=keep_iterates)
        outcome = follow(plan, system, given, columns, output, asked)
        again = retry(problem, outcome.plan, outcome.record.status)
        free_choice = isinstance(asked.algorithm, Auto) and asked.algorithm.steps is None and name is None
        if again is not None and free_choice:
            outcome = follow(again, system, None, columns, output, asked)
        return _solution(outcome, X, columns, output, asked, y.shape, log_scale)


def _in_range(system: RidgeSystem, largest: float) -> RidgeSystem:
    """Return the system in a precision that holds squares of its entries: that of X, or else float64.

    Rows in float32 are converted exactly; the coefficients are rounded to float32 at the end, and judged then.
    """
    size = max(largest, system.ridge)
    if SAFE[system.X.dtype] <= size <= 1 / SAFE[system.X.dtype] and system.ridge >= SAFE[system.X.dtype] ** 1.5:
        return system
    if system.X.dtype != torch.float64:
        return _in_range(RidgeSystem(system.kernel, system.X.to(torch.float64), system.ridge), largest)
    if size < SAFE[torch.float64] or size > 1 / SAFE[torch.float64]:
        raise InputError(
            f"k(x, x) reaches {largest:.1e} beside a ridge of {system.ridge:.1e}; float64 needs the larger one between "
            f"{SAFE[torch.float64]:.0e} and {1 / SAFE[torch.float64]:.0e}: scale the rows and the ridge."
        )
    return system


def _require_same_kernel(engine: Engine, system: RidgeSystem) -> None:
    """Refuse an engine that was built for other rows or another kernel: compare its diagonal, and a product."""
    if engine.n != system.n:
        raise InputError(f"the engine holds {engine.n:,} rows and X has {system.n:,}: build it from this X.")
    require_range(engine)
    found, expected = engine.diagonal(), diagonal64(system.kernel, system.X)
    if not torch.allclose(found.to(expected), expected, rtol=1e-5, atol=0.0):
        raise InputError(
            f"the engine's k(x, x) is {float(found.mean()):.3g} on average and that of the kernel solved with "
            f"{float(expected.mean()):.3g}: build the engine from these rows and from kernel.within_range(X)."
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


def exact_unit(columns: Tensor) -> Tensor:
    """Return, per column, the power of two that makes it of order one: an exact change of unit."""
    largest = columns.abs().amax(0)
    mantissa, exponent = torch.frexp(torch.where(largest > 0, largest, 1.0))
    return torch.ldexp(torch.ones_like(mantissa), exponent - 1)


def _solution(
    outcome: Outcome,
    X: Tensor,
    columns: Tensor,
    output: Output,
    asked: Arguments,
    shape: torch.Size,
    log_scale: float,
) -> Solution:
    record, system, unit = outcome.record, outcome.system, output.unit
    norms, residual = columns.norm(dim=0), record.residual.norm(dim=0)
    alpha = output.values(record.alpha)
    small = (alpha != 0) & (alpha.abs() < torch.finfo(alpha.dtype).tiny) | (alpha == 0) & (columns != 0)
    advice = advise(
        record.status,
        algorithm=outcome.plan.algorithm,
        reached=float((residual / torch.where(norms > 0, norms, 1.0)).max()),
        tol=asked.tol,
        steps=record.steps,
        ends=outcome.ends,
        ridge=system.ridge,
        floor=system.kernel_roundoff,
        fit_error=None if outcome.fit_error is None else float((outcome.fit_error * unit).max()),
        subnormal=record.steps > 0 and bool(small.any()),
    )
    lost = 2.0**-1074  # at most what multiplying by the unit loses to underflow
    return Solution(
        alpha=alpha.reshape(shape),
        status=record.status,
        advice=advice,
        steps=record.steps,
        residuals=torch.stack(record.relative) if record.relative else torch.ones(1, len(norms), dtype=X.dtype),
        residual_norm=residual * unit,
        roundoff=system.residual_roundoff(record.alpha, columns) * unit + lost,
        target_norm=(norms * unit).clamp_max(torch.finfo(torch.float64).max),
        spectrum=outcome.ends,
        kernel=system.kernel,
        X=X,
        ridge=system.ridge,
        algorithm=outcome.plan.algorithm,
        kernel_roundoff=system.kernel_roundoff,
        log_scale=log_scale,
        iterates=torch.stack([output.values(one) for one in record.iterates]) if record.iterates else None,
        factor=outcome.factor,
        plan=outcome.plan,
        fit_error=None if outcome.fit_error is None else outcome.fit_error * unit,
    )


def scaled_system(kernel: Kernel, X: Tensor, ridge: float) -> tuple[RidgeSystem, float]:
    """Return the system in a range the precision holds: e^-c K and e^-c ridge have the same predictions."""
    safe = kernel.within_range(X)
    log_scale = safe.log_scale - kernel.log_scale
    scaled = ridge * exp(-log_scale)
    if scaled < torch.finfo(torch.float64).tiny:
        raise LogitRangeError(
            f"with logits up to {safe.log_scale:.4g} a ridge of {ridge:g} is too small to be represented beside them: "
            "raise the temperature, scale the rows (datasets.unit_rows), or set the kernel's log_scale and give the "
            "ridge relative to it."
        )
    system = RidgeSystem(safe, safe.check_range(X, "X"), scaled)
    require_semidefinite(system)
    return system, log_scale


def _in_given_units(callback: Callback | None, output: Output) -> Callback | None:
    if callback is None:
        return None
    return lambda step, alpha, residual: callback(step, output.values(alpha), residual)
