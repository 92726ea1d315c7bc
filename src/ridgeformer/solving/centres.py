"""Nystrom subset regression: coefficients on a few centres only, for when all rows are too many.

While the columns of K at the centres fit, they are factorised. Beyond, they are formed again for every product, a block
of rows at a time, and conjugate gradients solve the normal equations.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.algorithms import Centres
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel, LogitKernel
from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.solving.checkpoint import Checkpoint, describe_problem
from ridgeformer.solving.distance import estimate_distance, sampled_distance
from ridgeformer.solving.engines.fused import FusedRows, fuses
from ridgeformer.solving.engines.thin import thin_product, transposed_thin_product
from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues
from ridgeformer.solving.normal_equations import (
    ACCURACY,
    Descent,
    Forecast,
    NormalEquations,
    factor_of,
    gram_rows,
    sampled_gram,
)
from ridgeformer.solving.plan import BLOCK, FACTORISED, LOCAL_ROWS, SAMPLED_ROWS, choose_plan
from ridgeformer.solving.preconditioners.pivoted_cholesky import PivotedFactor, pivoted_factor
from ridgeformer.solving.run import Doubling, Run, Status
from ridgeformer.solving.system import RidgeSystem

__all__ = ["double_centres", "fit_on_centres"]

SPANNED = 1e-12
"""Part of the largest k(x, x) below which a centre's distance from the span of others counts as none."""

GROWTH = 2.5
"""How much longer twice the centres take, as assumed before they are tried."""


def double_centres(run: Run, algorithm: Centres) -> None:
    """Fit on 256 centres, then on twice as many, and so on while that pays and there is time and memory for it.

    It pays while the leave-one-out error falls by `fit_tol` of itself. The fit of least error is kept.
    """
    system, count, seconds, why = run.system, run.plan.rank, 0.0, ""
    kept: Run | None = None
    fitted: Tensor | None = None
    warm: Tensor | None = None
    done: tuple[Doubling, ...] = ()
    while not why:
        trial = Run(system, replace(run.plan, rank=count), run.seed, run.callback)
        trial.checkpoint, trial.problem, trial.progress = run.checkpoint, run.problem, run.progress
        fit_on_centres(trial, count, torch_generator(run.seed, "centres"), warm)
        took, warm, run.problem = trial.seconds, trial.alpha, trial.problem
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
    run.centres, run.seconds, run.left_out_sample = kept.centres, seconds, kept.left_out_sample
    say = f"centres were doubled from {done[0].centres:,} to {done[-1].centres:,}, and no further: {why}"
    run.plan, run.doublings = replace(run.plan, rank=kept.plan.rank, reasons=(*run.plan.reasons, say)), done


def fit_on_centres(run: Run, count: int, generator: torch.Generator, warm: Tensor | None = None) -> None:
    """Minimise ||y - K_c b||^2 + ridge b'K_cc b over coefficients b on randomly pivoted centres.

    It is the exact solution for the kernel matrix F'F <= K that the centres span, at n count^2 operations. With
    a = (F'F + ridge I)^-1 y and E = K - F'F >= 0 the fitted values differ from those of the full solution by
    ridge (K + ridge I)^-1 E a, whose norm is at most ||E a|| and at most sqrt(ridge a'E a). Both are estimated from
    a sample of rows of E, two standard errors added; the smaller one is `Run.fit_error`. With all rows sampled they are
    bounds. Coefficients in the precision of the rows give another fit than F' b in exact arithmetic; the difference is
    computed and added. The residual is large, as alpha does not aim at that system.

    Where columns are not kept, `warm` are coefficients to begin with, such as those of a fit on fewer centres.
    """
    system, y = run.system, run.system.y
    if system.n * count > FACTORISED:
        _stream(run, count, generator, warm)
        return
    begun = time.perf_counter()
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
    run.centres = factor.pivots
    _leave_out(run, (y - product)[rows], weight)
    _finish(run, alpha, y - product.add_(alpha, alpha=system.ridge), error)
    run.seconds = time.perf_counter() - begun


def _leave_out(run: Run, residuals: Float[Tensor, "s r"], weights: Float[Tensor, " s"]) -> None:
    """Note leave-one-out residuals of sampled rows, from a row's weight in its own prediction, and their size."""
    run.left_out_sample = residuals / (1 - weights.clamp(0, 0.99))[:, None]
    run.left_out = run.left_out_sample.square().mean(0).sqrt()


def _finish(run: Run, alpha: Tensor, residual: Tensor, error: Tensor) -> None:
    run.alpha, run.residual, run.fit_error = alpha, residual, error
    if run.status is not Status.STOPPED:
        run.status = Status.SUBSET
    run.relative.append(run.relative_norms(run.residual))
    size = run.system.mean_diagonal + run.system.ridge
    run.spectrum = ExtremeEigenvalues(size, size, size)


class CentreProducts:
    """Products with K_c, the columns of K at the centres, none of which is kept; sums over blocks in float64."""

    def __init__(
        self, kernel: Kernel, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"], forecast: Forecast | None = None
    ) -> None:
        self.kernel, self.X, self.Z, self.forecast = kernel, X, Z, forecast or Forecast(len(X), None)
        self._fused = (
            {dtype: FusedRows(kernel, Z, dtype) for dtype in (torch.float32, torch.float64)}
            if isinstance(kernel, LogitKernel) and fuses(X)
            else {}
        )

    def normal(self, P: Float[Tensor, "m r"], dtype: torch.dtype) -> Float[Tensor, "m r"]:
        """Return K_c'K_c P, entries and the sums of some rows in `dtype`."""
        total = torch.zeros_like(P)
        self.forecast.begin(str(dtype).removeprefix("torch."))
        for rows in self.X.split(BLOCK):
            total += self._pass(rows, P, None, dtype)[1]
            self.forecast.advance(len(rows))
        return total

    def pull(self, y: Float[Tensor, "n r"]) -> Float[Tensor, "m r"]:
        """Return K_c'y, entries and the sums of some rows in float32: where a descent begins needs no more."""
        total = y.new_zeros(len(self.Z), y.shape[1])
        self.forecast.begin("float32")
        for rows, given in zip(self.X.split(BLOCK), y.split(BLOCK), strict=True):
            total += self._pass(rows, torch.zeros_like(total), given, torch.float32)[1]
            self.forecast.advance(len(rows))
        return total

    def residual(self, B: Float[Tensor, "m r"], y: Float[Tensor, "n r"]) -> tuple[Tensor, Float[Tensor, "m r"]]:
        """Return r = y - K_c B and K_c'r, in float64."""
        left, total = torch.empty_like(y), torch.zeros_like(B)
        self.forecast.begin("float64")
        for rows, given, place in zip(self.X.split(BLOCK), y.split(BLOCK), left.split(BLOCK), strict=True):
            found, part = self._pass(rows, B, given, torch.float64)
            place.copy_(found)
            total += part
            self.forecast.advance(len(rows))
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


def _stream(run: Run, count: int, generator: torch.Generator, warm: Tensor | None) -> None:
    """Solve (K_c'K_c + ridge K_cc) b = K_c'y for uniformly drawn centres, one pass over the rows a step.

    A rough fit on the first half of the centres comes before: it is what the other starts from, and what its distance
    from the fit of all rows is estimated with. Where the run has a folder for checkpoints, every step is written there,
    and a step that was is not taken again.
    """
    system, y, begun = run.system, run.system.y, time.perf_counter()
    order = torch.randperm(system.n, generator=generator).to(system.X.device)
    streamed = _Streamed(run, order, count)
    centres = run.centres = streamed.centres
    kept = _checkpoint(run, count)
    held = None if kept is None else kept.load()
    before = 0.0 if held is None else held[1]["seconds"]

    def save(at: Descent) -> bool:
        at.seconds = before + time.perf_counter() - begun
        if kept is not None:
            kept.save(*at.pack())
        return False

    def note(at: Descent) -> bool:
        save(at)
        if len(at.relative) == run.steps:
            return False
        run.steps += 1
        run.relative.append(at.relative[-1])
        if run.callback is not None:
            now = torch.zeros_like(y)
            now[centres] = at.b + streamed.equations.change(at)
            if run.callback(run.steps, system.values(now), at.relative[-1]):
                run.status = Status.STOPPED
        return run.status is Status.STOPPED

    at = streamed.begin(warm) if held is None else Descent.unpack(*held)
    if at.half is None:
        at = streamed.second_half(at, save)
    run.steps, streamed.forecast.at = len(at.relative), at
    run.relative.extend(at.relative)
    assert at.half is not None
    streamed.half = at.half
    streamed.equations.solve(at, note)
    if run.status is not Status.STOPPED:
        save(at)
    left, left_half = streamed.left(at.b).split(y.shape[1], 1)
    alpha = torch.zeros_like(y)
    alpha[centres] = at.b
    judged_by = order[-LOCAL_ROWS:]
    cross = system.kernel.dense(system.X[judged_by].to(torch.float64), streamed.Z)
    weight = torch.linalg.solve_triangular(streamed.equations.lower, cross.T, upper=False).square().sum(0)
    if (
        gram_rows(system.n, count) < system.n
    ):  # the factor is of other rows: with its own term, a row's weight stays below one
        weight = weight / (1 + weight)
    _leave_out(run, left[judged_by], weight)
    error = streamed.distance(at.b, left, left_half, judged_by, cross)
    run.seconds = before + time.perf_counter() - begun
    _finish(run, alpha, left - system.ridge * alpha, error)
    if run.status is Status.SUBSET and at.reached > ACCURACY:
        run.status = Status.BREAKDOWN


class _Streamed:
    """The normal equations of centres and of the first half of them, and what is left of the targets."""

    def __init__(self, run: Run, order: Tensor, count: int) -> None:
        self.system = system = run.system
        self.centres = _independent(system, order[:count])
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        self.first = (place[self.centres] < count // 2).nonzero()[:, 0]
        self.Z = Z = system.X[self.centres].to(torch.float64)
        K, self.forecast = system.kernel.dense(Z, Z), Forecast(system.n, run.progress)
        sampled = system.X[order[: gram_rows(system.n, count)]]
        gram = sampled_gram(system.kernel, sampled, Z, K, system.ridge, system.n)
        self.products = CentreProducts(system.kernel, system.X, Z, self.forecast)
        self.equations = NormalEquations(K, factor_of(gram), system.ridge, self.products.normal, self.judge)
        self.gram, self.half = gram[self.first][:, self.first], torch.zeros_like(Z[:, :0])
        self._judged: tuple[Tensor, Tensor] | None = None  # the last coefficients, and what they leave

    def judge(self, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return b as the caller gets it, and the gradient there; what the half leaves comes with it."""
        self._judged = None
        y, b = self.system.y, self.system.rounded(b).contiguous()
        columns = torch.cat([b, self.half], 1)
        left, pull = self.products.residual(columns, y.repeat(1, columns.shape[1] // y.shape[1]))
        self._judged = b, left
        return b, pull[:, : y.shape[1]] - self.system.ridge * (self.equations.K @ b)

    def left(self, b: Tensor) -> Float[Tensor, "n columns"]:
        """Return what b and the half leave of the targets: known if b was judged last."""
        if self._judged is None or self._judged[0] is not b:
            self.judge(b)
        assert self._judged is not None
        left, self._judged = self._judged[1], None
        return left

    def begin(self, warm: Tensor | None) -> Descent:
        """Return the descent on half of the centres, from given coefficients or from zero."""
        y, h, equations = self.system.y, self.first, self._first_half()
        none = y.new_zeros(len(self.Z), y.shape[1])
        at_zero = self.products.pull(y)
        b = none[h] if warm is None else warm[self.centres[h]]
        size = b.abs().amax(0).clamp_min(torch.finfo(torch.float32).tiny) if len(h) else 1.0
        image = equations.normal(b / size, torch.float32) * size if bool(b.any()) else torch.zeros_like(b)
        at = equations.begin(b, at_zero[h] - image - equations.ridge * (equations.K @ b), at_zero[h])
        at.at_zero = at_zero
        return at

    def second_half(self, at: Descent, save: Callable[[Descent], bool]) -> Descent:
        """Finish the half, and return the descent on all centres that starts from it."""
        assert at.at_zero is not None
        half = torch.zeros_like(at.at_zero)
        if len(self.first):
            half[self.first] = self._first_half().approach(at, save)
        start = self.equations.begin(*self.judge(half), at.at_zero)
        start.half = half
        save(start)
        return start

    def _first_half(self) -> NormalEquations:
        h, system = self.first, self.system
        products = CentreProducts(system.kernel, system.X, self.Z[h], self.forecast) if len(h) else self.products
        lower = factor_of(self.gram) if len(h) else self.gram
        return NormalEquations(self.equations.K[h][:, h], lower, system.ridge, products.normal, self.judge)

    def distance(self, b: Tensor, left: Tensor, left_half: Tensor, rows: Tensor, cross: Tensor) -> Float[Tensor, " r"]:
        """Return the estimate of `solving.distance`, from some rows; one pass over all of them."""
        system, K, r = self.system, self.equations.K, b.shape[1]
        S = system.X[rows].to(torch.float64)
        both = torch.cat([left, left_half], 1)
        pull = CentreProducts(system.kernel, system.X, S).residual(both.new_zeros(len(S), 2 * r), both)[1]
        v = pull / system.ridge - (system.y[rows].repeat(1, 2) - both[rows])
        own, found = system.kernel.dense(S, S), []
        for chosen, columns in ((slice(None), v[:, :r]), (self.first, v[:, r:])):
            part = K[chosen][:, chosen]
            half = (
                torch.linalg.solve_triangular(factor_of(part), cross[:, chosen].T, upper=False) if len(part) else None
            )
            E = own - half.T @ half if half is not None else own
            found.append(sampled_distance(E, columns, system.ridge, system.n)["g"])
        change = (left - left_half).square().mean(0).sqrt()
        # the penalised error J is strongly convex: a squared distance from its minimiser is at most the excess of J
        excess = left.square().sum(0) + system.ridge * (b * (K @ b)).sum(0)
        return torch.minimum(estimate_distance(found[0], found[1], change), (excess / system.n).sqrt())


def _checkpoint(run: Run, count: int) -> Checkpoint | None:
    if run.checkpoint is None:
        return None
    system = run.system
    assert system.targets is not None
    if run.problem is None:
        run.problem = describe_problem(system.kernel, system.X, system.targets, ridge=system.ridge)
    problem = {**run.problem, "seed": run.seed, "centres": count}
    return Checkpoint(run.checkpoint / f"centres-{count}.safetensors", problem)


def _independent(system: RidgeSystem, centres: Tensor) -> Tensor:
    """Return the centres without those that the others span to twelve digits: coefficients on these would be noise."""
    from scipy.linalg.lapack import dpstrf

    Z = system.X[centres].to(torch.float64)
    K = system.kernel.dense(Z, Z).cpu().numpy()
    _, pivots, rank, _ = dpstrf(K, tol=SPANNED * float(K.diagonal().max()))
    return centres[torch.from_numpy(pivots[:rank] - 1).to(centres)]


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
