"""Rows of unit length as tensors that carry gradients; `datasets.unit_rows` is the same for arrays."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.errors import InputError

__all__ = ["normalise_rows"]


def normalise_rows(X: Float[Tensor, "n d"], name: str = "X", *, keep_zero: bool = False) -> Float[Tensor, "n d"]:
    """Return X with every row divided by its length; no square overflows or vanishes on the way.

    Args:
        X: Rows.
        name: What they are called in an error.
        keep_zero: Leave zero rows as they are instead of refusing them.

    Raises:
        InputError: a zero row, which has no direction.

    Example:
        >>> normalise_rows(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    largest = X.detach().abs().amax(1, keepdim=True)
    zero = (largest == 0).flatten()
    if bool(zero.any()) and not keep_zero:
        raise InputError(
            f"row {int(zero.nonzero()[0])} of {name} is all zeros ({int(zero.sum())} such rows in all) and cannot be "
            "scaled to unit length: drop it, or use attention without row normalisation."
        )
    X = X / torch.where(zero[:, None], 1.0, largest)
    return X / torch.where(zero[:, None], 1.0, X.norm(dim=1, keepdim=True))
