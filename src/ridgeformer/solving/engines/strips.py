"""K V from the tiles on and below the diagonal: every tile is read once and gives two products, T v and T'w.

Libraries multiply a matrix by a few columns at a third of their usual speed: they copy it into another order first, and
once more where it is used transposed. Where Numba is installed, five rows of a tile are read at a time and each entry
goes into both sums from there; elsewhere the products are PyTorch's, which takes about twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from ridgeformer.core.compiled import LARGE, LINE, compile_it, prefetch, worthwhile

__all__ = ["STRIP", "by_strips", "by_torch", "describe", "symmetric_rows"]

STRIP = 5
"""Rows at a time: their sums, their factors and what is read fill the registers of a core."""

SEVERAL = 4
"""Columns from which it pays to fetch rows before they are needed."""

RUN = 2
"""Tiles that PyTorch multiplies at a time, where they need not be summed first."""


def describe(n: int, device: torch.device) -> tuple[str, ...]:
    """Return, for a plan, by what products with n rows are computed; nothing where there is no choice."""
    if device.type != "cpu" or n**2 < LARGE:
        return ()
    if worthwhile(n):
        return ("both products with a tile are computed in one reading of it, compiled by Numba",)
    return ("Numba would halve the time of products: pip install 'ridgeformer[fast]'",)


def symmetric_rows(tiles: Sequence[Shaped[Tensor, "_ s s"]], V: Float[Tensor, "t r s"]) -> Float[Tensor, "t r s"]:
    """Return K V in float64, given the tiles of K on and below the diagonal.

    Sums inside a tile are in the precision of V, sums over tiles in float64 and in a fixed order: the number of
    threads changes nothing. Row i has i + 1 tiles of floats or whole numbers, whose size is a multiple of `STRIP`; the
    columns of tile j are the rows of V[j].

    Example:
        >>> K = torch.arange(100.0).reshape(10, 10)
        >>> K = K + K.T
        >>> tiles = [K[:5, :5].contiguous()[None], torch.stack([K[5:, :5], K[5:, 5:]])]
        >>> symmetric_rows(tiles, torch.ones(2, 1, 5)).reshape(10).tolist() == K.sum(1).tolist()
        True
    """
    by = by_strips if V.device.type == "cpu" and worthwhile(V[:, 0].numel()) else by_torch
    return by(tiles, V)


def by_torch(tiles: Sequence[Tensor], V: Tensor) -> Tensor:
    """Return what `symmetric_rows` does, by PyTorch's products."""
    result = torch.zeros(V.shape, dtype=torch.float64, device=V.device)
    whole = tiles[0].dtype == V.dtype
    run = RUN if whole else 1
    room = V.new_empty(0 if whole else V.shape[2] ** 2)  # for all tiles in turn: fresh memory costs more than copying
    for i in range(len(V)):
        for some in (slice(j, min(j + run, i + 1)) for j in range(0, i + 1, run)):
            these = tiles[i][some]
            if not whole:
                these = room.view(these.shape).copy_(these)
            result[i] += torch.bmm(V[some], these.transpose(1, 2)).sum(0)
            these = these[: i - some.start]  # the one on the diagonal is its own mirror image
            result[some.start : min(some.stop, i)] += torch.bmm(V[i].expand(len(these), *V[i].shape), these)
    return result


def by_strips(tiles: Sequence[Tensor], V: Tensor) -> Tensor:
    """Return what `symmetric_rows` does, by Numba: rows of tiles go to threads, the longest first.

    All is NumPy inside, as PyTorch would start threads of its own.
    """
    add, columns = compile_it(add_both), V.numpy()

    def work(i: int) -> tuple[Any, Any]:
        across, down = np.zeros(columns[i].shape), np.zeros_like(columns[: i + 1])
        add(tiles[i].numpy(), columns[: i + 1], columns[i], across, down)
        return across, down

    result, order = np.zeros(columns.shape), range(len(columns) - 1, -1, -1)
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        for i, (across, down) in zip(order, threads.map(work, order), strict=True):
            result[i] += across
            result[:i] += down[:i]  # the one on the diagonal is its own mirror image
    return torch.from_numpy(result)


def add_both(tiles: Any, right: Any, left: Any, across: Any, down: Any) -> None:
    """Add right_t T_t' to `across` and left T_t to `down_t` for every tile T_t; all are NumPy arrays.

    Example:
        >>> T, across, down = np.arange(25.0).reshape(1, 5, 5), np.zeros((1, 5)), np.zeros((1, 1, 5))
        >>> add_both(T, np.ones((1, 1, 5)), np.ones((1, 5)), across, down)
        >>> across[0].tolist() == T[0].sum(1).tolist(), down[0, 0].tolist() == T[0].sum(0).tolist()
        (True, True)
    """
    numbers, width = tiles.reshape(-1), tiles.shape[2]
    # of the next rows, fetched beside each column; with few columns there is no time for it
    share = LINE * -(-STRIP * width // (LINE * left.shape[0])) if left.shape[0] >= SEVERAL else 0
    for t in range(tiles.shape[0]):
        tile = tiles[t]
        for i in range(0, tile.shape[0], STRIP):
            ahead = (t * tile.shape[0] + i + STRIP) * width
            row0, row1, row2, row3, row4 = tile[i], tile[i + 1], tile[i + 2], tile[i + 3], tile[i + 4]
            for c in range(left.shape[0]):
                for place in range(ahead + c * share, ahead + (c + 1) * share, LINE):
                    prefetch(numbers, place)
                v, below = right[t, c], down[t, c]
                w0, w1, w2, w3, w4 = left[c, i], left[c, i + 1], left[c, i + 2], left[c, i + 3], left[c, i + 4]
                sum0 = sum1 = sum2 = sum3 = sum4 = left.dtype.type(0)
                for j in range(tile.shape[1]):
                    sum0 += row0[j] * v[j]
                    sum1 += row1[j] * v[j]
                    sum2 += row2[j] * v[j]
                    sum3 += row3[j] * v[j]
                    sum4 += row4[j] * v[j]
                    below[j] += row0[j] * w0 + row1[j] * w1 + row2[j] * w2 + row3[j] * w3 + row4[j] * w4
                across[c, i] += sum0
                across[c, i + 1] += sum1
                across[c, i + 2] += sum2
                across[c, i + 3] += sum3
                across[c, i + 4] += sum4
