"""One rule for tuning every method of the field: the same folds, the same loss, grids widened at their edges."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from ridgeformer.core.errors import LogitRangeError
from ridgeformer.datasets import Split

__all__ = ["Axis", "Tuned", "class_odds", "fit_quietly", "kernel_out_of_fold", "out_of_fold", "probabilities", "tune"]

Array = NDArray[np.float64]
Choice = Mapping[str, float]

WIDENINGS = 4
"""Times that a grid is widened at most, one step at a time."""


@dataclass(frozen=True)
class Axis:
    """The values of one setting: geometric, and widened at the ratio of the two at the edge within the limits.

    With `smoothing` the first of them is the simplest model, and the simplest within one standard error of the best is
    chosen.
    """

    values: tuple[float, ...]
    least: float = 0.0
    most: float = np.inf
    whole: bool = False
    smoothing: bool = False

    def beyond(self, edge: float, inner: float) -> float | None:
        """Return the next value beyond an edge, or None at the limit."""
        value = edge * edge / inner
        if self.whole:
            value = float(round(value)) if abs(round(value) - edge) >= 1 else edge + np.sign(edge - inner)
        value = min(max(value, self.least), self.most)
        return value if value > 0 and not np.isclose(value, edge) else None


@dataclass(frozen=True, eq=False)
class Tuned:
    """A choice of settings.

    Attributes:
        chosen: The settings of least loss.
        tried: Number of settings that were tried.
        on_edge: Whether one of them still lies on the edge of its grid, inside its limits.
    """

    chosen: dict[str, float]
    tried: int
    on_edge: bool


def tune(
    split: Split,
    axes: Mapping[str, Axis],
    predict: Callable[[list[Choice]], list[Array | None]],
    *,
    cross: bool = True,
) -> Tuned:
    """Return the settings whose out-of-fold predictions have the least loss; the first of equals.

    The loss is the mean squared error, or the fraction misclassified plus the Brier score, which is less noisy; each
    class counts alike if the classes are imbalanced. Each grid is widened by one value, up to four times, while the
    choice lies on its edge. Of settings that smooth, the strongest within one standard error of the best is taken.

    Args:
        split: The training rows.
        axes: The grid of every setting, simplest value first.
        cross: Whether a new value is tried with all values of the other settings, or with the best ones only.
        predict: Settings to out-of-fold predictions, as `out_of_fold` returns them; None for settings that cannot be
            used.
    """
    grids = {name: list(axis.values) for name, axis in axes.items()}
    losses: dict[tuple[float, ...], float] = {}
    errors: dict[tuple[float, ...], float] = {}

    def judge(keys: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
        new = [key for key in keys if key not in losses]
        for key, found in zip(new, predict([dict(zip(grids, key, strict=True)) for key in new]), strict=True):
            rows = np.array([np.inf]) if found is None else _losses(split, found)
            losses[key], errors[key] = (
                float(rows.mean()),
                float(rows.std() / len(rows) ** 0.5) if len(rows) > 1 else 0.0,
            )
        return min(losses, key=losses.__getitem__)

    best = judge(itertools.product(*grids.values()))
    widened = dict.fromkeys(grids, 0)
    while wider := {name: value for name, value in _edges(axes, grids, best).items() if widened[name] < WIDENINGS}:
        keys = []
        for name, value in wider.items():
            widened[name] += 1
            grids[name] = sorted([*grids[name], value], reverse=grids[name][0] > grids[name][-1])
            others = {other: grid if cross else [best[k]] for k, (other, grid) in enumerate(grids.items())}
            keys += list(itertools.product(*{**others, name: [value]}.values()))
        best = judge(dict.fromkeys(keys))
    if not np.isfinite(losses[best]):
        raise LogitRangeError("no temperature of the grid can represent these rows: use --preprocessing both.")
    on_edge = bool(_edges(axes, grids, best))
    enough = losses[best] + errors[best]
    for place, (name, grid) in enumerate(grids.items()):
        if axes[name].smoothing:
            keys = [(*best[:place], value, *best[place + 1 :]) for value in grid]
            best = next(key for key in keys if losses.get(key, np.inf) <= enough)
    return Tuned(dict(zip(grids, best, strict=True)), len(losses), on_edge)


def _edges(axes: Mapping[str, Axis], grids: Mapping[str, list[float]], best: Sequence[float]) -> dict[str, float]:
    """Return the next value of every grid on whose edge the choice lies."""
    wider = {}
    for (name, grid), value in zip(grids.items(), best, strict=True):
        if len(grid) > 1 and value in (grid[0], grid[-1]):
            inner = grid[1] if value == grid[0] else grid[-2]
            if (beyond := axes[name].beyond(value, inner)) is not None:
                wider[name] = beyond
    return wider


def _losses(split: Split, found: Array) -> Array:
    """Return the loss of every row that judges."""
    judged = ~np.isnan(found).any(axis=1)
    found = found[judged]
    if split.labels is None:
        return np.asarray(((found - (split.y + split.mean).numpy()[judged]) ** 2).mean(1))
    codes = split.labels.numpy()[judged]
    odds = class_odds(split)
    weight = odds[codes] / odds[codes].mean()
    p = found * odds
    total = p.sum(axis=1, keepdims=True)
    p = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])
    brier = ((p - np.eye(len(split.classes))[codes]) ** 2).sum(1)
    return np.asarray(weight * ((p.argmax(1) != codes) + brier))


def class_odds(split: Split) -> Array:
    """Return what class probabilities are multiplied with before the largest one decides.

    That is one, or one over the frequency of each class where the smallest has less than half of an even part.
    """
    assert split.labels is not None
    counts = np.bincount(split.labels.numpy(), minlength=len(split.classes)).astype(np.float64)
    present = counts > 0
    even = counts.sum() / present.sum()
    if counts[present].min() >= even / 2:
        return np.ones(len(counts))
    return np.where(present, even / np.where(present, counts, 1), 1.0)


def probabilities(outputs: Array) -> Array:
    """Return class probabilities of regression outputs, which estimate 2 p - 1: cut off at 0 and normalised."""
    p = np.maximum(1 + outputs, 0)
    total = p.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1]))


def fit_quietly(estimator: BaseEstimator, split: Split, rows: NDArray[Any] | slice, X: Array) -> tuple[Any, Array]:
    """Fit an estimator of scikit-learn on training rows and predict others: probabilities, or numbers as given.

    With one class among the rows that class is predicted. Warnings about convergence are of no interest here: a fit
    that stops early is judged as it is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if split.labels is None:
            y = (split.y + split.mean).numpy()[rows]
            estimator.fit(split.X.numpy()[rows], y[:, 0] if y.shape[1] == 1 else y)
            return estimator, np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)
        codes = split.labels.numpy()[rows]
        found = np.zeros((len(X), len(split.classes)))
        if len(np.unique(codes)) == 1:
            found[:, codes[0]] = 1.0
            return estimator, found
        estimator.fit(split.X.numpy()[rows], codes)
        found[:, estimator.classes_] = estimator.predict_proba(X)
        return estimator, found


def out_of_fold(split: Split, folds: NDArray[np.int64], estimator: BaseEstimator) -> Array:
    """Return the prediction for each training row by the estimator fitted on the other folds.

    Rows in fold -1 are in every fit and get NaN: they judge none.
    """
    found = np.full((len(split.X), split.y.shape[1]), np.nan)
    for fold in np.unique(folds[folds >= 0]):
        held = folds == fold
        found[held] = fit_quietly(estimator, split, ~held, split.X.numpy()[held])[1]
    return found


def kernel_out_of_fold(K: Tensor, split: Split, folds: NDArray[np.int64], ridges: Sequence[float]) -> list[Array]:
    """Return the out-of-fold predictions of kernel ridge regression with an intercept, for every ridge.

    They are class probabilities, or numbers in the target's unit.

    Exact, from one eigendecomposition of K: with R = (K + ridge I)^-1 the residuals of the rows f without which the fit
    is made are R_ff^-1 (R y)_f, and they are linear in y, so the mean of the other folds is the intercept.
    """
    held = [torch.from_numpy(np.flatnonzero(folds == fold)) for fold in np.unique(folds[folds >= 0])]
    if len(held) == 1:
        return _held_out_once(K, split, held[0], ridges)
    values, Q = torch.linalg.eigh(K)
    values = values.clamp_min(0)
    Y = torch.cat([split.y + split.mean, torch.ones(len(K), 1, dtype=K.dtype)], dim=1)
    projected = Q.T @ Y
    predictions = []
    for ridge in ridges:
        scale = 1 / (values + ridge)
        found = torch.empty(len(K), Y.shape[1] - 1, dtype=K.dtype)
        for rows in held:
            part = Q[rows]
            residual = torch.linalg.solve(part @ (scale[:, None] * part.T), part @ (scale[:, None] * projected))
            mean = (Y[:, :-1].sum(0) - Y[rows, :-1].sum(0)) / (len(K) - len(rows))
            found[rows] = Y[rows, :-1] - residual[:, :-1] + mean * residual[:, -1:]
        predictions.append(found.numpy() if split.labels is None else probabilities(found.numpy()))
    return predictions


def _held_out_once(K: Tensor, split: Split, rows: Tensor, ridges: Sequence[float]) -> list[Array]:
    """Return the predictions for these rows by the fits to all others, NaN elsewhere."""
    kept = torch.ones(len(K), dtype=torch.bool)
    kept[rows] = False
    Y = (split.y + split.mean)[kept]
    mean = Y.mean(0)
    values, Q = torch.linalg.eigh(K[kept][:, kept])
    left, projected = K[rows][:, kept] @ Q, Q.T @ (Y - mean)
    predictions = []
    for ridge in ridges:
        found = (mean + left @ (projected / (values.clamp_min(0) + ridge)[:, None])).numpy()
        whole = np.full((len(K), found.shape[1]), np.nan)
        whole[rows.numpy()] = found if split.labels is None else probabilities(found)
        predictions.append(whole)
    return predictions
