"""The lower triangle of K in memory, every entry in two parts: rounded to float32, and what that leaves out.

The first serves the steps of a solver, and each tile of it is used twice. With both, a residual can be computed without
forming K again. What float32 leaves out is kept in 16 bits, which makes 40 in all, in three quarters of the room of a
float32 matrix; or in 32, which leaves nothing out that float64 has, in the room of one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import ceil, sqrt
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.core.compiled import compile_it, worthwhile
from ridgeformer.kernels import Kernel
from ridgeformer.solving.engines.strips import UNIT, symmetric_rows
from ridgeformer.solving.engines.tiles import Tiles, for_each_tile, prepared

__all__ = ["KEPT", "Triangle", "lost", "tile_size"]


SIZES = (480, 640, 320)
"""Rows of a tile, the best first: multiples of `UNIT`.

And none of 1024: rows that start 4096 bytes apart evict each other from the cache.
"""


def tile_size(n: int) -> int:
    """Return how many rows a tile has: of `SIZES` the one that leaves the least to fill up, or all of a few rows."""
    if n <= min(SIZES):
        return UNIT * ceil(n / UNIT)
    return min(SIZES, key=lambda size: size * ceil(n / size))


KEPT = {16: torch.int16, 32: torch.int32}
"""Bits that may be kept of what float32 leaves out."""


SPAN = (2.0**-80, 2.0**80)
"""Of k(x, x): what float32 leaves out of an entry below its own range, 2^-150, is then lost in a step of `low`."""


def lost(bits: int) -> float:
    """Return what is lost of an entry at most, in parts of sqrt(k_ii k_jj): half a step, and as much for rounding."""
    return 2.0 ** -(23 + bits)


class Triangle(Tiles):
    """K = high + low on and below the diagonal, as rows of square tiles; the last ones filled up with 0.

    K is positive semidefinite, so an entry is at most sqrt(k_ii k_jj), and float32 leaves out at most 2^-24 of that:
    `low` counts it in equal steps, in 16 or 32 `bits`. Products by the high part alone are in `working`, float32.
    """

    name: ClassVar[str] = "triangle"
    span: ClassVar[tuple[float, float]] = SPAN

    def __init__(
        self, kernel: Kernel, X: Float[Tensor, "n d"], working: torch.dtype = torch.float32, *, bits: int = 32
    ) -> None:
        super().__init__(kernel, X, working)
        self.rounding = ceil(lost(bits) / 2.0**-53)
        self.size = tile_size(self.n)
        self.count = ceil(self.n / self.size)
        (self.numbers, self.high), (_, self.low) = self._by_rows(working), self._by_rows(KEPT[bits])
        self.most = torch.iinfo(KEPT[bits]).max
        root = self.diagonal().clamp_min(0).sqrt()
        self.step = torch.where(root > 0, root, 1.0) * sqrt(2.0**-24 / self.most)  # of entry ij it is step_i step_j
        self.per_step, self.compiled = 1 / self.step, X.device.type == "cpu" and worthwhile(self.n)
        for_each_tile(*prepared(kernel, X), torch.float64, self.size, self._keep)
        self.working = kernel.unchecked(X), X  # no copy for the few columns that are formed from here on

    def _keep(self, rows: slice, columns: slice, tile: Tensor) -> None:
        high, low = self._place(self.high, rows, columns), self._place(self.low, rows, columns)
        left, right = self.per_step[rows], self.per_step[columns]
        if self.compiled:
            compile_it(split)(*(part.numpy() for part in (tile, left, right, high, low)), self.most)
        else:
            high.copy_(tile)
            low.copy_(tile.sub_(high).mul_(left[:, None]).mul_(right).round_().clamp_(-self.most, self.most))

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V by the high part."""
        return self._joined(symmetric_rows(self.high, self._blocks(V, self.dtype)), V)

    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V by both parts, summed in float64."""
        V, step = V.to(torch.float64), self.step[:, None]
        rest = self._joined(symmetric_rows(self.low, self._blocks(step * V, V.dtype)), V)
        return rest.mul_(step).add_(self._joined(symmetric_rows(self.high, self._blocks(V, V.dtype)), V))

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

    def columns(self, index: Int[Tensor, " k"]) -> Float[Tensor, "n k"]:
        """Return k(X, x_index), from the high part where that is faster."""
        return self._looked_up(torch.arange(self.n), index) if self.compiled else super().columns(index)

    def block(self, rows: Int[Tensor, " a"], columns: Int[Tensor, " b"]) -> Float[Tensor, "a b"]:
        """Return k(x_rows, x_columns), from the high part where that is faster."""
        return self._looked_up(columns, rows).T if self.compiled else super().block(rows, columns)

    def _looked_up(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return entries by the columns; fast where rows of the same tile follow each other."""
        found = self.X.new_empty(len(columns), len(rows), dtype=self.dtype)
        tiles = rows.numpy() // self.size
        starts = [0, *(np.flatnonzero(np.diff(tiles)) + 1), len(rows)]
        arrays = [array.numpy() for array in (self.numbers, rows, columns, found)]

        def look(part: tuple[int, int]) -> None:
            compile_it(look_up)(*arrays, rows is columns, self.size, *part)

        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            list(threads.map(look, pairwise(starts)))
        return found.T

    def _by_rows(self, dtype: torch.dtype) -> tuple[Tensor, list[Tensor]]:
        """Return what holds the tiles, in one piece and by rows of tiles; the last row is filled up with zeros."""
        counts = [(i + 1) * self.size**2 for i in range(self.count)]
        whole = self.X.new_empty(sum(counts), dtype=dtype)
        parts = whole.split(counts)
        parts[-1].zero_()
        return whole, [part.view(-1, self.size, self.size) for part in parts]

    def _places(self) -> list[tuple[slice, slice]]:
        slices = [slice(i * self.size, min((i + 1) * self.size, self.n)) for i in range(self.count)]
        return [(rows, columns) for i, rows in enumerate(slices) for columns in slices[: i + 1]]

    def _place(self, part: list[Tensor], rows: slice, columns: slice) -> Tensor:
        tile = part[rows.start // self.size][columns.start // self.size]
        return tile[: rows.stop - rows.start, : columns.stop - columns.start]


def look_up(numbers: Any, rows: Any, columns: Any, found: Any, same: bool, size: int, begin: int, stop: int) -> None:
    """Write entries (rows[a], columns[b]) of a symmetric matrix into found[b, a], for a from `begin` to `stop`.

    All are NumPy arrays: `numbers` are those of the tiles on and below the diagonal. The rows from `begin` to `stop`
    lie in one tile; `same` says that rows and columns are the same, so that half of the entries are read. Going down
    one column after the other reads memory in even steps, which is faster than going along rows.

    Example:
        >>> found = np.zeros((2, 1))
        >>> look_up(np.array([5.0, 6.0, 7.0]), np.array([1]), np.array([0, 1]), found, False, 1, 0, 1)
        >>> found.tolist()
        [[6.0], [7.0]]
    """
    tile = rows[begin] // size
    for b in range(columns.shape[0]):
        other = columns[b] // size
        left, right = max(tile, other), min(tile, other)
        start, place = (left * (left + 1) // 2 + right) * size * size, columns[b] - other * size
        for a in range(max(begin, b) if same else begin, stop):
            within = rows[a] - tile * size
            down, along = (within, place) if tile > other or (tile == other and within > place) else (place, within)
            found[b, a] = numbers[start + down * size + along]
            if same:
                found[a, b] = found[b, a]


def split(tile: Any, left: Any, right: Any, high: Any, low: Any, most: int) -> None:
    """Write into `high` the entries of a tile, rounded, and into `low` what that leaves out, in one reading.

    All are NumPy arrays; `left` and `right` hold the steps of `low` per unit, for rows and columns, `most` its largest
    number.

    Example:
        >>> high, low = np.zeros((1, 2), dtype="float32"), np.zeros((1, 2), dtype="int16")
        >>> split(np.array([[1 + 2.0**-30, 0.5]]), np.array([2.0**20]), np.array([2.0**20, 1.0]), high, low, 2**15 - 1)
        >>> high.tolist(), low.tolist()
        ([[1.0, 0.5]], [[1024, 0]])
    """
    for i in range(tile.shape[0]):
        entries, near, rest, steps = tile[i], high[i], low[i], left[i]
        for j in range(entries.shape[0]):
            rounded = high.dtype.type(entries[j])
            near[j] = rounded
            rest[j] = min(max(np.rint((entries[j] - rounded) * steps * right[j]), -most), most)
