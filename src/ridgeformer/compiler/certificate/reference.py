"""Exact ridge regression as the specification poses it: a direct solve whose own distance from it is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler.specification import Specification
from ridgeformer.kernels import DotProduct, Exponential, Kernel
from ridgeformer.kernels.base import gamma, underflow
from ridgeformer.solving import Solution, solve

__all__ = ["LinearFeatures", "kernel_of", "solve_exactly"]


@dataclass(frozen=True, eq=False)
class LinearFeatures(Kernel):
    """k(x, z) = (x - c)'P P'(z - c): linear attention on projected features, centred over the supports or not.

    The rows are those given, so the rounding of the projection and of the centring is part of `entry_error`.

    Attributes:
        projection: P, (features, projected), or None for the identity.
        centred: The supports whose mean is c, or None for c = 0.

    Example:
        >>> import torch
        >>> X = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
        >>> LinearFeatures(centred=X)(X)
        tensor([[ 1., -1.], [-1.,  1.]], dtype=torch.float64)
    """

    projection: Tensor | None = None
    centred: Tensor | None = None

    name: ClassVar[str] = "linear_features"
    semidefinite: ClassVar[bool] = True

    def features(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return P'(x - c)."""
        rows = X if self.centred is None else X - self.centred.mean(0)
        return rows if self.projection is None else rows @ self.projection

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return the dot products of the features."""
        left = self.features(X)
        return left @ (left if Z is X else self.features(Z)).T

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return the squared lengths of the features."""
        return self.features(X).square().sum(1)

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return w with |computed k(x_i, x_j) - k(x_i, x_j)| <= w_i w_j.

        With m the mean of the supports' absolute values, a centred row errs by at most gamma_{s+2} (|x| + m) over s
        supports, a projected one by gamma_{s+d+3} L, L = norm((|x| + m)|P|), and is no longer than L. A dot product
        of p terms then errs by at most gamma_{2(s+d+3)+p+4} L_i L_j.
        """
        supports = 0 if self.centred is None else len(self.centred)
        sizes = X.abs() if self.centred is None else X.abs() + self.centred.abs().mean(0)
        lengths = (sizes if self.projection is None else sizes @ self.projection.abs()).norm(dim=1)
        projected = X.shape[1] if self.projection is None else self.projection.shape[1]
        error = gamma(2 * (supports + X.shape[1]) + projected + 10, X.dtype)
        evaluated = 1 + gamma(supports + X.shape[1] + projected + 8, X.dtype)
        small = underflow(2 * (supports + X.shape[1]) + projected, X.dtype)
        return sqrt(error) * evaluated * lengths + sqrt(small) * (1 + evaluated * lengths)


def kernel_of(spec: Specification, projection: Tensor | None, X: Tensor) -> Kernel:
    """Return the kernel of a specification, as a function of rows as they are given.

    Args:
        spec: Route and temperature.
        projection: (features, projected), or None for the identity.
        X: Supports; the imitation of linear attention centres over them.
    """
    if spec.route in ("softmax", "vanilla"):
        return Exponential(spec.temperature, projection=None if projection is None else projection.T)
    centred = X if spec.route == "imitation" else None
    return DotProduct() if projection is None and centred is None else LinearFeatures(projection, centred)


def solve_exactly(spec: Specification, projection: Tensor | None, X: Tensor, y: Tensor) -> Solution:
    """Return the direct float64 solve of the regression that a specification asks for, with its rigorous bounds.

    Raises:
        InputError: a problem that float64 cannot hold.
    """
    return solve(kernel_of(spec, projection, X), X, y, spec.ridge, algorithm="direct")
