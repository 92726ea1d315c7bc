"""Nystrom subset regression: coefficients on a few centres only, for when all rows are too many.

While the columns of K at the centres fit, they are factorised. Beyond, they are formed again for every product, a block
of rows at a time, and conjugate gradients solve the normal equations.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.algorithms import Centres
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel, LogitKernel
from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.solving.direct import factorise_in_place
from ridgeformer.solving.engines.fused import FusedRows, fuses
from ridgeformer.solving.engines.thin import thin_product, transposed_thin_product
from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues
from ridgeformer.solving.plan import FACTORISED, choose_plan
from ridgeformer.solving.preconditioners.pivoted_cholesky import PivotedFactor, pivoted_factor
from ridgeformer.solving.run import Doubling, Run, Status
from ridgeformer.solving.system import RidgeSystem

__all__ = ["double_centres", "fit_on_centres"]

SAMPLED_ROWS = 512
"""Rows from which the error is estimated, where columns are factorised ..."""

LOCAL_ROWS = 2000
"""... and where they are not."""

BLOCK = 2**16
"""Rows that are worked on before the next are touched; they may be on disk."""

SPANNED = 1e-12
"""Part of the largest k(x, x) below which a centre's distance from the span of others counts as none."""

GRAM_ROWS = 8
"""Rows a centre from which the preconditioner is made."""

ACCURACY, CYCLES, CYCLE_STEPS = 1e-4, 6, 30
"""The residual of the normal equations, in the norm of the preconditioner, at which they are solved; cycles against the
float64 residual at most, and steps in float32 of each."""


GROWTH = 2.5
"""How much longer twice the centres take, as assumed before they are tried."""


def double_centres(run: Run, algorithm: Centres) -> None:
    """Fit on 256 centres, then on twice as many, and so on while that pays and there is time and memory for it.

    It pays while the leave-one-out error falls by `fit_tol` of itself. The fit of least error is kept.
    """
    system, count, seconds, why = run.system, run.plan.rank, 0.0, ""
    kept: Run | None = None
    fitted: Tensor | None = None
    done: tuple[Doubling, ...] = ()
    while not why:
        trial = Run(system, replace(run.plan, rank=count), run.seed, run.callback)
        begin = time.perf_counter()
        fit_on_centres(trial, count, torch_generator(run.seed, "centres"))
        took = time.perf_counter() - begin
        seconds += took
        values = system.y - trial.residual - system.ridge * trial.alpha
        change = None if fitted is None else (values - fitted).square().mean(0).sqrt()
        assert trial.left_out is not None
        done, fitted = (*done, Doubling(count, trial.left_out, change, took)), values
        error, before = (float(one.left_out.norm()) for one in (done[-1], done[-2] if len(done) > 1 else done[-1]))
        if kept is None or not error > before:
            kept = trial
        gain = 1 - error / before if before > 0 else 0.0
        count = 2 * count
        if trial.status is not Status.SUBSET:
            why = f"the fit ended as {trial.status.value!r}"
        elif len(done) > 1 and gain < algorithm.fit_tol:
            why = (
                f"the last doubling changed the leave-one-out error by {-gain:+.1%}, {algorithm.fit_tol:.1%} was asked"
            )
        elif error == 0:
            why = "nothing is left to gain"
        elif count > system.n:
            why = f"there are {system.n:,} rows only"
        elif GROWTH * took > run.budget - seconds:
            why = (
                f"the next would take about {GROWTH * took:,.0f} s, and {max(0, run.budget - seconds):,.0f} s are left"
            )
        else:
            try:
                choose_plan(system, replace(algorithm, count=count))
            except InputError as full:
                why = f"for the next, {full}"
    assert kept is not None
    run.alpha, run.residual, run.relative, run.steps = kept.alpha, kept.residual, kept.relative, kept.steps
    run.status, run.spectrum, run.fit_error, run.left_out = kept.status, kept.spectrum, kept.fit_error, kept.left_out
    say = f"centres were doubled from {done[0].centres:,} to {done[-1].centres:,}, and no further: {why}"
    run.plan, run.doublings = replace(run.plan, rank=kept.plan.rank, reasons=(*run.plan.reasons, say)), done


def fit_on_centres(run: Run, count: int, generator: torch.Generator) -> None:
    """Minimise ||y - K_c b||^2 + ridge b'K_cc b over coefficients b on randomly pivoted centres.

    It is the exact solution for the kernel matrix F'F <= K that the centres span, at n count^2 operations. With
    a = (F'F + ridge I)^-1 y and E = K - F'F >= 0 the fitted values differ from those of the full solution by
    ridge (K + ridge I)^-1 E a, whose norm is at most ||E a|| and at most sqrt(ridge a'E a). Both are estimated from
    a sample of rows of E, two standard errors added; the smaller one is `Run.fit_error`. With all rows sampled they are
    bounds. Coefficients in the precision of the rows give another fit than F' b in exact arithmetic; the difference is
    computed and added. The residual is large, as alpha does not aim at that system.
    """
    system, y = run.system, run.system.y
    if system.n * count > FACTORISED:
        _stream(run, count, generator)
        return
    factor = pivoted_factor(system.engine, count, generator)
    F = factor.F.to(torch.float64)
    core = F @ F.T
    core.diagonal().add_(system.ridge)
    lower = torch.linalg.cholesky(core)
    weights = torch.cholesky_solve(F @ y, lower)
    found = torch.zeros_like(y)
    found[factor.pivots] = torch.linalg.solve_triangular(F[:, factor.pivots], weights, upper=True)
    alpha, fitted = system.rounded(found), F.T @ weights
    X = system.X.to(torch.float64)
    product = system.kernel.product(X, X[factor.pivots], alpha[factor.pivots])
    moved = (product - fitted).square().mean(0).sqrt()
    full = (y - fitted) / system.ridge
    w = system.kernel.entry_error(X)  # K itself is known to w_i w_j only, which moves the fit by at most |w| w'|full|
    error = _error(system, factor, full, generator) + moved + w.norm() * (w @ full.abs()) / system.n**0.5
    run.steps = 1
    rows = torch.randperm(system.n, generator=generator)[:LOCAL_ROWS].to(y.device)
    weight = torch.linalg.solve_triangular(lower, F[:, rows], upper=False).square().sum(0)
    run.left_out = _left_out((y - product)[rows], weight)
    _finish(run, alpha, y - product.add_(alpha, alpha=system.ridge), error)


def _left_out(residuals: Float[Tensor, "s r"], weights: Float[Tensor, " s"]) -> Float[Tensor, " r"]:
    """Return the root mean square of leave-one-out residuals, from a row's weight in its own prediction."""
    return (residuals / (1 - weights.clamp(0, 0.99))[:, None]).square().mean(0).sqrt()


def _finish(run: Run, alpha: Tensor, residual: Tensor, error: Tensor) -> None:
    run.alpha, run.residual, run.fit_error = alpha, residual, error
    if run.status is not Status.STOPPED:
        run.status = Status.SUBSET
    run.relative.append(run.relative_norms(run.residual))
    size = run.system.mean_diagonal + run.system.ridge
    run.spectrum = ExtremeEigenvalues(size, size, size)


class CentreProducts:
    """Products with K_c, the columns of K at the centres, none of which is kept; sums over blocks in float64."""

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> None:
        self.kernel, self.X, self.Z = kernel, X, Z
        self._fused = (
            {dtype: FusedRows(kernel, Z, dtype) for dtype in (torch.float32, torch.float64)}
            if isinstance(kernel, LogitKernel) and fuses(X)
            else {}
        )

    def normal(self, P: Float[Tensor, "m r"], dtype: torch.dtype) -> Float[Tensor, "m r"]:
        """Return K_c'K_c P, entries and the sums of some rows in `dtype`."""
        total = torch.zeros_like(P)
        for rows in self.X.split(BLOCK):
            total += self._pass(rows, P, None, dtype)[1]
        return total

    def residual(self, B: Float[Tensor, "m r"], y: Float[Tensor, "n r"]) -> tuple[Tensor, Float[Tensor, "m r"]]:
        """Return r = y - K_c B and K_c'r, in float64."""
        left, total = torch.empty_like(y), torch.zeros_like(B)
        for rows, given, place in zip(self.X.split(BLOCK), y.split(BLOCK), left.split(BLOCK), strict=True):
            found, part = self._pass(rows, B, given, torch.float64)
            place.copy_(found)
            total += part
        return left, total

    def _pass(self, rows: Tensor, P: Tensor, y: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        if self._fused:
            return self._fused[dtype].multiply(rows, P, y)
        Z, right, total, found = self.Z.to(dtype), P.to(dtype), torch.zeros_like(P), []
        size = max(1, BLOCK_ENTRIES // len(Z))
        for place, some in enumerate(rows.to(dtype).split(size)):
            K = self.kernel.dense(some, Z)
            u = thin_product(K, right)
            u = u if y is None else y[place * size : place * size + len(some)].to(dtype) - u
            total += transposed_thin_product(K, u)
            found.append(u.to(torch.float64))
        return torch.cat(found), total


def _stream(run: Run, count: int, generator: torch.Generator) -> None:
    """Solve (K_c'K_c + ridge K_cc) b = K_c'y for uniformly drawn centres, one pass over the rows a step.

    The preconditioner is the same matrix from 8 rows a centre, in float64. Products are float32; when the recursion
    says that it is done, a pass in float64 says whether that is so, and the next cycle works on what is left, in
    float64 if float32 gained nothing.
    """
    system, y = run.system, run.system.y
    order = torch.randperm(system.n, generator=generator).to(system.X.device)
    centres = _independent(system, order[:count])
    Z = system.X[centres].to(torch.float64)
    K, products = system.kernel.dense(Z, Z), CentreProducts(system.kernel, system.X, Z)
    lower = _preconditioner(system, order[: min(system.n, GRAM_ROWS * count)], Z, K)

    def judged(b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return b as the caller gets it, what it leaves of y, the gradient, and that in the preconditioner's norm."""
        whole = torch.zeros_like(y)
        whole[centres] = b
        b = system.rounded(whole)[centres]
        left, pull = products.residual(b, y)
        gradient = pull - system.ridge * (K @ b)
        return b, left, gradient, torch.linalg.solve_triangular(lower, gradient, upper=False).norm(dim=0)

    b, left, gradient, start = judged(y.new_zeros(len(centres), y.shape[1]))
    start, reached, working = torch.where(start > 0, start, 1.0), 1.0, torch.float32
    for _ in range(CYCLES):
        found = judged(b + _descend(run, products, K, lower, gradient, start, working))
        now = float((found[3] / start).max())
        if now < reached:
            b, left, gradient = found[:3]
        halved, reached = now < reached / 2, min(now, reached)
        if reached <= ACCURACY or run.status is Status.STOPPED or (working == torch.float64 and not halved):
            break
        working = working if halved else torch.float64
    alpha = torch.zeros_like(y)
    alpha[centres] = b
    # the penalised error J is strongly convex: a squared difference from its minimiser is at most J here minus J there
    excess = left.square().sum(0) + system.ridge * (b * (K @ b)).sum(0)
    judged_by = order[-LOCAL_ROWS:]
    error = torch.minimum(_local_error(system, Z, K, left, judged_by), (excess / system.n).sqrt())
    cross = system.kernel.dense(system.X[judged_by].to(torch.float64), Z)
    weight = torch.linalg.solve_triangular(lower, cross.T, upper=False).square().sum(0)
    run.left_out = _left_out(left[judged_by], weight)
    _finish(run, alpha, left - system.ridge * alpha, error)
    if run.status is Status.SUBSET and reached > ACCURACY:
        run.status = Status.BREAKDOWN


def _independent(system: RidgeSystem, centres: Tensor) -> Tensor:
    """Return the centres without those that the others span to twelve digits: coefficients on these would be noise."""
    from scipy.linalg.lapack import dpstrf

    Z = system.X[centres].to(torch.float64)
    K = system.kernel.dense(Z, Z).cpu().numpy()
    _, pivots, rank, _ = dpstrf(K, tol=SPANNED * float(K.diagonal().max()))
    return centres[torch.from_numpy(pivots[:rank] - 1).to(centres)]


def _preconditioner(system: RidgeSystem, sampled: Tensor, Z: Tensor, K: Tensor) -> Float[Tensor, "m m"]:
    """Return a Cholesky factor of (n / s) K_s'K_s + ridge K_cc from s sampled rows, in float64."""
    gram = torch.zeros_like(K)
    for some in sampled.split(max(1, BLOCK_ENTRIES // len(Z))):
        block = system.kernel.dense(system.X[some].to(torch.float64), Z)
        gram.addmm_(block.T, block)
    gram.mul_(system.n / len(sampled)).add_(K, alpha=system.ridge)
    jitter = torch.finfo(torch.float64).eps * float(gram.diagonal().sum())
    while not factorise_in_place(lower := gram.clone(), jitter):
        jitter *= 10
    return lower.tril_()


def _descend(
    run: Run,
    products: CentreProducts,
    K: Tensor,
    lower: Tensor,
    gradient: Tensor,
    start: Tensor,
    working: torch.dtype,
) -> Float[Tensor, "m r"]:
    """Return a change of b by conjugate gradients in the basis of the preconditioner."""
    ridge = run.system.ridge
    r = torch.linalg.solve_triangular(lower, gradient, upper=False)
    found, p, rho = torch.zeros_like(r), r.clone(), r.square().sum(0)
    for _ in range(CYCLE_STEPS):
        P = torch.linalg.solve_triangular(lower.T, p, upper=True)
        size = P.abs().amax(0).clamp_min(torch.finfo(torch.float32).tiny)  # of order one in float32
        product = products.normal(P / size, working) * size + ridge * (K @ P)
        q = torch.linalg.solve_triangular(lower, product, upper=False)
        curvature = (p * q).sum(0)
        gamma = torch.where(curvature > 0, rho / torch.where(curvature > 0, curvature, 1.0), 0.0)
        found, r = found + gamma * p, r - gamma * q
        relative = r.norm(dim=0) / start
        run.steps += 1
        run.relative.append(relative)
        if run.callback is not None and run.callback(run.steps, run.system.values(run.alpha), relative):
            run.status = Status.STOPPED
            break
        if bool((relative <= ACCURACY / 2).all()):
            break
        new = r.square().sum(0)
        p, rho = r + new / torch.where(rho > 0, rho, 1.0) * p, new
    return torch.linalg.solve_triangular(lower.T, found, upper=True)


def _local_error(system: RidgeSystem, Z: Tensor, K: Tensor, left: Tensor, rows: Tensor) -> Float[Tensor, " r"]:
    """Return an estimate of the root mean square difference from the fit of all rows.

    With E = K - its Nystrom approximation and v = K (y - f) / ridge - f, the difference at the training rows is
    ridge (ridge + E)^-1 v if the approximation is exact for all but E; here with E and v at some rows only.
    """
    X, S = system.X, system.X[rows].to(torch.float64)
    _, pull = CentreProducts(system.kernel, X, S).residual(left.new_zeros(len(S), left.shape[1]), left)
    v = pull / system.ridge - (system.y[rows] - left[rows])
    cross = system.kernel.dense(S, Z)
    jitter = torch.finfo(torch.float64).eps * float(K.diagonal().sum())
    while not factorise_in_place(lower := K.clone(), jitter):
        jitter *= 10
    half = torch.linalg.solve_triangular(lower.tril_(), cross.T, upper=False)
    E = system.kernel.dense(S, S) - half.T @ half
    E.diagonal().add_(system.ridge)
    return system.ridge * torch.linalg.solve(E, v).square().mean(0).sqrt()


def _error(
    system: RidgeSystem, factor: PivotedFactor, full: Float[Tensor, "n r"], generator: torch.Generator
) -> Float[Tensor, " r"]:
    n = system.n
    rows = torch.randperm(n, generator=generator)[:SAMPLED_ROWS].to(full.device)
    F = factor.F.to(torch.float64)
    X = system.X
    left = system.kernel.product(X[rows].to(torch.float64), X.to(torch.float64), full) - F[:, rows].T @ (F @ full)
    squares = _mean_from_above(left.square(), n).clamp_min(0).sqrt()
    # round-off of F may have made E indefinite by about this much, which the second form must allow for
    noise = torch.finfo(factor.F.dtype).eps * n**0.5 * float(system.engine.diagonal().mean())
    size = full.square().mean(0)
    energy = (system.ridge * (_mean_from_above(full[rows] * left, n) + noise * size)).clamp_min(0).sqrt()
    return torch.minimum(squares, energy + noise * size.sqrt())


def _mean_from_above(sample: Tensor, n: int) -> Tensor:
    """Return the mean of a sample without replacement plus two standard errors, which vanish if it is everything."""
    count = len(sample)
    spread = sample.std(dim=0) if count > 1 else torch.zeros_like(sample[0])
    return sample.mean(0) + 2 * spread * ((1 - count / n) / count) ** 0.5
