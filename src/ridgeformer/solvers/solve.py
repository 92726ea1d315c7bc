"""`solve`: kernel ridge regression by a named method, with an answer that says how good it is."""

from __future__ import annotations

from math import exp
from typing import Any

import torch
from torch import Tensor

from ridgeformer.checks import as_matrix, as_targets, positive
from ridgeformer.errors import InputError, unknown_name
from ridgeformer.kernels import Kernel
from ridgeformer.seeds import torch_generator
from ridgeformer.solvers.advice import advise
from ridgeformer.solvers.chebyshev import chebyshev
from ridgeformer.solvers.conjugate_gradients import conjugate_gradients
from ridgeformer.solvers.direct import cholesky_solve, refuse_negative
from ridgeformer.solvers.iterate import Method, Workshop
from ridgeformer.solvers.lanczos import SpectrumEnds, from_coefficients, lanczos_ends
from ridgeformer.solvers.neumann import neumann
from ridgeformer.solvers.preconditioners import Builder, builder
from ridgeformer.solvers.richardson import richardson
from ridgeformer.solvers.run import Callback, Run, run
from ridgeformer.solvers.solution import Solution, Status
from ridgeformer.solvers.system import RidgeSystem

__all__ = ["METHODS", "TOLERANCE", "solve"]

ITERATIVE: dict[str, tuple[Method, int]] = {
    "richardson": (richardson, 1_000_000),
    "neumann": (neumann, 100_000),
    "chebyshev": (chebyshev, 100_000),
    "cg": (conjugate_gradients, 20_000),
    "pcg": (conjugate_gradients, 20_000),
}
"""The iterative methods and how many steps they may take unless told; conjugate gradients 10 n if that is less."""

METHODS = ("direct", *ITERATIVE)

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""The relative residual asked for unless told."""

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
    ridge = positive(ridge, "ridge", "without it the system may be singular")
    _check(kernel, method, tol, max_steps, preconditioner, spectrum)
    system, log_scale = _system(kernel, X, ridge)
    columns = y.reshape(len(y), -1)
    tol = TOLERANCE[X.dtype] if tol is None else tol
    if method == "direct":
        record, ends, factor = _direct(system, columns, tol, seed)
    else:
        factor = None
        builder_ = builder(preconditioner or ("nystrom" if method == "pcg" else "identity"))
        record, ends = _iterate(
            method, system, columns, builder_, spectrum, tol, max_steps, callback, keep_iterates, seed
        )
    scale = columns.to(torch.float64).norm(dim=0)
    residual = record.residual.norm(dim=0)
    advice = advise(
        record.status,
        method=method,
        reached=float((residual / torch.where(scale > 0, scale, 1.0)).max()),
        tol=tol,
        steps=record.steps,
        ends=ends,
        ridge=system.ridge,
        floor=system.kernel_roundoff,
    )
    return Solution(
        alpha=record.alpha.reshape(y.shape),
        status=record.status,
        advice=advice,
        steps=record.steps,
        residuals=torch.stack(record.relative),
        residual_norm=residual,
        roundoff=system.residual_roundoff(record.alpha, columns),
        target_norm=scale,
        spectrum=ends,
        kernel=system.kernel,
        X=X,
        ridge=system.ridge,
        method=method,
        kernel_roundoff=system.kernel_roundoff,
        log_scale=log_scale,
        iterates=torch.stack(record.iterates) if record.iterates else None,
        factor=factor,
    )


def _check(
    kernel: Kernel,
    method: str,
    tol: float | None,
    max_steps: int | None,
    preconditioner: str | Builder | None,
    spectrum: tuple[float, float] | None,
) -> None:
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel is {kernel!r}; a kernel object was expected, such as Exponential(temperature=1.0).")
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if tol is not None and not 0 < tol < 1:
        raise InputError(f"tol is {tol:g}; a relative residual between 0 and 1 was expected.")
    if max_steps is not None and max_steps < 1:
        raise InputError(f"max_steps is {max_steps}; at least one step is needed.")
    if preconditioner is not None and method != "pcg":
        raise InputError(f"method {method!r} takes no preconditioner: use method='pcg', or leave it out.")
    if spectrum is not None and not 0 < spectrum[0] <= spectrum[1] < float("inf"):
        raise InputError(f"spectrum is {spectrum}; 0 < low <= high was expected, the ends of K + ridge I.")


def _system(kernel: Kernel, X: Tensor, ridge: float) -> tuple[RidgeSystem, float]:
    """Return the system in a range the precision holds: e^-c K and e^-c ridge have the same predictions."""
    safe = kernel.within_range(X)
    log_scale = safe.log_scale - kernel.log_scale
    return RidgeSystem(safe, X, max(ridge * exp(-log_scale), torch.finfo(torch.float64).tiny)), log_scale


def _ends(system: RidgeSystem, seed: int) -> SpectrumEnds:
    generator = torch_generator(seed, "spectrum")
    ends = lanczos_ends(system.apply, system.n, like=system.X, generator=generator)
    refuse_negative(ends.low - system.ridge, system)
    return ends


def _direct(system: RidgeSystem, y: Tensor, tol: float, seed: int) -> tuple[Run, SpectrumEnds, Tensor | None]:
    result = cholesky_solve(system, y)
    scale = y.to(torch.float64).norm(dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    relative = result.residual.norm(dim=0) / scale
    status = Status.CONVERGED if float(relative.max()) <= tol else Status.BREAKDOWN
    record = Run(result.alpha, result.residual, status, 1, [y.norm(dim=0) / scale, relative.to(y.dtype)])
    return record, _ends(system, seed), result.factor


def _iterate(
    method: str,
    system: RidgeSystem,
    y: Tensor,
    preconditioner: Builder,
    spectrum: tuple[float, float] | None,
    tol: float,
    max_steps: int | None,
    callback: Callback | None,
    keep: bool,
    seed: int,
) -> tuple[Run, SpectrumEnds]:
    function, patience = ITERATIVE[method]
    krylov = function is conjugate_gradients
    patience = max_steps or (min(patience, max(1000, 10 * system.n)) if krylov else patience)
    ends = None if krylov else _ends(system, seed)
    hopeless = ends is not None and method == "neumann" and ends.high - system.ridge >= system.ridge
    if hopeless:
        patience = min(patience, NEUMANN_STEPS_SHOWN)
    given = spectrum or (system.ridge, ends.high_safe if ends else system.ridge)
    workshop = Workshop(system, given, preconditioner.build(system, torch_generator(seed, "preconditioner")))
    record = run(function, workshop, y, tol=tol, max_steps=patience, callback=callback, keep=keep)
    if hopeless and record.status is Status.MAX_STEPS:
        record.status = Status.DIVERGED
    if ends is None:
        ends = from_coefficients(record.gammas, record.betas, preconditioned=preconditioner.name != "identity")
    return record, ends or _ends(system, seed)
