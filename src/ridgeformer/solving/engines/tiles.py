"""Symmetric tiles: K is formed a tile at a time and never held; each tile off the diagonal is used twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from ridgeformer.core.products import thin_product, transposed_thin_product
from ridgeformer.kernels import Kernel
from ridgeformer.solving.engines.base import Engine
from ridgeformer.solving.engines.dots import Dots

__all__ = [
    "COPIED_BYTES",
    "LIMITING",
    "TILE",
    "Tiles",
    "diagonal64",
    "for_each_tile",
    "prepared",
    "rows_of_tiles",
    "symmetric_product",
]

TILE = 1024
"""Rows of a tile: 8 MiB in float64, large enough for a matrix product to run at full speed."""

PASSING = 512
"""Rows of a tile that is used at once and thrown away: 1 MiB in float32, which stays in the cache until then."""

LIMITING = Lock()
"""Held while NumPy is limited to one thread: two who limit it at once would not restore what was before."""

Found = TypeVar("Found")

COPIED_BYTES = 2**29
"""Rows that take more are never copied; they may be on disk."""


def prepared(kernel: Kernel, X: Float[Tensor, "n d"]) -> tuple[Kernel, Float[Tensor, "n c"]]:
    """Return `Kernel.prepared` in float64, which rounds nothing; the two as they are where a copy would be large."""
    return kernel.prepared(X.to(torch.float64)) if X.nbytes <= COPIED_BYTES else (kernel, X)


def rows_of_tiles(
    kernel: Kernel,
    X: Float[Tensor, "n d"],
    dtype: torch.dtype,
    size: int,
    work: Callable[[slice, Iterator[tuple[slice, Tensor]]], Found],
    *,
    sparse: bool = False,
) -> Iterator[Found]:
    """Yield work(rows, tiles) for every row of tiles, the longest first; entries are computed in `dtype`.

    `tiles` yields (columns, K[rows, columns]) from the first columns to the diagonal; a tile may be changed, and the
    next one takes its memory.

    Where entries are a function of dot products, several rows are worked on side by side, each by one core. That is
    faster than one after the other by all cores; their number changes nothing. To look for sparse features (`sparse`)
    takes a copy of X and pays where every tile is formed once.
    """
    n = len(X)
    starts = [slice(start, min(start + size, n)) for start in range(0, n, size)[::-1]]
    entrywise = kernel.entrywise(rounded := X.to(dtype)) if X.device.type == "cpu" and n > size else None
    if entrywise is None:

        def in_turn(rows: slice) -> Iterator[tuple[slice, Tensor]]:
            left = X[rows].to(dtype)
            for columns in starts[: starts.index(rows) : -1]:
                yield columns, kernel.dense(left, X[columns].to(dtype))
            yield rows, kernel.dense(left, left)

        yield from (work(rows, in_turn(rows)) for rows in starts)
        return
    dots, inference = Dots(rounded, size, sparse=sparse), torch.is_inference_mode_enabled()

    def by_dots(rows: slice) -> Iterator[tuple[slice, Tensor]]:
        count = rows.stop - rows.start
        room = torch.empty(count * size, dtype=dtype)
        for begin in range(0, rows.start + 1, size):
            columns = slice(begin, min(begin + size, n))
            tile = room[: count * (columns.stop - begin)].view(count, -1)
            dots.fill(tile.numpy(), rows.start, begin)
            yield columns, entrywise(tile, rows, columns)

    @torch.inference_mode(inference)  # a thread starts without the modes of the one that started it
    def one_row(rows: slice) -> Found:
        return work(rows, by_dots(rows))

    with LIMITING, threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(torch.get_num_threads()) as threads:
        yield from threads.map(one_row, starts)


def for_each_tile(
    kernel: Kernel, X: Float[Tensor, "n d"], dtype: torch.dtype, size: int, use: Callable[[slice, slice, Tensor], None]
) -> None:
    """Call use(rows, columns, tile) for every tile on or below the diagonal, once and in no particular order."""

    def use_all(rows: slice, tiles: Iterator[tuple[slice, Tensor]]) -> None:
        for columns, tile in tiles:
            use(rows, columns, tile)

    for _ in rows_of_tiles(kernel, X, dtype, size, use_all, sparse=True):
        pass


def symmetric_product(
    kernel: Kernel, X: Float[Tensor, "n d"], V: Float[Tensor, "n r"], dtype: torch.dtype
) -> Float[Tensor, "n r"]:
    """Return K V in float64, with entries of K and the sums inside a tile in `dtype` and sums over tiles in float64.

    Half the kernel evaluations of a product by rows, and memory for a few tiles.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> X = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
        >>> symmetric_product(DotProduct(), X, torch.ones(2, 1, dtype=torch.float64), torch.float64)[:, 0]
        tensor([3., 6.], dtype=torch.float64)
    """
    working = V.to(dtype)

    def work(rows: slice, tiles: Iterator[tuple[slice, Tensor]]) -> tuple[int, Tensor]:
        part = torch.zeros(rows.stop, V.shape[1], dtype=torch.float64, device=V.device)
        for columns, tile in tiles:
            part[rows] += thin_product(tile, working[columns])
            if rows != columns:  # its mirror image above the diagonal
                part[columns] += transposed_thin_product(tile, working[rows])
        return rows.stop, part

    result = torch.zeros(V.shape, dtype=torch.float64, device=V.device)
    for stop, part in rows_of_tiles(kernel, X, dtype, min(TILE, PASSING), work):
        result[:stop] += part
    return result


def diagonal64(kernel: Kernel, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Return k(x_i, x_i) in float64, some rows at a time."""
    found = X.new_empty(len(X), dtype=torch.float64)  # parts kept in a list would hold memory between them
    for rows, place in zip(X.split(TILE), found.split(TILE), strict=True):
        place.copy_(kernel.diagonal(rows.to(torch.float64)))
    return found


class Tiles(Engine):
    """K formed again for every product: no memory beyond a few tiles, and the rows in the working precision."""

    name: ClassVar[str] = "tiles"

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], working: torch.dtype) -> None:
        self.kernel, self.X = kernel, X
        self.n, self.dtype, self.device = len(X), working, X.device

    @cached_property
    def working(self) -> tuple[Kernel, Float[Tensor, "n c"]]:
        """The kernel and the rows it is evaluated on, prepared once and in the working precision."""
        kernel, rows = prepared(self.kernel, self.X)
        return kernel, rows if self.X.nbytes > COPIED_BYTES else rows.to(self.dtype)

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V, entries in the working precision."""
        return symmetric_product(*self.working, V, self.dtype).to(V.dtype)

    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V, everything in float64."""
        return symmetric_product(self.kernel, self.X, V.to(torch.float64), torch.float64)

    def columns(self, index: Int[Tensor, " k"]) -> Float[Tensor, "n k"]:
        """Return k(X, x_index)."""
        kernel, X = self.working
        result, some = X.new_empty(len(index), self.n, dtype=self.dtype), X[index].to(self.dtype)
        for rows, place in zip(X.split(TILE), result.split(TILE, dim=1), strict=True):
            place.copy_(kernel.dense(some, rows.to(self.dtype)))
        return result.T

    def block(self, rows: Int[Tensor, " a"], columns: Int[Tensor, " b"]) -> Float[Tensor, "a b"]:
        """Return k(x_rows, x_columns)."""
        kernel, X = self.working
        left = X[rows].to(self.dtype)
        return kernel.dense(left, left if columns is rows else X[columns].to(self.dtype))

    def diagonal(self) -> Float[Tensor, " n"]:
        """Return k(x_i, x_i) in float64."""
        return self._own

    @cached_property
    def _own(self) -> Tensor:
        return diagonal64(self.kernel, self.X)
