"""One rule for tuning every method: the same folds, the same loss, the same number of settings tried."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.errors import LogitRangeError
from ridgeformer.datasets import Split
from ridgeformer.datasets.split import number_folds
from ridgeformer.kernels import Exponential, Kernel, mean_square_length

__all__ = [
    "RIDGES_TRIED", "TEMPERATURES_TRIED", "TRIES", "Axis", "Tuned", "attention_kernel", "choose_attention",
    "class_odds", "kernel_out_of_fold", "make_folds", "probabilities", "tune", "tune_kernel",
]  # fmt: skip

Array = NDArray[np.float64]
Choice = Mapping[str, float]

TRIES = 18
"""Settings that every method tries at most: two thirds of them on a grid, the others where the grid says."""

TEMPERATURES_TRIED, RIDGES_TRIED = (1.0, 2.0**-6), (10.0, 1e-6)
"""Ends of the grids of a kernel: over the mean squared row length, and over the mean diagonal of K."""

MANY_ROWS = 1000
"""Fewest training rows at which methods are tuned on one held-out third instead of five folds."""

KEPT_ROWS = 3000
"""Training rows up to which the eigendecompositions of all temperatures are kept in memory."""


@dataclass(frozen=True)
class Axis:
    """The values of one setting: a geometric grid from `first` to `last`, widened and refined within the limits.

    With `smoothing` the first of them is the simplest model, and the simplest within one standard error of the best is
    chosen; see `tune`. Equal ends are a choice already made.

    Example:
        >>> Axis(1.0, 27.0, whole=True).grid(4), Axis(8.0, 1.0).grid(4), Axis(3.0, 3.0).grid(4)
        ([1.0, 3.0, 9.0, 27.0], [8.0, 4.0, 2.0, 1.0], [3.0])
    """

    first: float
    last: float
    least: float = 0.0
    most: float = np.inf
    whole: bool = False
    smoothing: bool = False

    def grid(self, count: int) -> list[float]:
        """Return this many values, fewer where whole numbers coincide."""
        if self.first == self.last:
            return [self.first]
        values = (float(value) for value in np.geomspace(self.first, self.last, max(2, count)))
        return list(dict.fromkeys(float(round(value)) if self.whole else float(f"{value:.6g}") for value in values))

    def between(self, value: float, other: float) -> float | None:
        """Return the geometric mean of two values, or None if there is nothing between them."""
        middle = float(np.sqrt(value * other))
        if self.whole:
            middle = float(round(middle))
        close = np.isclose(middle, value) or np.isclose(middle, other)
        return None if close or max(value / other, other / value) < FINEST else middle

    def beyond(self, edge: float, inner: float, other: float) -> float | None:
        """Return the next value beyond an edge, a third of the grid away; None at the limit."""
        ratio = max(edge / inner, inner / edge, (max(edge, other) / min(edge, other)) ** (1 / 3))
        value = edge * ratio if edge > inner else edge / ratio
        if self.whole:
            value = float(round(value)) if abs(round(value) - edge) >= 1 else edge + np.sign(edge - inner)
        value = min(max(value, self.least), self.most)
        return value if value > 0 and not np.isclose(value, edge) else None


FINEST = 1.2
"""Ratio of neighbouring values below which nothing is tried between them: the folds could not tell."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """A choice of settings.

    Attributes:
        chosen: The settings of least loss.
        tried: Number of settings that were tried.
        on_edge: Whether one of them still lies on the edge of what was tried, inside its limits.
    """

    chosen: dict[str, float]
    tried: int
    on_edge: bool


def tune(
    split: Split, axes: Mapping[str, Axis], predict: Callable[[list[Choice]], list[Array | None]], tries: int = TRIES
) -> Tuned:
    """Return the settings whose out-of-fold predictions have the least loss; the first of equals.

    The loss is the mean squared error, or the fraction misclassified plus the Brier score, which is less noisy; each
    class counts alike if the classes are imbalanced. Two thirds of the tries are a grid. The others are spent around
    the best so far, one setting changed at a time: beyond the edge where it lies on one, else halfway to its
    neighbours. Of settings that smooth, the strongest is taken whose loss is within one standard error of the best
    one's; the error is that of the difference, row by row.

    Args:
        split: The training rows.
        axes: The range of every setting, simplest value first.
        predict: Settings to out-of-fold predictions, one row each; NaN where a row does not judge, None for settings
            that cannot be used.
        tries: Settings tried at most.

    Raises:
        LogitRangeError: none of the settings can be used.
    """
    grids = _first_grids(axes, max(4, 2 * tries // 3))
    losses: dict[tuple[float, ...], float] = {}
    by_row: dict[tuple[float, ...], Array] = {}

    def judge(keys: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
        new = [key for key in dict.fromkeys(keys) if key not in losses]
        for key, found in zip(new, predict([dict(zip(grids, key, strict=True)) for key in new]), strict=True):
            losses[key] = np.inf
            if found is not None:
                by_row[key] = _losses(split, found)
                losses[key] = float(by_row[key].mean())
        return min(losses, key=losses.__getitem__)

    best = judge(itertools.product(*grids.values()))
    while len(losses) < tries:
        keys = [key for key in _around(axes, grids, best) if key not in losses][: tries - len(losses)]
        if not keys:
            break
        for key in keys:
            for (name, grid), value in zip(grids.items(), key, strict=True):
                if value not in grid:
                    grids[name] = sorted([*grid, value], reverse=grid[0] > grid[-1])
        best = judge(keys)
    if not np.isfinite(losses[best]):
        raise LogitRangeError("no temperature of the grid can represent these rows: use --preprocessing both.")
    on_edge = bool(_edges(axes, grids, best))
    for place, (name, grid) in enumerate(grids.items()):
        if axes[name].smoothing:
            keys = [(*best[:place], value, *best[place + 1 :]) for value in grid]
            best = next(key for key in keys if key in by_row and _as_good(by_row[key], by_row[best]))
    return Tuned(dict(zip(grids, best, strict=True)), len(losses), on_edge)


def _as_good(rows: Array, best: Array) -> bool:
    """Return whether losses are within one standard error of the best ones, row by row."""
    apart = rows - best
    return bool(apart.mean() <= apart.std() / len(apart) ** 0.5)


def _first_grids(axes: Mapping[str, Axis], size: int) -> dict[str, list[float]]:
    """Return grids whose product has at most `size` settings; the last axis gets what the others leave."""
    grids: dict[str, list[float]] = {}
    for place, (name, axis) in enumerate(axes.items()):
        grids[name] = axis.grid(int(size ** (1 / (len(axes) - place)) + 1e-9))
        size //= len(grids[name])
    return grids


def _edges(axes: Mapping[str, Axis], grids: Mapping[str, list[float]], best: Sequence[float]) -> dict[str, float]:
    """Return the next value of every grid on whose edge the choice lies."""
    wider = {}
    for (name, grid), value in zip(grids.items(), best, strict=True):
        if len(grid) > 1 and value in (grid[0], grid[-1]):
            inner, other = (grid[1], grid[-1]) if value == grid[0] else (grid[-2], grid[0])
            if (beyond := axes[name].beyond(value, inner, other)) is not None:
                wider[name] = beyond
    return wider


def _around(
    axes: Mapping[str, Axis], grids: Mapping[str, list[float]], best: tuple[float, ...]
) -> list[tuple[float, ...]]:
    """Return the settings to try next: beyond an edge if the best lies on one, else between it and its neighbours."""
    edges = _edges(axes, grids, best)
    found = []
    for place, (name, grid) in enumerate(grids.items()):
        here = grid.index(best[place])
        values = [edges[name]] if name in edges else []
        if not edges:
            neighbours = (grid[k] for k in (here - 1, here + 1) if 0 <= k < len(grid))
            middles = (axes[name].between(best[place], other) for other in neighbours)
            values = [middle for middle in middles if middle is not None]
        found += [(*best[:place], value, *best[place + 1 :]) for value in values]
    return found


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


def class_odds(split: Split, balanced: bool | None = None) -> Array:
    """Return what class probabilities are multiplied with before the largest one decides.

    That is one over the frequency of each class if `balanced`, else one; by default it is balanced where the smallest
    class has less than half of an even part.
    """
    assert split.labels is not None
    counts = np.bincount(split.labels.numpy(), minlength=len(split.classes)).astype(np.float64)
    present = counts > 0
    even = counts.sum() / present.sum()
    if not (counts[present].min() < even / 2 if balanced is None else balanced):
        return np.ones(len(counts))
    return np.where(present, even / np.where(present, counts, 1), 1.0)


def probabilities(outputs: Array) -> Array:
    """Return class probabilities of regression outputs, which estimate 2 p - 1: cut off at 0 and normalised."""
    p = np.maximum(1 + outputs, 0)
    total = p.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1]))


def kernel_out_of_fold(K: Tensor, split: Split, folds: NDArray[np.int64]) -> Callable[[Sequence[float]], list[Array]]:
    """Return the function from ridges to out-of-fold predictions of kernel ridge regression with an intercept.

    They are class probabilities, or numbers in the target's unit. Rows in fold -1 are in every fit and get NaN.

    Exact, from one eigendecomposition of K: with R = (K + ridge I)^-1 the residuals of the rows f without which the fit
    is made are R_ff^-1 (R y)_f, and they are linear in y, so the mean of the other folds is the intercept.
    """
    held = [torch.from_numpy(np.flatnonzero(folds == fold)) for fold in np.unique(folds[folds >= 0])]
    if len(held) == 1:
        return _held_out_once(K, split, held[0])
    values, Q = torch.linalg.eigh(K)
    values = values.clamp_min(0)
    Y = torch.cat([split.y + split.mean, torch.ones(len(K), 1, dtype=K.dtype)], dim=1)
    projected = Q.T @ Y

    def predict(ridge: float) -> Array:
        scale = 1 / (values + ridge)
        found = torch.empty(len(K), Y.shape[1] - 1, dtype=K.dtype)
        for rows in held:
            part = Q[rows]
            residual = torch.linalg.solve(part @ (scale[:, None] * part.T), part @ (scale[:, None] * projected))
            mean = (Y[:, :-1].sum(0) - Y[rows, :-1].sum(0)) / (len(K) - len(rows))
            found[rows] = Y[rows, :-1] - residual[:, :-1] + mean * residual[:, -1:]
        return found.numpy() if split.labels is None else probabilities(found.numpy())

    return lambda ridges: [predict(ridge) for ridge in ridges]


def _held_out_once(K: Tensor, split: Split, rows: Tensor) -> Callable[[Sequence[float]], list[Array]]:
    """Return the same where these rows judge the fits to all others."""
    kept = torch.ones(len(K), dtype=torch.bool)
    kept[rows] = False
    Y = (split.y + split.mean)[kept]
    mean = Y.mean(0)
    values, Q = torch.linalg.eigh(K[kept][:, kept])
    left, projected = K[rows][:, kept] @ Q, Q.T @ (Y - mean)

    def predict(ridge: float) -> Array:
        found = (mean + left @ (projected / (values.clamp_min(0) + ridge)[:, None])).numpy()
        whole = np.full((len(K), found.shape[1]), np.nan)
        whole[rows.numpy()] = found if split.labels is None else probabilities(found)
        return whole

    return lambda ridges: [predict(ridge) for ridge in ridges]


def make_folds(split: Split, seed: int) -> NDArray[np.int64]:
    """Return the fold of each training row: 0 to 4, or with many rows 0 for a third that judges and -1 for the others.

    Rows of one group share a fold, and with times the folds are successive periods.
    """
    count = 3 if len(split.X) >= MANY_ROWS else 5
    groups = split.dataset.groups
    if groups is not None:
        count = max(2, min(count, len(np.unique(groups[split.rows]))))
    folds = number_folds(split.dataset, split.rows, count, seed)
    return np.where(folds == count - 1, 0, -1) if len(split.X) >= MANY_ROWS else folds


def attention_kernel(split: Split, temperature: float) -> Exponential:
    """Return the exponential kernel, scaled to a largest diagonal entry of one over the training rows."""
    kernel = Exponential(temperature)
    kernel.within_range(split.X)
    return replace(kernel, log_scale=kernel.largest_logit(split.X))


def tune_kernel(
    split: Split,
    make: Callable[[float], Kernel],
    *,
    seed: int = 0,
    tries: int = TRIES,
    temperatures: tuple[float, ...] = TEMPERATURES_TRIED,
    ridges: tuple[float, ...] = RIDGES_TRIED,
) -> Tuned:
    """Choose the temperature and the ridge of kernel ridge regression with an intercept.

    Args:
        split: The training rows.
        make: Temperature to kernel; one that raises `LogitRangeError` is passed over.
        seed: Of the folds.
        tries: Settings tried at most.
        temperatures: Ends of the grid, over the mean squared row length; one value is a choice.
        ridges: Ends of the grid, over the mean diagonal of K.
    """
    length, folds = mean_square_length(split.X), make_folds(split, seed)
    scales: dict[float, float] = {}
    kept: dict[float, Any] = {}

    def predict(choices: list[Choice]) -> list[Array | None]:
        found: dict[tuple[float, float], Any] = {}
        for tau in dict.fromkeys(choice["temperature"] for choice in choices):
            wanted = [choice["ridge"] for choice in choices if choice["temperature"] == tau]
            try:
                if tau not in kept:
                    K = make(tau * length)(split.X)
                    scales[tau] = float(K.diagonal().mean())
                    kept[tau] = kernel_out_of_fold(K, split, folds)
                predictions = kept[tau]([scales[tau] * ridge for ridge in wanted])
                if len(split.X) > KEPT_ROWS:
                    del kept[tau]
            except (LogitRangeError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
                predictions = [None] * len(wanted)
            found |= {(tau, ridge): one for ridge, one in zip(wanted, predictions, strict=True)}
        return [found[choice["temperature"], choice["ridge"]] for choice in choices]

    axes = {
        "temperature": Axis(temperatures[0], temperatures[-1]),
        "ridge": Axis(ridges[0], ridges[-1], least=1e-6, most=10.0 * len(split.X), smoothing=True),
    }
    tuned = tune(split, axes, predict, tries)
    tau, ridge = tuned.chosen["temperature"], tuned.chosen["ridge"]
    return replace(tuned, chosen={"temperature": tau * length, "ridge": ridge * scales[tau]})


def choose_attention(split: Split, *, seed: int = 0) -> tuple[Exponential, float]:
    """Return the kernel of attention and the ridge for the training rows of a split, chosen as an audit does.

    Example:
        >>> from ridgeformer.datasets import load
        >>> kernel, ridge = choose_attention(Split.of(load("wine")))
        >>> kernel.temperature > 1, ridge > 0
        (True, True)
    """
    chosen = tune_kernel(split, lambda tau: attention_kernel(split, tau), seed=seed).chosen
    return attention_kernel(split, chosen["temperature"]), chosen["ridge"]
