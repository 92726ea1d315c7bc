"""How uncertain a fit is at new rows: conformal intervals and sets from exact leave-one-out, and the posterior.

Removing row i changes the prediction at x by W_i alpha_i / R_ii, with R = (K + ridge I)^-1 and W = R k(x): every
leave-one-out fit is known at every query from one solve, and none is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import exp, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer import intervals
from ridgeformer.core.checks import ArrayLike, as_query, as_targets, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.seeds import torch_generator
from ridgeformer.intervals import Interval, Posterior, PredictionSet
from ridgeformer.kernels.base import BLOCK_ENTRIES, gamma
from ridgeformer.solving.engines.tiles import COPIED_BYTES
from ridgeformer.solving.run import Status
from ridgeformer.solving.system import check_memory

if TYPE_CHECKING:
    from ridgeformer.solving.fit import Fit

__all__ = ["count_duplicates", "fit_interval", "fit_posterior", "fit_set"]

FOLDS = 10
PROBES, CONFIDENCE = 64, 0.95
"""Random probes for the diagonal of R where no factor fits, and the confidence of error bars."""


def _fits(fit: Fit) -> bool:
    """Whether the factor is there, or there is room for it."""
    if fit.direct_factor is not None or "factor" in vars(fit):
        return True
    try:
        check_memory(len(fit.X), fit.X.dtype)
    except InputError:
        return False
    return True


def _blocks(fit: Fit, Xq: Tensor, columns: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield some queries at a time, and k(x) of them as columns, which lie in memory one after the other.

    So LAPACK wants them, and so order statistics of a column are taken without transposing.
    """
    for some in Xq.split(max(1, 4 * BLOCK_ENTRIES // (len(fit.X) * columns))):
        yield some, fit.kernel.dense(some, fit.X).T


def fit_interval(
    fit: Fit,
    Xq: ArrayLike,
    level: float = 0.9,
    method: str = "jackknife+",
    calibration: tuple[ArrayLike, ArrayLike] | None = None,
    folds: int = FOLDS,
    seed: int = 0,
    probes: int | None = None,
    centred: bool = False,
) -> Interval:
    """Return what `Fit.interval` documents.

    `centred` says that the targets are what their own mean leaves: leaving a row out then moves that mean too.
    """
    on_centres = fit.status is Status.SUBSET
    Xq, alpha = as_query(Xq, fit.X), fit.alpha.reshape(len(fit.X), -1) if on_centres else fit.exact_alpha
    intervals.rows_needed(level)
    if method not in intervals.GUARANTEES:
        raise unknown_name("method", method, intervals.GUARANTEES)
    if on_centres and method not in ("jackknife+", "split"):
        raise InputError(
            f"method {method!r} is for the exact fit of all rows: for one on centres take 'jackknife+', or 'split' "
            "with calibration rows."
        )
    if (calibration is None) == (method in ("split", "normalised")):
        asked = "needs calibration=(X, y), rows that the fit has not seen" if calibration is None else "takes none"
        raise InputError(
            f"calibration is {'missing' if calibration is None else 'given'}, but method {method!r} {asked}."
        )
    estimated = not on_centres and (probes is not None or not _fits(fit))
    if estimated and method in ("cv+", "full"):
        raise InputError(
            f"method {method!r} needs a Cholesky factor of all {len(alpha):,} rows, which does not fit into memory (or "
            "probes were asked for): take 'jackknife+', or 'split' with calibration rows."
        )
    if centred and method == "full":
        raise InputError("method 'full' does not know how a candidate moves the mean: fit without an intercept.")
    if calibration is not None:
        parts = _calibrated(fit, Xq, level, method == "normalised", *calibration, probes=probes, seed=seed)
    elif on_centres:
        parts = fit.on_centres.jackknife_plus(Xq, level, centred)
    elif method == "full":
        parts = [_full(fit, Xq, alpha[:, c], level) for c in range(alpha.shape[1])]
    elif estimated:
        parts = _estimated(fit, Xq, level, whole(PROBES if probes is None else probes, "probes", 2), seed, centred)
    else:
        members = _folds(len(alpha), folds, seed) if method == "cv+" else None
        parts = [_left_out(fit, Xq, c, level, members, centred) for c in range(alpha.shape[1])]
    low, high, error = (
        None if parts[0].error is None and end == "error" else torch.stack([getattr(part, end) for part in parts], 1)
        for end in ("low", "high", "error")
    )
    assert low is not None
    assert high is not None
    if fit.alpha.ndim == 1:
        low, high, error = low[:, 0], high[:, 0], None if error is None else error[:, 0]
    counted = calibration is None and fit.X.nbytes <= COPIED_BYTES
    said = parts[0].guarantee if counted or calibration is not None else f"{parts[0].guarantee}; no duplicates counted"
    return Interval(low, high, level, method, said, error, count_duplicates(fit.X) if counted else 0)


def count_duplicates(X: Float[Tensor, "n d"]) -> int:
    """Return how many rows equal an earlier one.

    Example:
        >>> count_duplicates(torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
        1
    """
    rows = np.ascontiguousarray(X.detach().cpu().numpy() + 0.0)  # -0 becomes 0
    return len(rows) - len(np.unique(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))))


def _joined(parts: list[Interval]) -> Interval:
    first = parts[0]
    low, high = torch.cat([part.low for part in parts]), torch.cat([part.high for part in parts])
    return Interval(low, high, first.level, first.method, first.guarantee)


def _folds(n: int, folds: int, seed: int) -> list[Tensor]:
    if whole(folds, "folds", 2) > n:
        raise InputError(f"folds is {folds}; at most one a training row, {n}, was expected.")
    return list(torch.randperm(n, generator=torch_generator(seed, "folds")).tensor_split(folds))


def _left_out(fit: Fit, Xq: Tensor, output: int, level: float, folds: list[Tensor] | None, centred: bool) -> Interval:
    """Return the jackknife+ interval of one output, or with folds the CV+ interval.

    Without the rows S, residuals are R_SS^-1 alpha_S and predictions f(x) - W_S' R_SS^-1 alpha_S. Where targets are
    centred, leaving S out moves their mean by d = -sum_S y / (n - |S|): with beta = R 1 that takes d beta_S from
    alpha_S and adds d (1 - k(x)'beta).
    """
    n, alpha = len(fit.X), fit.exact_alpha[:, output]
    beta = fit.inverse @ torch.ones_like(alpha) if centred else torch.zeros_like(alpha)
    y = fit.y.reshape(n, -1)[:, output].to(alpha)
    if folds is None:
        moved = -y / (n - 1)
        residuals = (alpha - moved * beta) / fit.inverse_diagonal if centred else alpha / fit.inverse_diagonal
    else:
        moved, residuals = torch.empty_like(alpha), torch.empty_like(alpha)
        for rows in folds:
            unit = alpha.new_zeros(n, len(rows))
            unit[rows, torch.arange(len(rows))] = 1
            half = torch.linalg.solve_triangular(fit.factor, unit, upper=False)
            moved[rows] = -y[rows].sum() / (n - len(rows))
            residuals[rows] = torch.linalg.solve(half.T @ half, alpha[rows] - moved[rows] * beta[rows])
    parts = []
    for _, cross in _blocks(fit, Xq):
        values, W = cross.T @ alpha, fit.inverse @ cross
        if folds is None:
            left_out = W.mul_(-residuals[:, None]).add_(values)
        else:
            left_out = torch.empty_like(W)
            for rows in folds:
                left_out[rows] = values - residuals[rows] @ W[rows]
        if centred:
            left_out.addr_(moved, 1 - cross.T @ beta)
        part = intervals.jackknife_plus(residuals, left_out, level)
        parts.append(part if folds is None else intervals.cv_plus(residuals, left_out, level, folds=len(folds)))
    return _joined(parts)


def _estimated(fit: Fit, Xq: Tensor, level: float, probes: int, seed: int, centred: bool) -> list[Interval]:
    """Return jackknife+ intervals, one for every output, without a factor: CG for R k(x), probes for the diagonal of R.

    How far the ends are off is estimated by leaving out one group of probes at a time: the jackknife's standard error
    with Student's t, and its estimate of the bias. What the solves may be off is added, proved: order statistics of
    numbers that move by at most e_i lie between those of the numbers minus and plus e_i.
    """
    from ridgeformer.solving.sketched import sketch_kernel  # which needs `solve`, which returns a Fit

    n, alpha = len(fit.X), fit.exact_alpha
    sketched = sketch_kernel(fit.kernel, fit.X, fit.ridge, None, seed)
    found = sketched.estimate(torch.ones_like(alpha[:, :1]), probes, CONFIDENCE, None)
    beta = found.solution * centred
    moved = -fit.y.reshape(n, -1).to(alpha) / (n - 1) * centred
    top = alpha - moved * beta
    wrong = (sketched.error(fit) + moved.abs() * found.error) / found.diagonal_least[:, None]  # of the residuals
    parts: list[list[Interval]] = [[] for _ in range(alpha.shape[1])]
    for some, cross in _blocks(fit, Xq):
        solved = sketched.solve(cross, None)
        W, W_error, values = solved.alpha, sketched.error(solved), cross.T @ alpha
        bound = fit.prediction_bound(some).reshape(len(some), -1).to(values)
        reach = 1 - (cross.T @ beta)[:, 0]
        for c, kept in enumerate(parts):
            fixed, e = values[:, c] + moved[:, c : c + 1] * reach, wrong[:, c : c + 1]
            made = []
            for diagonal in (found.diagonal, *found.without_group):
                r = (top[:, c] / diagonal)[:, None]
                error = bound[:, c] + W.abs() * e + W_error * (r.abs() + e) + e
                made.append(intervals.jackknife_plus(r[:, 0], fixed - W * r, level, error=error))
            kept.append(_with_error(made[0], made[1:]))
    joined = [_joined(kept) for kept in parts]
    errors = [torch.cat([one.error for one in kept if one.error is not None]) for kept in parts]
    said = (
        f"; the diagonal of (K + ridge I)^-1 is estimated from {probes} random probes, which may move an end by "
        f"{max(float(one.max()) for one in errors):.2g} (error bars of {CONFIDENCE:.0%})"
    )
    return [
        replace(one, guarantee=one.guarantee + said, error=error) for one, error in zip(joined, errors, strict=True)
    ]


def _with_error(made: Interval, without: list[Interval]) -> Interval:
    """Return an interval with its error: the jackknife's over the groups of probes, and that of the solves."""
    from scipy.stats import t as student

    groups, gaps = len(without), []
    quantile = float(student.ppf((1 + CONFIDENCE) / 2, groups - 1))
    for end in ("low", "high"):
        left = torch.stack([getattr(one, end) for one in without])
        bias = (groups - 1) * (left.mean(0) - getattr(made, end)).abs()
        gaps.append(bias + quantile * (groups - 1) * left.std(0) / sqrt(groups))
    assert made.error is not None
    return replace(made, error=made.error + torch.maximum(*gaps))


def _full(fit: Fit, Xq: Tensor, alpha: Tensor, level: float) -> Interval:
    parts = []
    for some, cross in _blocks(fit, Xq):
        W = fit.inverse @ cross
        least = fit.ridge  # the posterior variance is not negative
        schur = (fit.kernel.diagonal(some) + fit.ridge - (cross * W).sum(0)).clamp_min(least)
        parts.append(intervals.full_conformal(cross.T @ alpha, alpha, fit.inverse_diagonal, W, schur, level))
    return _joined(parts)


def _calibrated(
    fit: Fit,
    Xq: Tensor,
    level: float,
    normalised: bool,
    Xc: ArrayLike,
    yc: ArrayLike,
    *,
    probes: int | None,
    seed: int,
) -> list[Interval]:
    Xc = as_query(Xc, fit.X, "calibration rows")
    yc = as_targets(yc, Xc, "calibration targets").reshape(len(Xc), -1)
    alpha = fit.alpha.reshape(len(fit.X), -1)
    if yc.shape[1] != alpha.shape[1]:
        raise InputError(f"calibration targets have {yc.shape[1]} outputs; {alpha.shape[1]} were expected.")
    if fit.status is Status.SUBSET:
        here, there = (fit.predict(Z).double().reshape(len(Z), -1) for Z in (Xq, Xc))
    else:
        here, there = (fit.kernel.product(Z, fit.X, alpha) for Z in (Xq, Xc))
    left = _residuals(fit, probes, seed) if normalised else None
    parts = []
    for c in range(alpha.shape[1]):
        scales = None
        if left is not None:
            scales = (intervals.local_scale(Xq, fit.X, left[:, c]), intervals.local_scale(Xc, fit.X, left[:, c]))
        parts.append(intervals.split_conformal(here[:, c], yc[:, c] - there[:, c], level, scales=scales))
    return parts


def _residuals(fit: Fit, probes: int | None, seed: int) -> Tensor:
    """Return leave-one-out residuals, (n, outputs); estimates where no factor fits, which is enough for scales."""
    if probes is None and _fits(fit):
        return fit.leave_one_out.reshape(len(fit.X), -1)
    from ridgeformer.solving.sketched import sketch_kernel  # which needs `solve`, which returns a Fit

    alpha = fit.exact_alpha
    sketched = sketch_kernel(fit.kernel, fit.X, fit.ridge, None, seed)
    found = sketched.estimate(alpha[:, :0], whole(PROBES if probes is None else probes, "probes", 2), CONFIDENCE, None)
    return alpha / found.diagonal[:, None]


def fit_set(
    fit: Fit, Xq: ArrayLike, level: float = 0.9, per_class: bool = False, mean: Tensor | None = None
) -> PredictionSet:
    """Return what `Fit.prediction_set` documents.

    `mean` is what was subtracted from the targets, if it is their own mean: it is added to every score, and leaving a
    row out moves it as in `fit_interval`.
    """
    Xq, alpha, n = as_query(Xq, fit.X), fit.exact_alpha, len(fit.X)
    if alpha.shape[1] < 2:
        raise InputError("the fit has one output; a column of targets for each class was expected (+1 and -1, say).")
    targets = fit.y.to(alpha)
    beta = fit.inverse @ torch.ones_like(alpha[:, 0]) if mean is not None else torch.zeros_like(alpha[:, 0])
    moved = -targets / (n - 1) if mean is not None else torch.zeros_like(targets)
    added = alpha.new_zeros(alpha.shape[1]) if mean is None else mean.to(alpha)
    residuals = (alpha - moved * beta[:, None]) / fit.inverse_diagonal[:, None]
    labels, scores = (targets + added).argmax(1), targets + added - residuals
    members, guarantee = [], ""
    for _, cross in _blocks(fit, Xq, alpha.shape[1]):
        values, W = cross.T @ alpha + added, fit.inverse @ cross
        left_out = values[None] - W[:, :, None] * residuals[:, None, :]
        if mean is not None:
            left_out += moved[:, None, :] * (1 - cross.T @ beta)[None, :, None]
        part = intervals.jackknife_plus_set(scores, labels, left_out, level, per_class=per_class)
        members.append(part.member)
        guarantee = part.guarantee
    return PredictionSet(torch.cat(members), level, guarantee)


def fit_posterior(fit: Fit, Xq: ArrayLike, scale: float, covariance: bool) -> Posterior:
    """Return what `Fit.posterior` documents."""
    Xq = as_query(Xq, fit.X)
    if fit.X.dtype != torch.float64:
        raise InputError(f"the rows are {fit.X.dtype}; the posterior variance is proved in float64 only: convert them.")
    unit = scale * exp(fit.log_scale) if fit.log_scale < 700 else float("inf")
    if not isfinite(unit):
        raise InputError("the kernel is beyond the range of float64: scale the rows, or raise the temperature.")
    trace = float(fit.kernel.roots(fit.X).square().sum())
    parts, exact = [], _fits(fit)
    if fit.status is Status.SUBSET and not exact:
        raise InputError(
            f"the posterior variance is that of all {len(fit.X):,} rows, whose kernel matrix does not fit into memory, "
            "and this fit is one on centres: take fit.interval(Xq), whose intervals are its own."
        )
    measure = _energies if exact else _iterated_energies(fit)
    for some, cross in _blocks(fit, Xq):
        diagonal, error = fit.kernel.diagonal(some), fit.kernel.entry_error(some)
        energy, energy_error, norm = measure(fit, cross, error)
        parts.append(
            intervals.variance_interval(diagonal, energy, energy_error, norm, error.square(), trace, fit.ridge)
        )
    variance, low, high = (unit * torch.cat(ends) for ends in zip(*parts, strict=True))
    joint = None
    if covariance:
        cross = fit.kernel.dense(fit.X, Xq)
        W = fit.inverse @ cross if exact else _iterated(fit)(cross).alpha
        joint = unit * (fit.kernel.dense(Xq, Xq) - cross.T @ W)
        joint = (joint + joint.T) / 2
        joint.diagonal().copy_(variance)
    return Posterior(fit.predict(Xq), variance, low, high, unit * fit.ridge, joint)


def _energies(fit: Fit, cross: Tensor, error: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return k'z + z'rho for z = R k as computed, how far that can be off, and a bound on the norm of rho = k - A z."""
    n, own, W = len(fit.X), fit.kernel.entry_error(fit.X), fit.inverse @ cross
    residual = cross - (fit.K @ W + fit.ridge * W)
    sizes = cross.abs() + fit.K.abs() @ W.abs() + fit.ridge * W.abs()
    # what rounding and the entries of K and k(x) themselves add to the residual, entry by entry
    wrong = gamma(n + 4, torch.float64) * sizes + torch.outer(own, error + own @ W.abs())
    energy = (cross * W).sum(0) + (W * residual).sum(0)
    energy_error = gamma(2 * n + 4, torch.float64) * ((cross.abs() + residual.abs()) * W.abs()).sum(0)
    energy_error = energy_error + error * (own @ W.abs()) + (wrong * W.abs()).sum(0)
    return energy, energy_error, residual.norm(dim=0) + wrong.norm(dim=0)


def _iterated_energies(fit: Fit) -> Callable[[Fit, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Return `_energies` by conjugate gradients, where neither K nor its factor fits into memory."""
    solve = _iterated(fit)

    def measure(fit: Fit, cross: Tensor, error: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n, own, solved = len(fit.X), fit.kernel.entry_error(fit.X), solve(cross)
        W = solved.alpha
        # the float64 residual as such is needed: z'rho is of first order in it
        residual = cross - fit.kernel.product(fit.X, fit.X, W) - fit.ridge * W
        wrong = solved.roundoff.to(W) + error * own.norm()
        energy = (cross * W).sum(0) + (W * residual).sum(0)
        energy_error = gamma(2 * n + 4, torch.float64) * ((cross.abs() + residual.abs()) * W.abs()).sum(0)
        energy_error = energy_error + error * (own @ W.abs()) + wrong * W.norm(dim=0)
        return energy, energy_error, residual.norm(dim=0) + wrong

    return measure


def _iterated(fit: Fit) -> Callable[[Tensor], Fit]:
    from ridgeformer.solving.sketched import sketch_kernel  # which needs `solve`, which returns a Fit

    sketched = sketch_kernel(fit.kernel, fit.X, fit.ridge, None, 0)
    return lambda cross: sketched.solve(cross, None)
