"""The tangent kernel of a finite ReLU network, streamed over its neurons."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["finite_relu_ntk"]

BLOCK = 16_384
"""Neurons held at once."""


def finite_relu_ntk(X: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """Return K_m = (X X') o (D D')/m, D the activation pattern of m neurons w ~ N(0, I), first layer trained.

    Example:
        >>> X = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
        >>> K = finite_relu_ntk(X, 1000, torch.Generator().manual_seed(0))
        >>> 10 < float(K) < 15  # 12.5 at infinite width
        True
    """
    both_active = torch.zeros(len(X), len(X), dtype=torch.float64)
    for begin in range(0, width, BLOCK):
        W = torch.randn(min(BLOCK, width - begin), X.shape[1], generator=generator, dtype=torch.float32).to(X.dtype)
        D = (X @ W.T > 0).to(torch.float32)  # counts up to BLOCK are exact in float32
        both_active += (D @ D.T).double()
    return (X @ X.T) * both_active / width
