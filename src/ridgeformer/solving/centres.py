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
from ridgeformer.solving.centre_products import CentreProducts
from ridgeformer.solving.checkpoint import Checkpoint, describe_problem
from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues
from ridgeformer.solving.halved_centres import HalvedCentres, independent
from ridgeformer.solving.normal_equations import ROUGHLY, Descent, Forecast, gram_rows
from ridgeformer.solving.plan import FACTORISED, LOCAL_ROWS, SAMPLED_ROWS, choose_plan
from ridgeformer.solving.preconditioners.pivoted_cholesky import PivotedFactor, pivoted_factor
from ridgeformer.solving.run import Doubling, Run, Status
from ridgeformer.solving.system import RidgeSystem

__all__ = ["double_centres", "fit_on_centres"]

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
    run.plan, run.doublings = replace(kept.plan, reasons=(*kept.plan.reasons, say)), done


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
    run.left_out_sample = (y - product)[rows] / (1 - weight.clamp(0, 0.99))[:, None]
    run.left_out = run.left_out_sample.square().mean(0).sqrt()
    _finish(run, alpha, y - product.add_(alpha, alpha=system.ridge), error)
    run.seconds = time.perf_counter() - begun


def _finish(run: Run, alpha: Tensor, residual: Tensor, error: Tensor) -> None:
    run.alpha, run.residual, run.fit_error = alpha, residual, error
    if run.status is not Status.STOPPED:
        run.status = Status.SUBSET
    run.relative.append(run.relative_norms(run.residual))
    size = run.system.mean_diagonal + run.system.ridge
    run.spectrum = ExtremeEigenvalues(size, size, size)


def _stream(run: Run, count: int, generator: torch.Generator, warm: Tensor | None) -> None:
    """Solve (K_c'K_c + ridge K_cc) b = K_c'y for uniformly drawn centres, one pass over the rows a step.

    A rough fit on the first half of the centres comes before: it is what the other starts from, and what its distance
    from the fit of all rows is estimated with. Where the run has a folder for checkpoints, every step is written there,
    and a step that was is not taken again.
    """
    system, y, begun = run.system, run.system.y, time.perf_counter()
    order = torch.randperm(system.n, generator=generator)
    order, judged_by = (  # the rest would be as long as y
        some.clone().to(system.X.device) for some in (order[: gram_rows(system.n, count)], order[-LOCAL_ROWS:])
    )
    drawn = independent(system.kernel, system.X[order[:count]])
    centres = run.centres = order[drawn]
    if len(drawn) < count:
        digits = f"to the digits of {str(system.X.dtype).removeprefix('torch.')} rows"
        spanned = f"{count - len(drawn):,} of {count:,} centres are combinations of the others, {digits}: left out"
        run.plan = replace(run.plan, reasons=(*run.plan.reasons, spanned))
    Z, forecast = system.X[centres].to(torch.float64), Forecast(system.n, run.progress)
    sampled, rows = system.X[order], _Rows(system, Z, forecast)
    first = (drawn < count // 2).nonzero()[:, 0]
    streamed = HalvedCentres(system.kernel, system.ridge, system.n, Z, first, sampled, rows, system.rounded)
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

    at = streamed.begin(None if warm is None else warm[centres]) if held is None else Descent.unpack(*held)
    if at.half is None:
        at = streamed.second_half(at, save)
    run.steps, forecast.at = len(at.relative), at
    run.relative.extend(at.relative)
    assert at.half is not None
    streamed.half = at.half
    streamed.equations.solve(at, note)
    if run.status is not Status.STOPPED:
        save(at)
    b = system.rounded(at.b)  # a start that no step has improved is not yet
    left = rows.left(torch.cat([b, at.half], 1))[:, : y.shape[1]]
    alpha = run.alpha  # zeros, until now
    alpha[centres] = b
    S = system.X[judged_by].to(torch.float64)
    run.left_out_sample = streamed.left_out(b, S, y[judged_by])
    run.left_out = run.left_out_sample.square().mean(0).sqrt()
    error = streamed.distance(b, S)
    run.seconds = before + time.perf_counter() - begun
    _finish(run, alpha, torch.sub(left, alpha, alpha=system.ridge), error)
    if run.status is Status.SUBSET and at.reached > ROUGHLY:
        run.status = Status.BREAKDOWN


class _Rows:
    """Passes over rows of this machine, which keep what the last coefficients leave of the targets."""

    def __init__(self, system: RidgeSystem, Z: Float[Tensor, "m d"], forecast: Forecast) -> None:
        self.system, self.forecast = system, forecast
        self.products = CentreProducts(system.kernel, system.X, Z, forecast)
        self._kept: tuple[Tensor, Tensor, Tensor] | None = None

    def normal(self, P: Tensor, dtype: torch.dtype) -> Tensor:
        return self.products.normal(P, dtype)

    def pull(self) -> Tensor:
        return self.products.pull(self.system.y, torch.float32)  # where a descent begins needs no more

    def residual(self, B: Tensor) -> Tensor:
        return self._passed(B)[1]

    def left(self, B: Tensor) -> Float[Tensor, "n columns"]:
        """Return what B leaves of the targets."""
        return self._passed(B)[0]

    def _passed(self, B: Tensor) -> tuple[Tensor, Tensor]:
        """Return what B leaves of the targets, and its product with K_c': known if B was passed over last."""
        if self._kept is None or not torch.equal(self._kept[0], B):
            self._kept = None  # room for the next
            self._kept = B, *self.products.residual(B, self.system.y)
        return self._kept[1:]

    def judged(self, B: Tensor, S: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return CentreProducts(self.system.kernel, self.system.X, S).judged(self.left(B))

    def others(self, Z: Tensor) -> _Rows:
        return _Rows(self.system, Z, self.forecast)


def _checkpoint(run: Run, count: int) -> Checkpoint | None:
    if run.checkpoint is None:
        return None
    system = run.system
    assert system.targets is not None
    if run.problem is None:
        run.problem = describe_problem(system.kernel, system.X, system.targets, ridge=system.ridge)
    problem = {**run.problem, "seed": run.seed, "centres": count}
    return Checkpoint(run.checkpoint / f"centres-{count}.safetensors", problem)


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
    energy = _mean_from_above(full[rows] * left, n) + noise * size
    bound = torch.where(energy > 0, (system.ridge * energy).clamp_min(0).sqrt() + noise * size.sqrt(), torch.inf)
    return torch.minimum(squares, bound)  # E that round-off has made more indefinite than that has the first form only


def _mean_from_above(sample: Tensor, n: int) -> Tensor:
    """Return the mean of a sample without replacement plus two standard errors, which vanish if it is everything."""
    count = len(sample)
    spread = sample.std(dim=0) if count > 1 else torch.zeros_like(sample[0])
    return sample.mean(0) + 2 * spread * ((1 - count / n) / count) ** 0.5
