"""How much a table of influences changed: signs, ranks, and who is at the top."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

__all__ = ["Comparison", "compare", "rank_correlation", "top_rows"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Influences before and after. "Aggregated" is of the mean over queries, "pair" of single (point, query) pairs.

    Attributes:
        flips_top: share of the top set whose aggregated influence changed sign.
        flips_all: the same of all training points. Near-zero influences flip for free (claim I3).
        pair_flips_top: share of the pairs (top point, query) that changed sign.
        pair_flips_all: the same of all pairs.
        spearman: rank correlation of the aggregated influences; NaN if they are all equal.
        pair_spearman: the mean over queries of theirs.
        overlap: share of the top set that is in the top set after.
        pair_overlap: the mean over queries of the overlap of their own top sets of the same size.
        flips_per_query: share of the top set that changed sign, for each query, (q,).
    """

    flips_top: float
    flips_all: float
    pair_flips_top: float
    pair_flips_all: float
    spearman: float
    pair_spearman: float
    overlap: float
    pair_overlap: float
    flips_per_query: Tensor = field(repr=False)


def compare(before: Float[Tensor, "n q"], after: Float[Tensor, "n q"], top: Tensor) -> Comparison:
    """Compare two tables of influence on the rows `top` and on all.

    Example:
        >>> before = torch.tensor([[3.0], [-2.0], [1.0]])
        >>> found = compare(before, torch.tensor([[-3.0], [-2.0], [1.0]]), torch.tensor([0]))
        >>> found.flips_top, round(found.flips_all, 3), found.overlap
        (1.0, 0.333, 1.0)
    """
    flipped = before.sign() * after.sign() < 0
    mean, mean_after = before.mean(1), after.mean(1)
    flipped_mean = mean.sign() * mean_after.sign() < 0
    return Comparison(
        flips_top=_share(flipped_mean[top]),
        flips_all=_share(flipped_mean),
        pair_flips_top=_share(flipped[top]),
        pair_flips_all=_share(flipped),
        spearman=rank_correlation(mean, mean_after),
        pair_spearman=float(_rank_correlations(before, after).mean()),
        overlap=_overlap(mean[:, None], mean_after[:, None], len(top)),
        pair_overlap=_overlap(before, after, len(top)),
        flips_per_query=flipped[top].double().mean(0),
    )


def top_rows(influence: Float[Tensor, " n"], count: int) -> Tensor:
    """Return the rows of largest absolute influence, largest first.

    Example:
        >>> top_rows(torch.tensor([1.0, -3.0, 2.0]), 2)
        tensor([1, 2])
    """
    return influence.abs().topk(count).indices


def rank_correlation(one: Float[Tensor, " n"], other: Float[Tensor, " n"]) -> float:
    """Return Spearman's rho, ties at their mean rank; NaN where one side is constant.

    Example:
        >>> rank_correlation(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([3.0, 2.0, 1.0]))
        -1.0
    """
    return float(_rank_correlations(one[:, None], other[:, None])[0])


def _rank_correlations(one: Float[Tensor, "n q"], other: Float[Tensor, "n q"]) -> NDArray[np.float64]:
    """Return Spearman's rho of every column."""
    left, right = (rankdata(side.cpu().numpy(), axis=0) - (len(side) + 1) / 2 for side in (one, other))
    size = np.sqrt((left**2).sum(0) * (right**2).sum(0))
    return np.where(size > 0, (left * right).sum(0) / np.where(size > 0, size, 1.0), np.nan)


def _share(flipped: Tensor) -> float:
    return float(flipped.double().mean())


def _overlap(one: Float[Tensor, "n q"], other: Float[Tensor, "n q"], count: int) -> float:
    """Return, the mean over columns, the share of the top set of one that is in that of the other."""
    inside = [torch.zeros_like(side, dtype=torch.bool).scatter(0, side.abs().topk(count, dim=0).indices, True)
              for side in (one, other)]  # fmt: skip
    return float((inside[0] & inside[1]).sum()) / (count * one.shape[1])
