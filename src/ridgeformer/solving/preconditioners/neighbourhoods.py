"""Balanced k-means: groups of neighbouring rows, all of about the same size."""

from __future__ import annotations

from math import ceil

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["neighbourhoods"]

ROUNDS = 12
"""How often means are taken and rows shared out among them; more hardly makes better groups."""


def neighbourhoods(Z: Float[Tensor, "n k"], size: int, generator: torch.Generator) -> list[Int[Tensor, " _"]]:
    """Return groups of at most `size` rows of Z that point the same way, their sizes as equal as can be.

    Example:
        >>> Z = torch.tensor([[1.0, 0.0], [0.0, 9.0], [8.0, 0.0], [0.0, 1.0]])
        >>> sorted(group.tolist() for group in neighbourhoods(Z, 2, torch.Generator().manual_seed(0)))
        [[0, 2], [1, 3]]
    """
    count = ceil(len(Z) / size)
    Z = torch.nn.functional.normalize(Z.contiguous(), dim=1)
    means = Z[torch.randperm(len(Z), generator=generator)[:count].to(Z.device)]
    for _ in range(ROUNDS if count > 1 else 1):
        chosen = share_out(Z @ means.T - means.square().sum(1) / 2, ceil(len(Z) / count))
        members = torch.nn.functional.one_hot(chosen, count).to(Z)
        means = (members.T @ Z) / members.sum(0)[:, None].clamp_min(1)
    groups = [(chosen == c).nonzero()[:, 0] for c in range(count)]
    return [group for group in groups if len(group)]


def share_out(score: Float[Tensor, "n c"], room: int) -> Int[Tensor, " n"]:
    """Return for each row the column it scores best in, of those with room left; each has room for as many rows.

    Where too many want the same column, those with the most to lose by another go first.

    Example:
        >>> share_out(torch.tensor([[3.0, 1.0], [2.0, 1.9], [5.0, 0.0], [0.0, 1.0]]), 2).tolist()
        [0, 1, 0, 1]
    """
    score = score.clone()
    chosen = torch.full((len(score),), -1, device=score.device)
    free = [room] * score.shape[1]
    while len(rows := (chosen < 0).nonzero()[:, 0]):
        best, second = _two_best(score[rows])
        for column in range(score.shape[1]):
            wanting = (best.indices == column).nonzero()[:, 0]
            first = (best.values - second)[wanting].argsort(descending=True, stable=True)[: free[column]]
            chosen[rows[wanting[first]]] = column
            free[column] -= len(first)
            if free[column] == 0:
                score[:, column] = -torch.inf
    return chosen


def _two_best(score: Tensor) -> tuple[torch.return_types.max, Tensor]:
    """Return the best column of every row with its score, and the second best score."""
    best = score.max(1)
    others = score.scatter(1, best.indices[:, None], -torch.inf)
    return best, others.max(1).values
