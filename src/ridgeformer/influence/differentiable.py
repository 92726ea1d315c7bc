"""Influence as a function of the rows, to be differentiated: what an attack on the influence itself needs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.errors import InputError
from ridgeformer.influence.influence import Influence
from ridgeformer.kernels import Kernel

__all__ = ["differentiable_influence"]


def differentiable_influence(
    kernel: Kernel,
    X: Float[Tensor, "n d"],
    y: Float[Tensor, "n outputs"],
    Xq: Float[Tensor, "q d"],
    ridge: float,
) -> Influence:
    """Return what `influence` returns, with gradients in X and Xq, through the inverse itself.

    Costs O(n^3) and a few n x n matrices, going forwards and backwards.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> X = torch.tensor([[1.0], [2.0]]).double().requires_grad_()
        >>> y, Xq = torch.tensor([[1.0], [0.0]]).double(), torch.ones(1, 1).double()
        >>> differentiable_influence(DotProduct(), X, y, Xq, 1.0).leave_one_out.sum().requires_grad
        True
    """
    cross = kernel.dense(X, Xq)
    A = kernel.dense(X, X) + ridge * torch.eye(len(X), dtype=X.dtype, device=X.device)
    factor, info = torch.linalg.cholesky_ex(A)
    if int(info) != 0:
        raise InputError("K + ridge I is singular at the rows an attack arrived at: raise the ridge, or lower eps.")
    R = torch.cholesky_inverse(factor)
    alpha = R @ y
    return Influence(alpha, R @ cross, R.diagonal(), cross.T @ alpha, ridge)
