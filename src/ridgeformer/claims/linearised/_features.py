"""Rows and attention features that several of these claims measure."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.kernels import GramPower

__all__ = ["attention_features", "digits"]


def digits(n: int) -> Tensor:
    """Return n rows of digits, classes in proportion, each of unit length."""
    return torch.from_numpy(datasets.unit_rows(datasets.load("digits", limit=n).X))


def attention_features(X: Tensor) -> Tensor:
    """Return X X'X in the right singular basis of X, where it is U S^3: rotations change none of the claims.

    `regime.LinearisedAttention` gives the product itself, whose smallest directions are lost in rounding.

    Example:
        >>> attention_features(torch.tensor([[2.0]], dtype=torch.float64)).abs()
        tensor([[8.]], dtype=torch.float64)
    """
    return GramPower(3, X).features(X)
