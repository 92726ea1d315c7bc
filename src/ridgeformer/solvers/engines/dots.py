"""Dot products between many rows, a tile at a time; features that few rows have are multiplied as sparse ones.

Pixels at the border of a picture, words, one-hot columns: nearly all products with such a feature are with zero, and a
matrix product computes every one of them. Nothing is left out or rounded here; only the order of summation differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from torch import Tensor

__all__ = ["Dots"]

FEW = 0.1
"""Up to this share of rows a feature is sparse: an entry of a sparse matrix costs about ten of a dense one."""

WORTH = 64
"""So many features less in the matrix product pay for adding the sparse one to it."""

LOOKED_AT = 512
"""Rows looked through for zeros at a time."""


class Dots:
    """Dot products of tiles of rows.

    Args:
        rows: the rows; copied only if enough of their features are sparse.
        size: rows of a tile.

    Attributes:
        sparse: how many features are multiplied as sparse ones.

    Example:
        >>> dots = Dots(torch.eye(20, 100), size=15)
        >>> tile = np.empty((5, 15), dtype="float32")
        >>> dots.fill(tile, 15, 0)
        >>> dots.sparse, float(tile.sum())
        (100, 0.0)
    """

    def __init__(self, rows: Float[Tensor, "n d"], size: int) -> None:
        self.size, self.sparse = size, 0
        self.dense = rows.detach().numpy()
        present: Any = sum(np.count_nonzero(some.numpy(), axis=0) for some in rows.detach().split(LOOKED_AT))
        share = torch.from_numpy(present) / len(rows)
        few = share <= FEW
        if float(few.sum()) - float(share[few].sum()) / FEW <= WORTH:
            return
        self.sparse = int(few.sum())
        self.dense = rows.detach()[:, ~few].numpy()
        tiles = [some[:, few] for some in rows.detach().split(size)]
        self.left = [csr_array(tile.numpy()) for tile in tiles]
        self.right = [tile.T.contiguous().numpy() for tile in tiles]

    def fill(self, out: Any, start: int, begin: int) -> None:
        """Write into `out`, a NumPy array, the products of the tile of rows at `start` with the one at `begin`."""
        np.matmul(self.dense[start : start + self.size], self.dense[begin : begin + self.size].T, out=out)
        if self.sparse:
            out += self.left[start // self.size] @ self.right[begin // self.size]
