"""Matrix products by the library that is fastest: oneDNN for float32 on processors, which PyTorch does not choose.

PyTorch leaves these to MKL, which on processors of AMD uses half of their vector units; oneDNN, which comes with
PyTorch, uses all. For a large matrix times a few columns, which is all that a solver does per step, the layout decides
about a factor of three more: the matrix is read once, and a transposed one is best left where it is with the thin
factor put in front of it.
"""

from __future__ import annotations

from functools import reduce
from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["add_product", "product", "thin_product", "transposed_thin_product"]

THIN = 64
"""With more columns than this a product is an ordinary one."""

STRIP, WIDE = 256, 4096
"""A matrix wider than the second is used transposed by strips of this many rows: twice as fast as in one piece. And
squares of as many rows on the diagonal of a lower triangle are computed whole."""

HELD = 2**20
"""Numbers of a product held until they are added; larger pieces of memory are fetched from the system every time."""


def thin_product(K: Float[Tensor, "a b"], V: Float[Tensor, "b r"]) -> Float[Tensor, "a r"]:
    """Return K V.

    Example:
        >>> thin_product(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [1.0]]))
        tensor([[3.], [7.]])
    """
    if V.shape[1] == 1:
        return (K @ V[:, 0])[:, None]
    if V.shape[1] > THIN:
        return product(K, V)
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
        return product(V.T.contiguous(), K).T
    parts = zip(V.T.contiguous().split(STRIP, dim=1), K.split(STRIP), strict=True)
    return reduce(torch.Tensor.add_, (_linear(v.contiguous(), rows.T) for v, rows in parts)).T


def product(A: Float[Tensor, "a k"], B: Float[Tensor, "k b"]) -> Float[Tensor, "a b"]:
    """Return A B.

    Example:
        >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    return _linear(A, B.T)


def add_product(
    C: Float[Tensor, "a b"],
    A: Float[Tensor, "a k"],
    B: Float[Tensor, "k b"],
    *,
    alpha: float = 1.0,
    lower: bool = False,
) -> None:
    """Add alpha A B to C in place; if `lower`, to what is on and below its diagonal: above, C has no meaning then.

    Example:
        >>> C, A = torch.zeros(2, 2), torch.arange(6.0).reshape(2, 3)
        >>> add_product(C, A, A.T, lower=True)
        >>> C.tril()
        tensor([[ 5.,  0.],
                [14., 50.]])
    """
    quick = C.numel() > 0 and _has_onednn(A)
    if quick:
        B = (B.T.contiguous() if lower else _readable(B.T)).T
    if lower and len(C) > STRIP:
        half = STRIP * ceil(len(C) / (2 * STRIP))
        add_product(C[:half, :half], A[:half], B[:, :half], alpha=alpha, lower=True)
        add_product(C[half:, :half], A[half:], B[:, :half], alpha=alpha)
        add_product(C[half:, half:], A[half:], B[:, half:], alpha=alpha, lower=True)
    elif quick:
        size = 16 * ceil(len(C) / ceil(C.numel() / HELD) / 16)
        for some, factor in zip(C.split(size), A.split(size), strict=True):
            some.add_(product(factor, B), alpha=alpha)
    else:
        C.addmm_(A, B, alpha=alpha)


def _linear(V: Tensor, K: Tensor) -> Tensor:
    """Return V K'; by oneDNN where torch has it for this precision and device."""
    if not _has_onednn(K) or min(*V.shape, *K.shape) == 0:
        return torch.nn.functional.linear(V, K)
    return torch.ops.mkldnn._linear_pointwise(V, _readable(K), None, "none", [], "")


def _readable(K: Tensor) -> Tensor:
    """Return K in an order that oneDNN reads at full speed; a few columns of a matrix take a thousand times as long."""
    return K if K.is_contiguous() or K.T.is_contiguous() else K.contiguous()


def _has_onednn(K: Tensor) -> bool:
    there = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    return there and K.dtype == torch.float32 and K.device.type == "cpu"
