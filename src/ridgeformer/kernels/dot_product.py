"""The dot-product kernel: what linear attention computes before any depth."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix
from ridgeformer.kernels.base import FeatureKernel, gamma, project, underflow

__all__ = ["CentredDotProduct", "DotProduct"]


@dataclass(frozen=True, eq=False)
class DotProduct(FeatureKernel):
    """k(x, z) = (U x)'(U z), the kernel of linear attention and of linear ridge regression.

    Attributes:
        projection: U, (projected, features); None is the identity.

    Example:
        >>> DotProduct()([[1.0, 2.0], [0.0, 1.0]])
        tensor([[5., 2.], [2., 1.]], dtype=torch.float64)
    """

    projection: Tensor | None = None

    name: ClassVar[str] = "dot_product"
    semidefinite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.projection is not None:
            object.__setattr__(self, "projection", as_matrix(self.projection, "projection"))

    def feature_map(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return the rows U x."""
        return project(X, self.projection)

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return w with |computed k(x_i, x_j) - k(x_i, x_j)| <= w_i w_j.

        Without a projection it is sqrt(gamma_{d+2}) |x_i|, the error of a dot product of d terms.
        """
        if self.projection is None:
            d = X.shape[1]
            return sqrt(gamma(d + 2, X.dtype)) * X.norm(dim=1) + sqrt(underflow(d + 2, X.dtype))
        return _projected_error(X, X.abs(), self.projection, 0)


@dataclass(frozen=True, eq=False)
class CentredDotProduct(DotProduct):
    """k(x, z) = (U (x - c))'(U (z - c)), c the mean of given rows: what linear attention computes on centred features.

    The rounding of the centring is part of `entry_error`.

    Attributes:
        centred: The rows whose mean is c; None for c = 0.

    Example:
        >>> import torch
        >>> X = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
        >>> CentredDotProduct(centred=X)(X)
        tensor([[ 1., -1.], [-1.,  1.]], dtype=torch.float64)
    """

    centred: Tensor | None = None

    name: ClassVar[str] = "centred_dot_product"

    def feature_map(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return the rows U (x - c)."""
        return super().feature_map(X if self.centred is None else X - self.centred.mean(0))

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return w with |computed k(x_i, x_j) - k(x_i, x_j)| <= w_i w_j."""
        if self.centred is None:
            return super().entry_error(X)
        return _projected_error(X, X.abs() + self.centred.abs().mean(0), self.projection, len(self.centred))


def _projected_error(X: Tensor, sizes: Tensor, projection: Tensor | None, supports: int) -> Tensor:
    """Return w_i for features U (x - c), c the mean of s supports whose absolute values have the mean m.

    A centred row errs by at most gamma_{s+2} (|x| + m), a projected one by gamma_{s+d+3} L, L = norm(|U| (|x| + m)),
    and is no longer than L. A dot product of p terms then errs by at most gamma_{2(s+d+3)+p+4} L_i L_j.
    """
    if projection is not None:
        sizes = sizes @ projection.to(sizes).abs().T
    lengths, projected = sizes.norm(dim=1), sizes.shape[1]
    error = gamma(2 * (supports + X.shape[1]) + projected + 10, X.dtype)
    evaluated = 1 + gamma(supports + X.shape[1] + projected + 8, X.dtype)
    small = underflow(2 * (supports + X.shape[1]) + projected, X.dtype)
    return sqrt(error) * evaluated * lengths + sqrt(small) * (1 + evaluated * lengths)
