"""K held in memory: assembled from half of its tiles, or as its feature map where that is narrow."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.core.products import thin_product
from ridgeformer.kernels import FeatureKernel, Kernel
from ridgeformer.solving.engines.base import Engine
from ridgeformer.solving.engines.tiles import TILE, Tiles, diagonal64, for_each_tile, prepared

__all__ = ["Features", "Stored", "assemble"]


def assemble(kernel: Kernel, X: Float[Tensor, "n d"], dtype: torch.dtype, out: torch.dtype) -> Float[Tensor, "n n"]:
    """Return K with entries computed in `dtype` and kept in `out`: tiles below the diagonal, mirrored.

    Computing in float64 what is kept in float32 leaves only the rounding of each entry, which has no bias and
    shifts a product ten times less than float32 logits do.
    """
    K = X.new_empty(len(X), len(X), dtype=out)

    def keep(rows: slice, columns: slice, tile: Tensor) -> None:
        tile = tile.to(out)
        K[rows, columns] = tile
        if rows != columns:
            K[columns, rows] = tile.T.contiguous()

    for_each_tile(kernel, X, dtype, TILE, keep)
    return K


class Stored(Tiles):
    """K in memory in the working precision; beside it in float64, where that is asked for too.

    Entries are computed in float64 and rounded once. Without the float64 copy (`exact`) `matmat64` forms float64 tiles
    again, which costs about one assembly.
    """

    name: ClassVar[str] = "stored"

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], working: torch.dtype, *, exact: bool = False) -> None:
        super().__init__(kernel, X, working)
        cheap = prepared(kernel, X)
        keep = exact or working == torch.float64
        self.exact = assemble(*cheap, torch.float64, torch.float64) if keep else None
        self.K = self.exact.to(working) if self.exact is not None else assemble(*cheap, torch.float64, working)

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V in the working precision."""
        return thin_product(self.K, V.to(self.dtype)).to(V.dtype)

    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V in float64, from the float64 copy or from tiles formed again."""
        V = V.to(torch.float64)
        return super().matmat64(V) if self.exact is None else thin_product(self.exact, V)

    def accurate(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V with K as it is stored and the sums in float64."""
        if self.exact is not None:
            return self.matmat64(V)
        V = V.to(torch.float64)
        return torch.cat([thin_product(rows.to(torch.float64), V) for rows in self.K.split(max(1, TILE**2 // self.n))])

    def columns(self, index: Int[Tensor, " k"]) -> Float[Tensor, "n k"]:
        """Return columns of the stored K; they are its rows, which are contiguous."""
        return self.K[index].T

    def block(self, rows: Int[Tensor, " a"], columns: Int[Tensor, " b"]) -> Float[Tensor, "a b"]:
        """Return entries of the stored K."""
        return self.K[rows[:, None], columns[None, :]]


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
