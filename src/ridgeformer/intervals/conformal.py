"""Conformal prediction: intervals and sets of classes that cover as often as they say, whatever the distribution.

The only assumption is exchangeability: training rows, calibration rows and queries come from one distribution, in an
order that does not matter. Nothing here says how often one particular query is covered; it speaks of the average.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, sqrt

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ridgeformer.core.errors import InputError, ShapeError

__all__ = [
    "GUARANTEES",
    "Interval",
    "PredictionSet",
    "cv_plus",
    "full_conformal",
    "jackknife_plus",
    "jackknife_plus_set",
    "local_scale",
    "rows_needed",
    "split_conformal",
]

GUARANTEES = {
    "jackknife+": "covers a new target with probability at least {twice:.4g} if rows are exchangeable [Barber2021]; "
    "usually about {level:.4g}",
    "cv+": "covers a new target with probability at least {loose:.4g} if rows are exchangeable [Barber2021]; usually "
    "about {level:.4g}",
    "split": "covers a new target with probability at least {level:.4g} if calibration rows and queries are "
    "exchangeable [Vovk2005]",
    "normalised": "covers a new target with probability at least {level:.4g} if calibration rows and queries are "
    "exchangeable [Lei2018]; wider where leave-one-out residuals nearby are larger",
    "full": "covers a new target with probability at least {level:.4g} if rows are exchangeable [Vovk2005]",
}
"""What each method promises; probabilities are over training rows, calibration rows and the query together."""


@dataclass(frozen=True, eq=False)
class Interval:
    """One interval a query and output, and what is guaranteed about all of them.

    Attributes:
        low, high: the ends, shaped like the predictions.
        level: the nominal probability of covering a new target.
        method: a key of `GUARANTEES`.
        guarantee: what is proved, in one sentence.
        error: how far the ends may be from those of exact leave-one-out, where that was estimated; else None.
        duplicates: training rows that equal another one, which leave-one-out does not take away.
    """

    low: Tensor
    high: Tensor
    level: float
    method: str
    guarantee: str
    error: Tensor | None = None
    duplicates: int = 0

    @property
    def width(self) -> Tensor:
        """The distance between the ends."""
        return self.high - self.low

    def covers(self, y: Tensor) -> Bool[Tensor, "..."]:
        """Return which targets lie inside."""
        y = torch.as_tensor(y, dtype=self.low.dtype, device=self.low.device)
        if y.shape != self.low.shape:
            raise ShapeError(
                f"y has shape {tuple(y.shape)}; {tuple(self.low.shape)} was expected: one target a query and output."
            )
        return (self.low <= y) & (y <= self.high)

    def __str__(self) -> str:
        shielded = (
            f" {self.duplicates:,} training rows equal another one: duplicates shield each other, so intervals are too "
            "narrow if they are copies rather than new measurements."
            if self.duplicates
            else ""
        )
        return (
            f"{len(self.low):,} intervals by {self.method}, median width {float(self.width.median()):.4g}. "
            f"Each {self.guarantee}.{shielded}"
        )


@dataclass(frozen=True, eq=False)
class PredictionSet:
    """The classes that a query may have.

    Attributes:
        member: (q, classes), whether the class belongs to the set of the query.
        level: the nominal probability that the true class belongs to it.
        guarantee: what is proved, in one sentence.
    """

    member: Bool[Tensor, "q c"]
    level: float
    guarantee: str

    @property
    def size(self) -> Int[Tensor, " q"]:
        """How many classes each set has."""
        return self.member.sum(1)

    def covers(self, labels: Int[Tensor, " q"]) -> Bool[Tensor, " q"]:
        """Return which labels, numbered from 0, belong to their set."""
        return self.member.gather(1, labels[:, None])[:, 0]

    def __str__(self) -> str:
        size = self.size.double()
        return (
            f"{len(size):,} sets with {float(size.mean()):.3g} classes on average, {int((size == 1).sum()):,} of them "
            f"with one. Each {self.guarantee}."
        )


def rows_needed(level: float) -> int:
    """Return the least number of rows with which an interval of this level is finite: 1/(1 - level) - 1.

    Example:
        >>> rows_needed(0.9), rows_needed(0.99)
        (9, 99)
    """
    return ceil(1 / _missed(level)) - 1


def _missed(level: float) -> Fraction:
    """Return 1 - level as the fraction that was meant: 0.1 and not 0.09999999999999998."""
    if isinstance(level, bool) or not isinstance(level, float | int) or not 0 < level < 1:
        raise InputError(f"level is {level!r}; a number between 0 and 1 was expected, such as 0.9.")
    return 1 - Fraction(level).limit_denominator(10**9)


def _enough(n: int, level: float, rows: str) -> tuple[int, int]:
    """Return the ranks, from 1, of the lower and the upper end among n numbers; refuse where they do not exist."""
    missed = _missed(level)
    low, high = floor(missed * (n + 1)), ceil((1 - missed) * (n + 1))
    if low < 1:
        raise InputError(
            f"{n} {rows} are too few for level {level:g}; at least {rows_needed(level)} were expected: lower the "
            f"level to {n / (n + 1):.3g} or add rows."
        )
    return low, high


def _promise(method: str, level: float, **values: float) -> str:
    return GUARANTEES[method].format(level=level, **values)


def jackknife_plus(
    residuals: Float[Tensor, " n"],
    left_out: Float[Tensor, "n q"],
    level: float = 0.9,
    *,
    error: Float[Tensor, "n q"] | None = None,
) -> Interval:
    """Return the jackknife+ interval of q queries.

    Its ends are order statistics of f_{-i}(x) -+ |y_i - f_{-i}(x_i)| over the training rows i, at ranks
    floor((1 - level)(n + 1)) and ceil(level (n + 1)). Coverage is at least 1 - 2 (1 - level), and close to the level
    in practice.

    Args:
        residuals: y_i - f_{-i}(x_i), the residual at each row of the fit without it.
        left_out: f_{-i}(x), the prediction of every query by the fit without row i.
        level: the nominal coverage.
        error: how far each of f_{-i}(x) -+ |residual| may be off, if they are estimates.

    Example:
        >>> interval = jackknife_plus(torch.tensor([1.0, -2.0, 3.0]), torch.zeros(3, 1), level=0.5)
        >>> float(interval.low), float(interval.high)
        (-2.0, 2.0)
    """
    low, high = _enough(len(residuals), level, "training rows")
    size = residuals.abs()[:, None]
    with ThreadPoolExecutor(2) as both:  # a selection runs on one thread and lets the other go on
        ends = list(both.map(_ranked, (left_out - size, left_out + size), (low, high)))
    moved = None
    if error is not None:
        sides = ((left_out - size, low, ends[0]), (left_out + size, high, ends[1]))
        gaps = [(_ranked(side + sign * error, rank) - end).abs() for side, rank, end in sides for sign in (-1, 1)]
        moved = torch.stack(gaps).amax(0)
    guarantee = _promise("jackknife+", level, twice=max(0.0, 2 * level - 1))
    return Interval(ends[0], ends[1], level, "jackknife+", guarantee, moved)


def _ranked(values: Float[Tensor, "n q"], rank: int) -> Float[Tensor, " q"]:
    """Return the rank-th smallest value of every column, from 1; `values` is overwritten."""
    if values.device.type != "cpu":
        return values.kthvalue(rank, dim=0).values
    columns = np.ascontiguousarray(values.numpy().T)  # a selection in place, several times faster than kthvalue
    columns.partition(rank - 1, axis=1)
    return torch.from_numpy(columns[:, rank - 1].copy())


def cv_plus(
    residuals: Float[Tensor, " n"], left_out: Float[Tensor, "n q"], level: float = 0.9, *, folds: int
) -> Interval:
    """Return the CV+ interval: `jackknife_plus` with the fit without a row's whole fold in place of that without it.

    Coverage is at least 1 - 2 (1 - level) - min(2 (1 - 1/K)/(n/K + 1), (1 - K/n)/(K + 1)) for K equal folds.

    Example:
        >>> cv_plus(torch.ones(10), torch.zeros(10, 1), level=0.5, folds=5).width.tolist()
        [2.0]
    """
    n, interval = len(residuals), jackknife_plus(residuals, left_out, level)
    lost = min(2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1))
    guarantee = _promise("cv+", level, loose=max(0.0, 2 * level - 1 - lost))
    return Interval(interval.low, interval.high, level, "cv+", guarantee)


def split_conformal(
    predictions: Float[Tensor, " q"],
    residuals: Float[Tensor, " m"],
    level: float = 0.9,
    *,
    scales: tuple[Float[Tensor, " q"], Float[Tensor, " m"]] | None = None,
) -> Interval:
    """Return predictions -+ a quantile of residuals at calibration rows, which the fit has not seen.

    Args:
        predictions: at the queries.
        residuals: at the calibration rows.
        level: the nominal coverage, which is guaranteed.
        scales: positive numbers at queries and calibration rows by which residuals are divided and the quantile is
            multiplied; they must not depend on the calibration targets.

    Example:
        >>> split_conformal(torch.zeros(1), torch.tensor([1.0, -2.0, 3.0]), level=0.5).high.tolist()
        [2.0]
    """
    method = "split" if scales is None else "normalised"
    _, rank = _enough(len(residuals), level, "calibration rows")
    here, there = scales or (torch.ones_like(predictions), torch.ones_like(residuals))
    half = (residuals.abs() / there).kthvalue(rank).values * here
    return Interval(predictions - half, predictions + half, level, method, _promise(method, level))


def local_scale(rows: Float[Tensor, "q d"], X: Float[Tensor, "n d"], residuals: Float[Tensor, " n"]) -> Tensor:
    """Return the mean leave-one-out |residual| of the nearest max(10, sqrt(n)) training rows of every row.

    A tenth of the overall mean is added, so that no scale is zero.

    Example:
        >>> X = torch.arange(20.0)[:, None]
        >>> local_scale(torch.tensor([[0.0]]), X, torch.where(X[:, 0] < 10, 1.0, 3.0))
        tensor([1.2000])
    """
    size = residuals.abs()
    near = min(len(X), max(10, round(sqrt(len(X)))))
    blocks = [torch.cdist(some, X).topk(near, largest=False).indices for some in rows.split(1024)]
    return size[torch.cat(blocks)].mean(1) + size.mean() / 10 + torch.finfo(size.dtype).tiny


def full_conformal(
    predictions: Float[Tensor, " q"],
    alpha: Float[Tensor, " n"],
    inverse_diagonal: Float[Tensor, " n"],
    weights: Float[Tensor, "n q"],
    schur: Float[Tensor, " q"],
    level: float = 0.9,
) -> Interval:
    """Return the smallest interval that holds the full conformal set of kernel ridge regression, without a refit.

    A candidate target t belongs to the set unless the fit of all rows *and* (x, t) has a leave-one-out residual at x
    that is larger than those of all but a fraction 1 - level of the rows. With W = A^-1 k(x) and the Schur complement
    s = k(x, x) + ridge - k(x)'A^-1 k(x), that residual is t - f(x), and the one of row i is
    (alpha_i - W_i (t - f)/s) / (R_ii + W_i^2/s): both linear in t, so every row contributes one interval of t, and
    sorting their ends gives the set.

    Args:
        predictions: f(x).
        alpha: A^-1 y.
        inverse_diagonal: the diagonal of R = A^-1.
        weights: W, a column a query.
        schur: s.
        level: the nominal coverage, which is guaranteed.
    """
    n = len(alpha)
    _enough(n, level, "training rows")
    most = floor(_missed(level) * (n + 1))  # a candidate is kept while at least this many rows are as strange
    scale = inverse_diagonal[:, None] + weights.square() / schur
    constant, slope = alpha[:, None] / scale, -weights / schur / scale
    # Row i is at least as strange as t = f + u where |constant + slope u| >= |u|. At u = 0 that always holds, so for
    # |slope| < 1 it holds between the two roots; for |slope| >= 1 it holds on at least a half-line.
    one, other = constant / (1 - slope), -constant / (1 + slope)
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    # |slope| >= 1: the set is everything but an open interval on one side; a half-line is all the hull needs to know.
    low = torch.where(slope.abs() >= 1, -inf, low)
    high = torch.where(slope.abs() >= 1, inf, high)
    # So u > 0 is kept up to the `most`-th largest upper end, and u < 0 down to the `most`-th smallest lower end.
    upper = high.kthvalue(n - most + 1, dim=0).values.clamp_min(0)
    lower = low.kthvalue(most, dim=0).values.clamp_max(0)
    return Interval(predictions + lower, predictions + upper, level, "full", _promise("full", level))


def jackknife_plus_set(
    scores: Float[Tensor, "n c"],
    labels: Int[Tensor, " n"],
    left_out: Float[Tensor, "n q c"],
    level: float = 0.9,
    *,
    per_class: bool = False,
) -> PredictionSet:
    """Return the classes whose score is not too low beside the leave-one-out scores of the training rows' own classes.

    Class c belongs to the set of a query x unless f_{-i}(x)_c is below f_{-i}(x_i)_{y_i} for at least
    level (n + 1) training rows i. Coverage is at least 1 - 2 (1 - level).

    Args:
        scores: f_{-i}(x_i), every class's score at row i of the fit without it.
        labels: the class of every row, from 0.
        left_out: f_{-i}(x), (rows, queries, classes).
        level: the nominal coverage.
        per_class: compare with the rows of class c alone, which gives the guarantee within every class.

    Example:
        >>> scores, queries = torch.eye(2).repeat(5, 1), torch.tensor([[[1.0, 0.1]]]).expand(10, 1, 2)
        >>> jackknife_plus_set(scores, torch.arange(10) % 2, queries, level=0.8).member.tolist()
        [[True, False]]
    """
    own = scores.gather(1, labels[:, None])[:, 0]
    below = left_out < own[:, None, None]
    members = []
    for c in range(scores.shape[1]):
        rows = labels == c if per_class else slice(None)
        counted = below[rows, :, c]
        what = f"training rows of class {c}" if per_class else "training rows"
        _, rank = _enough(len(counted), level, what)
        members.append(counted.sum(0) < rank)
    among = " within every class" if per_class else ""
    guarantee = (
        f"holds the true class with probability at least {max(0.0, 2 * level - 1):.4g}{among} if rows are exchangeable "
        f"[Barber2021]; usually about {level:.4g}"
    )
    return PredictionSet(torch.stack(members, 1), level, guarantee)
