"""Rows sorted into groups of near ones, all of about the same size."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["neighbourhoods"]

POWER_STEPS = 8
"""Steps of the power method for the direction a group is widest in; it need not be found exactly."""


def neighbourhoods(
    Z: Float[Tensor, "n k"], size: int, generator: torch.Generator, rows: Tensor | None = None
) -> list[Tensor]:
    """Return groups of at most `size` rows of Z: halves of halves, each cut across where it is widest.

    Example:
        >>> Z = torch.tensor([[0.0], [9.0], [1.0], [8.0]])
        >>> [sorted(group.tolist()) for group in neighbourhoods(Z, 2, torch.Generator().manual_seed(0))]
        [[0, 2], [1, 3]]
    """
    rows = torch.arange(len(Z), device=Z.device) if rows is None else rows
    if len(rows) <= size:
        return [rows]
    centred = Z[rows] - Z[rows].mean(0)
    direction = torch.randn(Z.shape[1], generator=generator, dtype=torch.float64).to(Z)
    for _ in range(POWER_STEPS):
        direction = centred.T @ (centred @ direction)
        direction = direction / direction.norm().clamp_min(torch.finfo(Z.dtype).tiny)
    order = (centred @ direction).argsort(stable=True)
    # the sign of a direction is of no importance: the half with the first row comes first
    halves = sorted((rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]), key=lambda half: int(half.min()))
    return [group for half in halves for group in neighbourhoods(Z, size, generator, half)]
