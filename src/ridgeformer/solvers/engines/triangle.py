"""The lower triangle of K in memory, every entry as two float32 numbers: its rounding, and what that leaves out.

Together they take what K in float32 takes. The first serves the steps of a solver, and each tile of it is used twice;
both together are K to 48 bits, so a residual can be computed without forming K again.
"""

from __future__ import annotations

from math import ceil
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers.engines.strips import STRIP, symmetric_rows
from ridgeformer.solvers.engines.tiles import Tiles, for_each_tile, prepared

__all__ = ["Triangle", "tile_size"]


SIZES = (800, 960, 1120)
"""Rows of a tile: about a thousand, a multiple of `STRIP` rows and of the 32 numbers that a core takes at a time.

And no multiple of 1024: rows that start 4096 bytes apart evict each other from the cache.
"""


def tile_size(n: int) -> int:
    """Return how many rows a tile has: of `SIZES` the one that leaves the least to fill up, or all of a few rows.

    Example:
        >>> tile_size(20_000), tile_size(101)
        (800, 105)
    """
    if n <= min(SIZES):
        return STRIP * ceil(n / STRIP)
    return min(SIZES, key=lambda size: size * ceil(n / size))


class Triangle(Tiles):
    """K = high + low on and below the diagonal, both float32, as rows of square tiles; the last ones filled up with 0.

    Args:
        kernel: the kernel.
        X: the rows.
        working: float32; the precision of products by the high part alone.
    """

    name: ClassVar[str] = "triangle"
    rounding: ClassVar[int] = 2**5
    """high + low has 48 bits and float64 53."""

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], working: torch.dtype = torch.float32) -> None:
        super().__init__(kernel, X, working)
        self.size = tile_size(self.n)
        self.count = ceil(self.n / self.size)
        self.high, self.low = ([self._room(i) for i in range(self.count)] for _ in range(2))
        for_each_tile(*prepared(kernel, X), torch.float64, self.size, self._keep)
        self.working = kernel.unchecked(X), X  # no copy for the few columns that are formed from here on

    def _keep(self, rows: slice, columns: slice, tile: Tensor) -> None:
        high, low = self._place(self.high, rows, columns), self._place(self.low, rows, columns)
        high.copy_(tile)
        low.copy_(tile.sub_(high))

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V by the high part."""
        return self._joined(symmetric_rows([self.high], self._blocks(V, self.dtype)), V)

    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V by both parts, summed in float64."""
        V = V.to(torch.float64)
        return self._joined(symmetric_rows([self.high, self.low], self._blocks(V, V.dtype)), V)

    def _blocks(self, V: Tensor, dtype: torch.dtype) -> Tensor:
        """Return V by tiles, each transposed, filled up with zeros."""
        filled = V.new_zeros(self.count * self.size, V.shape[1], dtype=dtype)
        filled[: self.n] = V
        return filled.view(self.count, self.size, -1).transpose(1, 2).contiguous()

    def _joined(self, blocks: Tensor, V: Tensor) -> Tensor:
        return blocks.transpose(1, 2).reshape(-1, V.shape[1])[: self.n].to(V.dtype)

    def lower(self) -> Float[Tensor, "n n"]:
        """Return the high part as one matrix; only its lower triangle has a meaning."""
        K = self.X.new_empty(self.n, self.n, dtype=self.dtype)
        for rows, columns in self._places():
            K[rows, columns] = self._place(self.high, rows, columns)
        return K

    def _room(self, i: int) -> Tensor:
        new = self.X.new_zeros if i == self.count - 1 else self.X.new_empty
        return new(i + 1, self.size, self.size, dtype=self.dtype)

    def _places(self) -> list[tuple[slice, slice]]:
        slices = [slice(i * self.size, min((i + 1) * self.size, self.n)) for i in range(self.count)]
        return [(rows, columns) for i, rows in enumerate(slices) for columns in slices[: i + 1]]

    def _place(self, part: list[Tensor], rows: slice, columns: slice) -> Tensor:
        tile = part[rows.start // self.size][columns.start // self.size]
        return tile[: rows.stop - rows.start, : columns.stop - columns.start]
