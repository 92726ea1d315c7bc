"""How uncertain a fit is at new rows: conformal intervals and sets from exact leave-one-out, and the posterior.

Removing row i changes the prediction at x by W_i alpha_i / R_ii, with R = (K + ridge I)^-1 and W = R k(x): every
leave-one-out fit is known at every query from one solve, and none is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, isfinite
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ridgeformer import intervals
from ridgeformer.core.checks import ArrayLike, as_query, as_targets, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.seeds import torch_generator
from ridgeformer.intervals import Interval, Posterior, PredictionSet
from ridgeformer.kernels.base import BLOCK_ENTRIES, gamma

if TYPE_CHECKING:
    from ridgeformer.solving.fit import Fit

__all__ = ["fit_interval", "fit_posterior", "fit_set"]

FOLDS = 10


def _blocks(fit: Fit, Xq: Tensor, columns: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield some queries at a time, and W = R k(x) of them as columns."""
    for some in Xq.split(max(1, 4 * BLOCK_ENTRIES // (len(fit.X) * columns))):
        yield some, fit.inverse @ fit.kernel.dense(fit.X, some)


def fit_interval(
    fit: Fit,
    Xq: ArrayLike,
    level: float,
    method: str,
    calibration: tuple[ArrayLike, ArrayLike] | None,
    folds: int,
    seed: int,
) -> Interval:
    """Return what `Fit.interval` documents."""
    Xq, alpha = as_query(Xq, fit.X), fit.exact_alpha
    intervals.rows_needed(level)
    if method not in intervals.GUARANTEES:
        raise unknown_name("method", method, intervals.GUARANTEES)
    if (calibration is None) == (method in ("split", "normalised")):
        asked = "needs calibration=(X, y), rows that the fit has not seen" if calibration is None else "takes none"
        raise InputError(
            f"calibration is {'missing' if calibration is None else 'given'}, but method {method!r} {asked}."
        )
    if calibration is not None:
        parts = _calibrated(fit, Xq, level, method == "normalised", *calibration)
    elif method == "full":
        parts = [_full(fit, Xq, alpha[:, c], level) for c in range(alpha.shape[1])]
    else:
        members = _folds(len(alpha), folds, seed) if method == "cv+" else None
        parts = [_left_out(fit, Xq, alpha[:, c], level, members) for c in range(alpha.shape[1])]
    low, high = (torch.stack([getattr(part, end) for part in parts], 1) for end in ("low", "high"))
    flat = fit.alpha.ndim == 1
    return Interval(low[:, 0] if flat else low, high[:, 0] if flat else high, level, method, parts[0].guarantee)


def _joined(parts: list[Interval]) -> Interval:
    first = parts[0]
    low, high = torch.cat([part.low for part in parts]), torch.cat([part.high for part in parts])
    return Interval(low, high, first.level, first.method, first.guarantee)


def _folds(n: int, folds: int, seed: int) -> list[Tensor]:
    if whole(folds, "folds", 2) > n:
        raise InputError(f"folds is {folds}; at most one a training row, {n}, was expected.")
    return list(torch.randperm(n, generator=torch_generator(seed, "folds")).tensor_split(folds))


def _left_out(fit: Fit, Xq: Tensor, alpha: Tensor, level: float, folds: list[Tensor] | None) -> Interval:
    """Return the jackknife+ interval of one output, or with folds the CV+ interval.

    Without the rows S, residuals are R_SS^-1 alpha_S and predictions f(x) - W_S' R_SS^-1 alpha_S.
    """
    residuals = alpha / fit.inverse_diagonal
    if folds is not None:
        residuals = torch.empty_like(alpha)
        for rows in folds:
            unit = alpha.new_zeros(len(alpha), len(rows))
            unit[rows, torch.arange(len(rows))] = 1
            half = torch.linalg.solve_triangular(fit.factor, unit, upper=False)
            residuals[rows] = torch.linalg.solve(half.T @ half, alpha[rows])
    parts = []
    for some, W in _blocks(fit, Xq):
        values = fit.kernel.product(some, fit.X, alpha[:, None])[:, 0]
        if folds is None:
            parts.append(intervals.jackknife_plus(residuals, values - W * residuals[:, None], level))
            continue
        left_out = torch.empty_like(W)
        for rows in folds:
            left_out[rows] = values - residuals[rows] @ W[rows]
        parts.append(intervals.cv_plus(residuals, left_out, level, folds=len(folds)))
    return _joined(parts)


def _full(fit: Fit, Xq: Tensor, alpha: Tensor, level: float) -> Interval:
    parts = []
    for some, W in _blocks(fit, Xq):
        cross = fit.kernel.dense(some, fit.X)
        least = fit.ridge  # the posterior variance is not negative
        schur = (fit.kernel.diagonal(some) + fit.ridge - (cross * W.T).sum(1)).clamp_min(least)
        parts.append(intervals.full_conformal(cross @ alpha, alpha, fit.inverse_diagonal, W, schur, level))
    return _joined(parts)


def _calibrated(fit: Fit, Xq: Tensor, level: float, normalised: bool, Xc: ArrayLike, yc: ArrayLike) -> list[Interval]:
    Xc = as_query(Xc, fit.X, "calibration rows")
    yc = as_targets(yc, Xc, "calibration targets").reshape(len(Xc), -1)
    alpha = fit.alpha.reshape(len(fit.X), -1)
    if yc.shape[1] != alpha.shape[1]:
        raise InputError(f"calibration targets have {yc.shape[1]} outputs; {alpha.shape[1]} were expected.")
    here, there = (fit.kernel.product(Z, fit.X, alpha) for Z in (Xq, Xc))
    parts = []
    for c in range(alpha.shape[1]):
        left = (fit.leave_one_out.reshape(alpha.shape)[:, c]) if normalised else None
        scales = None
        if left is not None:
            scales = (intervals.local_scale(Xq, fit.X, left), intervals.local_scale(Xc, fit.X, left))
        parts.append(intervals.split_conformal(here[:, c], yc[:, c] - there[:, c], level, scales=scales))
    return parts


def fit_set(fit: Fit, Xq: ArrayLike, level: float, per_class: bool) -> PredictionSet:
    """Return what `Fit.prediction_set` documents."""
    Xq, alpha = as_query(Xq, fit.X), fit.exact_alpha
    if alpha.shape[1] < 2:
        raise InputError("the fit has one output; a column of targets for each class was expected (+1 and -1, say).")
    residuals = alpha / fit.inverse_diagonal[:, None]
    targets = fit.y.to(alpha)
    labels, scores = targets.argmax(1), targets - residuals
    members, guarantee = [], ""
    for some, W in _blocks(fit, Xq, alpha.shape[1]):
        values = fit.kernel.product(some, fit.X, alpha)
        left_out = values[None] - W[:, :, None] * residuals[:, None, :]
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
    n, own = len(fit.X), fit.kernel.entry_error(fit.X)
    trace = float(fit.kernel.roots(fit.X).square().sum())
    parts = []
    for some, W in _blocks(fit, Xq):
        cross, diagonal, error = fit.kernel.dense(fit.X, some), fit.kernel.diagonal(some), fit.kernel.entry_error(some)
        product = fit.K @ W + fit.ridge * W
        residual = cross - product
        sizes = cross.abs() + fit.K.abs() @ W.abs() + fit.ridge * W.abs()
        # what rounding and the entries of K and k(x) themselves add to the residual, entry by entry
        wrong = gamma(n + 4, torch.float64) * sizes + torch.outer(own, error + own @ W.abs())
        energy = (cross * W).sum(0) + (W * residual).sum(0)
        energy_error = gamma(2 * n + 4, torch.float64) * ((cross.abs() + residual.abs()) * W.abs()).sum(0)
        energy_error = energy_error + error * (own @ W.abs()) + (wrong * W.abs()).sum(0)
        norm = residual.norm(dim=0) + wrong.norm(dim=0)
        parts.append(
            intervals.variance_interval(diagonal, energy, energy_error, norm, error.square(), trace, fit.ridge)
        )
    variance, low, high = (unit * torch.cat(ends) for ends in zip(*parts, strict=True))
    joint = None
    if covariance:
        cross = fit.kernel.dense(fit.X, Xq)
        joint = unit * (fit.kernel.dense(Xq, Xq) - cross.T @ (fit.inverse @ cross))
        joint = (joint + joint.T) / 2
        joint.diagonal().copy_(variance)
    return Posterior(fit.predict(Xq), variance, low, high, unit * fit.ridge, joint)
