"""Thin products, a large matrix times a few columns: the layout decides about a factor of three.

All a solver does per step is of this kind. Such a product reads the matrix once, so the library call matters:
for ten columns torch's own K @ V takes two to three times as long as oneDNN's, and a transposed matrix is best
left where it is with the thin factor put in front of it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["thin_product", "transposed_thin_product"]

THIN = 64
"""With more columns than this a product is an ordinary one."""


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
    return (V.T.contiguous() @ K).T


def _linear(V: Tensor, K: Tensor) -> Tensor:
    """Return V K'; by oneDNN where torch has it for this precision and device."""
    onednn = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if onednn is None or V.dtype != torch.float32 or V.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return torch.nn.functional.linear(V, K)
    return onednn(V, K, None, "none", [], "")
