"""The dot-product kernel: what linear attention computes before any depth."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import FeatureKernel, gamma, underflow

__all__ = ["DotProduct"]


@dataclass(frozen=True)
class DotProduct(FeatureKernel):
    """k(x, z) = x'z, the kernel of linear attention and of linear ridge regression.

    Example:
        >>> DotProduct()([[1.0, 2.0], [0.0, 1.0]])
        tensor([[5., 2.], [2., 1.]], dtype=torch.float64)
    """

    name: ClassVar[str] = "dot_product"
    semidefinite: ClassVar[bool] = True

    def feature_map(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Return X itself."""
        return X

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return sqrt(gamma_{d+2}) |x_i|: the error of a dot product of d terms, of lengths that are rounded too."""
        d = X.shape[1]
        return sqrt(gamma(d + 2, X.dtype)) * X.norm(dim=1) + sqrt(underflow(d + 2, X.dtype))
