"""A kernel with fewer features than rows: K V is two thin products and K is never formed."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.kernels import FeatureKernel
from ridgeformer.solving.engines.base import Engine
from ridgeformer.solving.engines.tiles import diagonal64

__all__ = ["Features"]


class Features(Engine):
    """K = phi(X) phi(X)', held as phi(X)."""

    name: ClassVar[str] = "features"

    def __init__(self, kernel: FeatureKernel, X: Float[Tensor, "n d"], working: torch.dtype) -> None:
        self.kernel: FeatureKernel = kernel
        self.X = X
        self.n, self.dtype, self.device = len(X), working, X.device
        self.phi = kernel.feature_map(X.to(working))

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return phi (phi' V) in the working precision."""
        return (self.phi @ (self.phi.T @ V.to(self.dtype))).to(V.dtype)

    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return phi (phi' V), features and sums in float64."""
        phi = self.phi if self.dtype == torch.float64 else self.kernel.feature_map(self.X.to(torch.float64))
        return phi @ (phi.T @ V.to(torch.float64))

    def columns(self, index: Int[Tensor, " k"]) -> Float[Tensor, "n k"]:
        """Return phi(X) phi(x_index)'."""
        return self.phi @ self.phi[index].T

    def block(self, rows: Int[Tensor, " a"], columns: Int[Tensor, " b"]) -> Float[Tensor, "a b"]:
        """Return phi(x_rows) phi(x_columns)'."""
        return self.phi[rows] @ self.phi[columns].T

    def diagonal(self) -> Float[Tensor, " n"]:
        """Return the squared lengths of the features, in float64."""
        return diagonal64(self.kernel, self.X)
