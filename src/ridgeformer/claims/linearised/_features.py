"""Rows, attention features and condition numbers that several of these claims measure."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.kernels import GramPower

__all__ = ["attention_features", "condition_number", "digits", "rank_of", "unit", "width_formula"]


def digits(n: int) -> Tensor:
    """Return n rows of digits, classes in proportion, each of unit length."""
    return torch.from_numpy(datasets.unit_rows(datasets.load("digits", limit=n).X))


def attention_features(X: Tensor) -> Tensor:
    """Return X X'X in the right singular basis of X, where it is U S^3: rotations change none of the claims.

    Example:
        >>> attention_features(torch.tensor([[2.0]], dtype=torch.float64)).abs()
        tensor([[8.]], dtype=torch.float64)
    """
    return GramPower(3, X).features(X)


def unit(F: Tensor) -> Tensor:
    """Return the rows divided by their lengths."""
    return F / F.norm(dim=-1, keepdim=True)


def rank_of(X: Tensor) -> int:
    """Return the number of singular values above round-off."""
    return int(torch.linalg.matrix_rank(X))


def condition_number(F: Tensor, rank: int) -> float:
    """Return the condition number of F F' on its `rank` largest eigenvalues, which are never formed.

    Example:
        >>> condition_number(torch.diag(torch.tensor([10.0, 1.0, 0.0])), rank=2)
        100.0
    """
    singular = torch.linalg.svdvals(F)
    return float((singular[0] / singular[rank - 1]) ** 2)


def width_formula(kappa: float, n: int) -> float:
    """Return kappa^6 n log n, the width that the source asks for."""
    return kappa**6 * n * math.log(n)
