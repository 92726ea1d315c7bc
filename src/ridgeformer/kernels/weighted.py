"""Rows that carry weights: the kernel whose ridge regression is the weighted one of another kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, gamma

__all__ = ["Weighted"]


@dataclass(frozen=True, eq=False)
class Weighted(Kernel):
    """k((x, s), (z, t)) = s t k(x, z), where the last column of a row is the square root of its weight.

    Ridge regression with this kernel on targets s y minimises the sum of s^2 (y - f(x))^2 + ridge |f|^2; at a query
    with s = 1 it predicts f(x). So everything that is proved of an unweighted fit holds for a weighted one.

    Args:
        inner: k, the kernel of the rows without their last column.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> Weighted(DotProduct())([[2.0, 1.0], [3.0, 0.5]])
        tensor([[4.0000, 3.0000], [3.0000, 2.2500]], dtype=torch.float64)
    """

    inner: Kernel
    name: ClassVar[str] = "weighted"

    def __post_init__(self) -> None:
        object.__setattr__(self, "semidefinite", self.inner.semidefinite)
        object.__setattr__(self, "log_scale", self.inner.log_scale)

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return s_i t_j k(x_i, z_j)."""
        left = X[:, :-1]
        return X[:, -1:] * self.inner.dense(left, left if Z is X else Z[:, :-1]) * Z[:, -1]

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return s_i^2 k(x_i, x_i)."""
        return X[:, -1].square() * self.inner.diagonal(X[:, :-1])

    def within_range(self, X: Float[Tensor, "n d"]) -> Weighted:
        """Return this kernel with the other one rescaled where its entries leave the range of the precision."""
        return replace(self, inner=self.inner.within_range(X[:, :-1]))

    def representable(self, Xq: Float[Tensor, "q d"], X: Float[Tensor, "n d"] | None = None) -> Bool[Tensor, " q"]:
        """Return which query rows the other kernel can hold."""
        return self.inner.representable(Xq[:, :-1], None if X is None else X[:, :-1])

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return the other kernel's error, weighted, and that of the two multiplications."""
        own = (gamma(4, X.dtype) * self.inner.diagonal(X[:, :-1]).clamp_min(0)).sqrt()
        return X[:, -1].abs() * (self.inner.entry_error(X[:, :-1]) + own) + torch.finfo(X.dtype).tiny ** 0.5
