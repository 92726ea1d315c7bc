"""Dot products between many rows, a tile at a time, in the way that is fastest for these rows.

Rows of small whole numbers, each times a number of its own, are multiplied as such (`WholeNumbers`). Elsewhere,
features that few rows have are multiplied as sparse ones: pixels at the border of a picture, words, one-hot columns.
Nearly all products with them are with zero, and a matrix product computes every one. Nothing is left out by that, only
the order of summation differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.compiled import compile_it, worthwhile
from ridgeformer.solving.engines.panels import multiply_panels, pack, teach_blocks, uses_wide_vectors
from ridgeformer.solving.engines.whole_numbers import WholeNumbers

__all__ = ["Dots"]

PRICE = 10
"""Cost of an entry of a sparse matrix over that of a dense one ..."""

COMPILED_PRICE, PANEL_PRICE = 3, 6
"""... where its product is compiled, and where the dense product is too."""

WORTH = 64
"""So many features less in the matrix product pay for adding the sparse one to it."""

LOOKED_AT = 512
"""Rows looked through for zeros at a time."""


PACKED_BYTES = 2**29
"""Rows that take more are not packed, which copies them; they may be on disk."""


class Dots:
    """Dot products of tiles of `size` rows, which are copied if enough of their features are sparse, or to be packed.

    `sparse` says whether to look for sparse features and, as an attribute, how many are multiplied as such.

    Example:
        >>> dots = Dots(torch.eye(20, 100), size=15)
        >>> tile = np.empty((5, 15), dtype="float32")
        >>> dots.fill(tile, 15, 0)
        >>> dots.sparse, float(tile.sum())
        (100, 0.0)
    """

    def __init__(self, rows: Float[Tensor, "n d"], size: int, *, sparse: bool = True) -> None:
        self.size, self.sparse, self.compiled = size, 0, worthwhile(len(rows))
        self.packed = self.compiled and uses_wide_vectors() and rows.nbytes <= PACKED_BYTES
        rows = rows.detach()
        self.whole = WholeNumbers.of(rows) if self.compiled and rows.nbytes <= PACKED_BYTES else None
        if self.whole is not None:
            return
        few = self._take_sparse(rows) if sparse else None
        if self.packed:
            teach_blocks()
            self.panels = [pack((tile if few is None else tile[:, ~few]).numpy()) for tile in rows.split(size)]
        else:
            self.dense = (rows if few is None else rows[:, ~few]).numpy()

    def _take_sparse(self, rows: Tensor) -> Tensor | None:
        """Keep the features that few rows have, if that pays, and return which they are."""
        from scipy.sparse import csr_array

        present: Any = sum(np.count_nonzero(some.numpy(), axis=0) for some in rows.split(LOOKED_AT))
        share = torch.from_numpy(present) / len(rows)
        price = PANEL_PRICE if self.packed else COMPILED_PRICE if self.compiled else PRICE
        few = share * price <= 1
        if float((1 - share * price)[few].sum()) <= WORTH:
            return None  # too few to pay for taking them out of the matrix product
        self.sparse = int(few.sum())
        tiles = [some[:, few] for some in rows.split(self.size)]
        self.left = [csr_array(tile.numpy()) for tile in tiles]
        self.right = [tile.T.contiguous().numpy() for tile in tiles]
        return few

    def fill(self, out: NDArray[Any], start: int, begin: int) -> None:
        """Write into `out` the products of the tile of rows at `start` with the one at `begin`."""
        if self.whole is not None:
            self.whole.fill(out, slice(start, start + self.size), slice(begin, begin + self.size))
            return
        i, j = start // self.size, begin // self.size
        if self.packed:
            compile_it(multiply_panels)(self.panels[i], self.panels[j], out)
        else:
            np.matmul(self.dense[start : start + self.size], self.dense[begin : begin + self.size].T, out=out)
        if not self.sparse:
            return
        left, right = self.left[i], self.right[j]
        if self.compiled:
            compile_it(add_sparse)(left.indptr, left.indices, left.data, right, out)
        else:
            out += left @ right


def add_sparse(starts: Any, places: Any, values: Any, right: Any, out: Any) -> None:
    """Add to `out` the product of a sparse matrix, in the parts of a `csr_array`, with `right`; all are NumPy arrays.

    Four entries of a row at a time, so that `out` is read and written less often.

    Example:
        >>> from scipy.sparse import csr_array
        >>> left, out = csr_array(np.array([[0.0, 2.0], [0.0, 0.0], [1.0, 1.0]])), np.zeros((3, 2))
        >>> add_sparse(left.indptr, left.indices, left.data, np.array([[1.0, 2.0], [3.0, 4.0]]), out)
        >>> out.tolist()
        [[6.0, 8.0], [0.0, 0.0], [4.0, 6.0]]
    """
    for i in range(out.shape[0]):
        row, first, last = out[i], starts[i], starts[i + 1]
        fours = first + (last - first) // 4 * 4
        for e in range(first, fours, 4):
            v0, v1, v2, v3 = values[e], values[e + 1], values[e + 2], values[e + 3]
            row0, row1, row2, row3 = right[places[e]], right[places[e + 1]], right[places[e + 2]], right[places[e + 3]]
            for j in range(row.shape[0]):
                row[j] += v0 * row0[j] + v1 * row1[j] + v2 * row2[j] + v3 * row3[j]
        for e in range(fours, last):
            value, other = values[e], right[places[e]]
            for j in range(row.shape[0]):
                row[j] += value * other[j]
