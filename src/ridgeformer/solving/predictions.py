"""Predictions with what is known about each: bounds, queries without an answer, and extrapolation."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.solving.plan import BLOCK

__all__ = ["Predictions", "UnansweredWarning", "name_unanswered", "nearest_distance"]


class UnansweredWarning(UserWarning):
    """Some queries have no prediction in this precision; the others do."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for some queries, and what is known about each.

    Attributes:
        values: k(x)'alpha, shaped like the targets; NaN for a query that has no answer in this precision.
        bound: |f(x) - f*(x)| is at most this, round-off included.
        answered: whether there is a prediction, per query.
        extrapolated: whether the query lies outside the training rows (`Fit.extrapolates`).
    """

    values: Tensor
    bound: Tensor
    answered: Tensor
    extrapolated: Tensor

    def __str__(self) -> str:
        lines = [f"{int(self.answered.sum())} of {len(self.answered)} queries answered."]
        if not bool(self.answered.all()):
            lines.append(name_unanswered(self.answered, self.values.dtype))
        if bool(self.extrapolated.any()):
            lines.append(
                f"Rows {_named(self.extrapolated)} lie outside the training rows: the proved bounds compare with exact "
                "ridge regression and say nothing about how right that is there."
            )
        return " ".join(lines)


def nearest_distance(rows: Tensor, X: Tensor, own: Tensor | None = None) -> Tensor:
    """Return the distance of every row to the nearest row of X other than itself, which is row `own` of X.

    X is read a block at a time: it may be on disk.
    """
    found, size = [], max(1, BLOCK_ENTRIES // min(len(X), BLOCK))
    for start in range(0, len(rows), size):
        some, first, least = rows[start : start + size].double(), 0, None
        for block in X.split(BLOCK):
            gaps = torch.cdist(some, block.double())
            if own is not None:
                place = own[start : start + size] - first
                here = (place >= 0) & (place < len(block))
                gaps[here.nonzero()[:, 0], place[here]] = inf
            least = gaps.amin(1) if least is None else torch.minimum(least, gaps.amin(1))
            first += len(block)
        assert least is not None
        found.append(least)
    return torch.cat(found)


def _named(rows: Tensor) -> str:
    """Return the numbers of the rows that are True, ten at most."""
    numbers = rows.nonzero()[:, 0].tolist()
    more = f" and {len(numbers) - 10:,} more" if len(numbers) > 10 else ""
    return ", ".join(map(str, numbers[:10])) + more


def name_unanswered(answered: Tensor, dtype: torch.dtype) -> str:
    """Return a sentence that names the queries without a prediction."""
    return (
        f"Rows {_named(~answered)} have no prediction: a logit or the prediction itself is beyond {dtype}. Scale these "
        "rows as the training rows were scaled, or raise the temperature."
    )
