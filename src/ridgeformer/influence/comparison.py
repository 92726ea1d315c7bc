"""How much a table of influences changed: signs, ranks, and who is at the top."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
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
    columns = list(zip(before.T, after.T, strict=True))
    return Comparison(
        flips_top=_share(flipped_mean[top]),
        flips_all=_share(flipped_mean),
        pair_flips_top=_share(flipped[top]),
        pair_flips_all=_share(flipped),
        spearman=rank_correlation(mean, mean_after),
        pair_spearman=float(np.mean([rank_correlation(one, other) for one, other in columns])),
        overlap=_overlap(mean, mean_after, len(top)),
        pair_overlap=float(np.mean([_overlap(one, other, len(top)) for one, other in columns])),
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
    ranks = [rankdata(side.cpu().numpy()) - (len(side) + 1) / 2 for side in (one, other)]
    size = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    return float((ranks[0] * ranks[1]).sum()) / size if size else float("nan")


def _share(flipped: Tensor) -> float:
    return float(flipped.double().mean())


def _overlap(one: Tensor, other: Tensor, count: int) -> float:
    return _share(torch.isin(top_rows(one, count), top_rows(other, count)))
