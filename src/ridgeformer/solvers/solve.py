"""`solve`: kernel ridge regression by a named method, with an answer that says how good it is."""

from __future__ import annotations

from math import exp
from typing import Any

import torch
from torch import Tensor

from ridgeformer.checks import as_matrix, as_targets
from ridgeformer.errors import InputError, LogitRangeError
from ridgeformer.kernels import Kernel
from ridgeformer.seeds import torch_generator
from ridgeformer.solvers.advice import advise
from ridgeformer.solvers.arguments import METHODS, Arguments, check_arguments, check_memory
from ridgeformer.solvers.chebyshev import chebyshev
from ridgeformer.solvers.conjugate_gradients import conjugate_gradients
from ridgeformer.solvers.direct import cholesky_solve
from ridgeformer.solvers.iterate import Method, Workshop
from ridgeformer.solvers.lanczos import SpectrumEnds, from_coefficients, lanczos_ends
from ridgeformer.solvers.neumann import neumann
from ridgeformer.solvers.preconditioners import Builder
from ridgeformer.solvers.richardson import richardson
from ridgeformer.solvers.run import Callback, Run, run
from ridgeformer.solvers.semidefinite import refuse_negative, require_semidefinite
from ridgeformer.solvers.solution import Solution, Status
from ridgeformer.solvers.system import RidgeSystem

__all__ = ["METHODS", "scaled_system", "solve"]

ITERATIVE: dict[str, tuple[Method, int]] = {
    "richardson": (richardson, 1_000_000),
    "neumann": (neumann, 100_000),
    "chebyshev": (chebyshev, 100_000),
    "cg": (conjugate_gradients, 20_000),
    "pcg": (conjugate_gradients, 20_000),
}
"""The iterative methods and how many steps they may take unless told; conjugate gradients 10 n if that is less."""

NEUMANN_STEPS_SHOWN = 5
"""How many steps of a Neumann series that cannot converge are taken, to show it diverging."""


def solve(
    kernel: Kernel,
    X: Any,
    y: Any,
    ridge: Any,
    *,
    method: str = "direct",
    tol: float | None = None,
    max_steps: int | None = None,
    preconditioner: str | Builder | None = None,
    spectrum: tuple[float, float] | None = None,
    callback: Callback | None = None,
    keep_iterates: bool = False,
    seed: int = 0,
) -> Solution:
    """Solve (K + ridge I) alpha = y.

    Holds for positive semidefinite kernels and ridge > 0. Computed in the precision of X; the residual
    that decides about convergence, and every bound, is computed in float64.

    Args:
        kernel: any kernel of `ridgeformer.kernels`, or your own `Kernel`.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs); outputs share every product with K.
        ridge: lambda > 0.
        method: direct, richardson, neumann, chebyshev, cg or pcg.
        tol: largest ||y - A alpha|| / ||y||, per output; 1e-10 in float64, 1e-5 in float32.
        max_steps: iterations at most.
        preconditioner: identity, jacobi, nystrom (pcg's default), or a builder such as `Nystrom(rank=200)`.
        spectrum: (low, high), ends of the spectrum of A for richardson and chebyshev. By default low is
            the ridge, which is always right, and high is estimated.
        callback: called with (step, alpha, relative residuals) after every step; True stops.
        keep_iterates: keep alpha of every step in `Solution.iterates`.
        seed: for the randomised preconditioner and the spectrum estimate.

    Returns:
        A frozen `Solution`. One that did not converge says so in `status` and `advice`.

    Raises:
        InputError: input for which no answer exists; each subclass says which.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> solution = solve(Exponential(1.0), [[0.0], [1.0]], [0.0, 1.0], ridge=0.1, method="cg")
        >>> solution.status.value, solution.steps
        ('converged', 2)
    """
    X = as_matrix(X, "X").detach()
    y = as_targets(y, X).detach()
    asked = check_arguments(kernel, X, ridge, method, tol, max_steps, preconditioner, spectrum, seed)
    with torch.no_grad():
        system, log_scale = scaled_system(kernel, X, asked.ridge)
        columns = y.reshape(len(y), -1)
        unit = _unit(columns)
        if method == "direct":
            record, ends, factor = _direct(system, columns / unit, asked)
        else:
            record, ends = _iterate(system, columns / unit, asked, callback, keep_iterates, unit)
            factor = None
        return _solution(record, ends, factor, system, columns / unit, unit, asked, y.shape, log_scale)


def _unit(columns: Tensor) -> Tensor:
    """Return, per column, the power of two that makes it of order one: an exact change of unit."""
    largest = columns.abs().amax(0)
    return torch.where(largest > 0, torch.exp2(torch.floor(torch.log2(largest))), 1.0)


def _solution(
    record: Run,
    ends: SpectrumEnds,
    factor: Tensor | None,
    system: RidgeSystem,
    columns: Tensor,
    unit: Tensor,
    asked: Arguments,
    shape: torch.Size,
    log_scale: float,
) -> Solution:
    norms, residual = columns.norm(dim=0), record.residual.norm(dim=0)
    alpha = record.alpha * unit.to(record.alpha.dtype)
    if not bool(torch.isfinite(alpha).all()):
        raise InputError(
            f"y reaches {float(unit.max()):.1e}, too large for coefficients in {alpha.dtype}: rescale the targets."
        )
    advice = advise(
        record.status,
        method=asked.method,
        reached=float((residual / torch.where(norms > 0, norms, 1.0)).max()),
        tol=asked.tol,
        steps=record.steps,
        ends=ends,
        given=asked.spectrum,
        ridge=system.ridge,
        floor=system.kernel_roundoff,
    )
    return Solution(
        alpha=alpha.reshape(shape),
        status=record.status,
        advice=advice,
        steps=record.steps,
        residuals=torch.stack(record.relative),
        residual_norm=residual * unit,
        roundoff=system.residual_roundoff(record.alpha, columns) * unit,
        target_norm=norms * unit,
        spectrum=ends,
        kernel=system.kernel,
        X=system.X,
        ridge=system.ridge,
        method=asked.method,
        kernel_roundoff=system.kernel_roundoff,
        log_scale=log_scale,
        iterates=torch.stack(record.iterates) * unit.to(alpha.dtype) if record.iterates else None,
        factor=factor,
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


def _ends(system: RidgeSystem, seed: int) -> SpectrumEnds:
    generator = torch_generator(seed, "spectrum")
    ends = lanczos_ends(system.apply, system.n, like=system.X, generator=generator)
    refuse_negative(ends.low - system.ridge, system)
    return ends


def _direct(system: RidgeSystem, y: Tensor, asked: Arguments) -> tuple[Run, SpectrumEnds, Tensor | None]:
    check_memory(system.n, system.X.dtype)
    result = cholesky_solve(system, y)
    norms = y.norm(dim=0)
    norms = torch.where(norms > 0, norms, 1.0)
    relative = result.residual.norm(dim=0) / norms
    status = Status.CONVERGED if float(relative.max()) <= asked.tol else Status.BREAKDOWN
    history = [(values / norms).to(system.X.dtype) for values in (y.norm(dim=0), result.residual.norm(dim=0))]
    return Run(result.alpha, result.residual, status, 1, history), _ends(system, asked.seed), result.factor


def _iterate(
    system: RidgeSystem, y: Tensor, asked: Arguments, callback: Callback | None, keep: bool, unit: Tensor
) -> tuple[Run, SpectrumEnds]:
    function, patience = ITERATIVE[asked.method]
    krylov = function is conjugate_gradients
    patience = asked.max_steps or (min(patience, max(1000, 10 * system.n)) if krylov else patience)
    ends = None if krylov else _ends(system, asked.seed)
    hopeless = ends is not None and asked.method == "neumann" and ends.high - system.ridge >= system.ridge
    if hopeless:
        patience = min(patience, NEUMANN_STEPS_SHOWN)
    given = asked.spectrum or (system.ridge, ends.high_safe if ends else system.ridge)
    inverse = asked.preconditioner.build(system, torch_generator(asked.seed, "preconditioner"))
    workshop = Workshop(system, given, inverse)
    record = run(
        function, workshop, y, tol=asked.tol, max_steps=patience, callback=_in_given_units(callback, unit), keep=keep
    )
    if hopeless and record.status is Status.MAX_STEPS:
        record.status = Status.DIVERGED
    if ends is None:
        preconditioned = asked.preconditioner.name != "identity"
        ends = from_coefficients(record.gammas, record.betas, preconditioned=preconditioned)
        if ends is not None and not preconditioned:
            refuse_negative(ends.low - system.ridge, system)
    return record, ends or _ends(system, asked.seed)


def _in_given_units(callback: Callback | None, unit: Tensor) -> Callback | None:
    if callback is None:
        return None
    return lambda step, alpha, residual: callback(step, alpha * unit.to(alpha.dtype), residual)
