"""Thin products, a large matrix times a few columns: the layout decides about a factor of three.

All a solver does per step is of this kind. Such a product reads the matrix once, so the library call matters:
for ten columns torch's own K @ V takes two to three times as long as oneDNN's, and a transposed matrix is best
left where it is with the thin factor put in front of it.
"""

from __future__ import annotations

from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["thin_product", "transposed_thin_product"]

THIN = 64
"""With more columns than this a product is an ordinary one."""

STRIP, WIDE = 256, 4096
"""A matrix wider than the second is used transposed by strips of this many rows: twice as fast as in one piece."""


def thin_product(K: Float[Tensor, "a b"], V: Float[Tensor, "b r"]) -> Float[Tensor, "a r"]:
    """Return K V.

    Example:
        >>> thin_product(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [1.0]]))
        tensor([[3.], [7.]])
    """
    if V.shape[1] == 1:
        return (K @ V[:, 0])[:, None]
    if V.shape[1] > THIN:
        return K @ V
    return _linear(V.T.contiguous(), K).T


def transposed_thin_product(K: Float[Tensor, "a b"], V: Float[Tensor, "a r"]) -> Float[Tensor, "b r"]:
    """Return K'V.

    Example:
        >>> transposed_thin_product(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [1.0]]))
        tensor([[4.], [6.]])
    """
    if V.shape[1] == 1:
        return (K.T @ V[:, 0])[:, None]
    if V.shape[1] > THIN or K.shape[1] < WIDE or not _has_onednn(K):
        return (V.T.contiguous() @ K).T
    parts = zip(V.T.contiguous().split(STRIP, dim=1), K.split(STRIP), strict=True)
    return reduce(torch.Tensor.add_, (_linear(v.contiguous(), rows.T) for v, rows in parts)).T


def _linear(V: Tensor, K: Tensor) -> Tensor:
    """Return V K'; by oneDNN where torch has it for this precision and device."""
    if not _has_onednn(K):
        return torch.nn.functional.linear(V, K)
    return torch.ops.mkldnn._linear_pointwise(V, K, None, "none", [], "")


def _has_onednn(K: Tensor) -> bool:
    there = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    return there and K.dtype == torch.float32 and K.device.type == "cpu"
