"""K V from the tiles on and below the diagonal: every tile is read once and gives two products, T v and T'w.

Libraries multiply a matrix by a few columns at a third of their usual speed: they copy it into another order first, and
once more where it is used transposed. Where Numba is installed, five rows of a tile and two columns are read at a time
and each entry goes into both sums from there, given to it as vector instructions; elsewhere the products are PyTorch's,
which takes about twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from inspect import unwrap
from math import ceil
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from ridgeformer.core.compiled import LARGE, compile_it, worthwhile
from ridgeformer.solving.engines.panels import Vectors, registers

__all__ = ["STRIP", "by_strips", "by_torch", "describe", "symmetric_rows"]

STRIP, PAIR = 5, 2
"""Rows and columns at a time: their sums and what is read fill the registers of a core."""

UNIT = 80
"""What the rows of a tile are a multiple of: whole strips, and whole vectors."""

AHEAD = 2 * STRIP
"""Rows from those that are worked on to the ones fetched meanwhile."""

GROUP = 8
"""Tiles after which sums are added up in float64: those down a tile have as many terms."""

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

    Sums inside a tile, or over `GROUP` of them, are in the precision of V, those over more in float64. Compiled by
    Numba, their order is fixed: the number of threads changes nothing. Row i has i + 1 tiles of floats or whole
    numbers; the columns of tile j are the rows of V[j]. Tiles whose size is no multiple of `UNIT` are PyTorch's.

    Example:
        >>> K = torch.arange(25600.0).reshape(160, 160)
        >>> K = K + K.T
        >>> tiles = [K[:80, :80].contiguous()[None], torch.stack([K[80:, :80], K[80:, 80:]])]
        >>> symmetric_rows(tiles, torch.ones(2, 1, 80)).reshape(160).tolist() == K.sum(1).tolist()
        True
    """
    whole = V.device.type == "cpu" and V.shape[2] % UNIT == 0
    return (by_strips if whole and worthwhile(V[:, 0].numel()) else by_torch)(tiles, V)


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
    teach_strips()
    add, columns = compile_it(add_both), V.numpy()
    lanes, pairs = registers(columns.dtype)[0], ceil(columns.shape[1] / PAIR)
    fetched = tuple(range(AHEAD, AHEAD + max(1, ceil(STRIP / max(1, pairs)))))
    spare: list[tuple[Any, Any, Any]] = []  # fresh memory for every row of tiles would cost a tenth of the time

    def work(i: int) -> tuple[Any, Any, Any]:
        try:
            across, down, room = spare.pop()
        except IndexError:
            across, down = np.empty(columns[i].shape), np.empty_like(columns)
            room = np.empty((*across.shape, lanes), columns.dtype)
        across[:], down[: i + 1] = 0, 0
        for some in (slice(j, min(j + GROUP, i + 1)) for j in range(0, i + 1, GROUP)):
            add(columns[some], columns[i], tiles[i][some].numpy(), fetched, room, across, down[some])
        return across, down, room

    result, order = np.zeros(columns.shape), range(len(columns) - 1, -1, -1)
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        for i, found in zip(order, threads.map(work, order), strict=True):
            result[i] += found[0]
            compile_it(add_to)(result[:i], found[1][:i])  # the one on the diagonal is its own mirror image
            spare.append(found)
    return torch.from_numpy(result)


def add_to(total: Any, part: Any) -> None:
    """Add an array of three dimensions to another, which NumPy would convert first.

    Example:
        >>> total = np.ones((1, 1, 2))
        >>> add_to(total, np.ones((1, 1, 2), dtype="float32"))
        >>> total.tolist()
        [[[2.0, 2.0]]]
    """
    for t in range(total.shape[0]):
        for c in range(total.shape[1]):
            for j in range(total.shape[2]):
                total[t, c, j] += part[t, c, j]


def add_both(right: Any, left: Any, tiles: Any, fetched: Any, room: Any, across: Any, down: Any) -> None:
    """Add the sum of right_t T_t' to `across`, and left T_t to `down_t` for every tile T_t; compiled only.

    All are NumPy arrays, but `fetched`, a tuple of the rows, counted from those worked on, that memory is asked for
    beside the first pair of columns; each pair goes on from there. In `room` is a vector for each number of `across`,
    whose parts are added up at the end.
    """
    size, columns = tiles.shape[1], left.shape[0]
    room[:] = 0
    for t in range(tiles.shape[0]):
        for i in range(0, size, STRIP):
            for c in range(0, columns, PAIR):
                ahead = t * size + i + c // PAIR * len(fetched)
                if c + PAIR <= columns:
                    add_strip(right, left, tiles, fetched, room, down, t, i, c, ahead)
                else:
                    add_column(right, left, tiles, fetched, room, down, t, i, c, ahead)
    for c in range(columns):
        for i in range(size):
            for lane in range(room.shape[2]):
                across[c, i] += room[c, i, lane]


def add_strip(
    right: Any, left: Any, tiles: Any, fetched: Any, room: Any, down: Any, t: int, i: int, c: int, ahead: int
) -> None:
    """Add both products of `STRIP` rows of tile t, from row i on, with `PAIR` columns from c on; compiled only."""


def add_column(
    right: Any, left: Any, tiles: Any, fetched: Any, room: Any, down: Any, t: int, i: int, c: int, ahead: int
) -> None:
    """Do what `add_strip` does with one column; compiled only."""


@cache
def teach_strips() -> None:
    """Tell Numba what `add_strip` and `add_column` compile to."""
    from numba import types
    from numba.extending import intrinsic, overload

    def teach(function: Any, count: int) -> None:
        def instructions(
            _: Any,
            right: Any,
            left: Any,
            tiles: Any,
            fetched: Any,
            room: Any,
            down: Any,
            t: Any,
            i: Any,
            c: Any,
            n: Any,
        ) -> Any:
            assert all(array.layout == "C" for array in (right, left, tiles, room, down)), "all must be contiguous"
            signature = types.void(right, left, tiles, fetched, room, down, *[types.intp] * 4)
            return signature, partial(unwrap(emit_strip), count)

        compiles_to: Any = intrinsic(unwrap(instructions))
        overload(function)(
            lambda right, left, tiles, fetched, room, down, t, i, c, ahead: (
                lambda right, left, tiles, fetched, room, down, t, i, c, ahead: compiles_to(
                    right, left, tiles, fetched, room, down, t, i, c, ahead
                )
            )
        )

    teach(add_strip, PAIR)
    teach(add_column, 1)


def emit_strip(count: int, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the vector instructions of `add_strip` for `count` columns.

    Each vector asks for a line or a few of memory: all of them at once would fill the places that a core has for
    memory on its way.
    """
    from numba.core import cgutils

    use = Vectors(context, builder, signature, arguments)
    index, joined = use.index, use.library("fmuladd", 3)
    right, left, tiles, room, down = (use.array(place) for place in (0, 1, 2, 4, 5))
    t, i, c, ahead = arguments[6:]
    fetched = cgutils.unpack_tuple(builder, arguments[3])  # type: ignore[no-untyped-call]
    columns, size = use.shape(left)
    across = [builder.mul(builder.add(c, index(k)), size) for k in range(count)]
    beside = [builder.add(builder.mul(builder.mul(t, columns), size), place) for place in across]
    start = builder.mul(builder.add(builder.mul(t, size), i), size)
    rows = [use.at(tiles.data, start, builder.mul(size, index(k))) for k in range(STRIP)]
    factors = [
        [use.everywhere(builder.load(use.at(left.data, place, i, index(k)))) for k in range(STRIP)] for place in across
    ]
    sums = [[cgutils.alloca_once(builder, use.vector) for _ in range(STRIP)] for _ in range(count)]  # type: ignore[no-untyped-call]
    for place in (place for each in sums for place in each):
        builder.store(use.constant(0.0), place)
    kind = np.dtype(signature.args[2].dtype.name)
    with cgutils.for_range(builder, builder.udiv(size, index(use.lanes))) as loop:
        j = builder.mul(loop.index, index(use.lanes))
        for more in fetched:
            use.fetch(use.at(tiles.data, builder.mul(builder.add(ahead, more), size), j))
        v = [use.read(use.at(right.data, place, j)) for place in beside]
        below = [use.read(use.at(down.data, place, j)) for place in beside]
        for k, row in enumerate(rows):
            numbers = use.read(use.at(row, j), kind)
            for n in range(count):
                total = builder.call(joined, [numbers, v[n], builder.load(sums[n][k])])
                builder.store(total, sums[n][k])
                below[n] = builder.call(joined, [numbers, factors[n][k], below[n]])
        for n in range(count):
            use.write(below[n], use.at(down.data, beside[n], j))
    for n in range(count):
        for k in range(STRIP):
            place = use.at(room.data, builder.mul(builder.add(builder.add(across[n], i), index(k)), index(use.lanes)))
            use.write(builder.fadd(use.read(place), builder.load(sums[n][k])), place)
    return context.get_dummy_value()
