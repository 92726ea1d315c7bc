"""What changing labels does to a prediction: ridge regression is linear in them, so this is exact at any size."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_targets
from ridgeformer.core.errors import ShapeError
from ridgeformer.influence.exact import influence
from ridgeformer.kernels import Kernel

__all__ = ["label_change"]


def label_change(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, new_y: Any) -> Tensor:
    """Return, for each point i, how f(x) changes when y_i alone becomes new_y_i: (n, q) or (n, q, outputs).

    It is (R k(x))_i (new_y_i - y_i). Several labels changed at once add up exactly, so the effect of changing
    a set of them is the sum over the set.

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        new_y: targets to change to, shaped like y.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> label_change(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], 1.0, new_y=[1.0, 3.0])
        tensor([[0.], [1.]], dtype=torch.float64)
    """
    X = as_matrix(X, "X").detach()
    y, new_y = as_targets(y, X), as_targets(new_y, X, "new_y")
    if y.shape != new_y.shape:
        raise ShapeError(f"new_y has shape {tuple(new_y.shape)} and y has {tuple(y.shape)}: give the same shape.")
    found = influence(kernel, X, y, Xq, ridge)
    change = (new_y - y).reshape(found.alpha.shape).to(found.weights)
    pairs = found.weights[:, :, None] * change[:, None, :]
    return pairs[..., 0] if found.vector else pairs
