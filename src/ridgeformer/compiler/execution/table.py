"""All sublayers of a model as one table of instructions, and running it: a few calls a pass, whatever its depth.

Values get places in a small workspace, which are used again as soon as nothing reads them any more. Attention patterns
between all tokens are formed by torch, at the places in the table where their scores are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.compiler.execution.kernel import Code, carry_out
from ridgeformer.compiler.execution.literal import Reading
from ridgeformer.compiler.execution.tracing import Formed, Made, Moved, Recorded, Tracing
from ridgeformer.core.compiled import compile_it
from ridgeformer.language.expressions import SMALLEST_DIVISOR

__all__ = ["InstructionTable", "tabulate"]

LARGEST_KEPT = 2**22
"""Numbers that a workspace may have to be kept for the next run: 32 MB."""

LARGEST_MATRICES = 2**28
"""Numbers that the attention patterns of a table may have at once."""


@dataclass(eq=False)
class Room:
    """Rows, scalars and matrices that a run works on."""

    rows: NDArray[Any]
    scalars: NDArray[Any]
    matrices: NDArray[Any]

    def tensor(self, places: Sequence[int], tokens: slice) -> Tensor:
        """Return rows, on some tokens, as columns: (tokens, rows)."""
        return torch.from_numpy(self.rows[list(places), tokens]).mT

    def matrix(self, start: int, size: int, tokens: slice) -> Tensor:
        """Return rows of the matrix with `size` columns that begins at a place."""
        part = self.matrices[start + tokens.start * size : start + tokens.stop * size]
        return torch.from_numpy(part).view(-1, size)


@dataclass(frozen=True)
class Stretch:
    """Instructions for one call of the kernel, then what torch does."""

    table: NDArray[np.int32]
    numbers: NDArray[Any]
    then: Callable[[Room], None] | None


@dataclass(eq=False)
class InstructionTable:
    """Instructions in place.

    Attributes:
        columns: Columns of the embedding that they read, which stand in the first rows.
        stretches: Instructions.
        recorded: What is stored, in order.
        stored: Numbers that are stored.
        rows, matrices: Rows, and numbers of matrices, that a run needs.
        scalars: Scalars as a run begins with them.
        total: Tokens.
    """

    columns: list[int]
    stretches: tuple[Stretch, ...]
    recorded: tuple[Recorded, ...]
    stored: int
    rows: int
    matrices: int
    scalars: NDArray[Any]
    total: int
    rooms: list[Room] = field(default_factory=list)

    def run(self, stream: Tensor) -> Iterator[Reading]:
        """Run on the columns it reads, (tokens, columns); yield what the records read."""
        kind = self.scalars.dtype
        try:
            room = self.rooms.pop()  # two threads never get the same one
        except IndexError:
            rows, matrices = np.empty((self.rows, self.total), kind), np.empty(self.matrices, kind)
            room = Room(rows, np.empty_like(self.scalars), matrices)
        room.scalars[:] = self.scalars
        room.rows[: len(self.columns)] = stream.numpy().T
        out, least = np.empty(self.stored, kind), kind.type(SMALLEST_DIVISOR[stream.dtype])
        kernel = compile_it(carry_out)
        for stretch in self.stretches:
            kernel(stretch.table, stretch.numbers, room.rows, room.scalars, room.matrices, out, least)
            if stretch.then is not None:
                stretch.then(room)
        if room.rows.size + room.matrices.size <= LARGEST_KEPT:
            self.rooms.append(room)
        found = torch.from_numpy(out)
        for section, record, start, columns, length in self.recorded:
            yield section, record, found[start : start + columns * length].view(columns, length).mT.contiguous()


def tabulate(tracing: Tracing, dtype: np.dtype[Any]) -> InstructionTable | None:
    """Return instructions with places for their values; None if matrices or records are too large."""
    if tracing.stored > np.iinfo(np.int32).max:
        return None
    needed = _needed(tracing)
    spans = _spans(needed)
    last: dict[int, int] = {}
    for number, made in enumerate(needed):
        last.update(dict.fromkeys(made.reads, number))
    columns = [column for column, value in tracing.inputs.items() if value in last]
    places = _Places(tracing, columns, last, spans)
    stretches, codes, numbers = list[Stretch](), list[tuple[int, ...]](), list[float]()
    for number, made in enumerate(needed):
        if isinstance(made, Made):
            codes.append(places.put(made, number))
            numbers.append(made.c)
        else:
            stretches.append(_stretch(codes, numbers, dtype, places.external(made, number)))
            codes, numbers = [], []
    stretches.append(_stretch(codes, numbers, dtype, None))
    if places.matrices > LARGEST_MATRICES:
        return None
    scalars = np.zeros(places.counts["scalar"], dtype)
    for value, constant in tracing.constants.items():
        scalars[places.where[value]] = constant
    counts = places.counts["row"], places.matrices
    return InstructionTable(
        columns, tuple(stretches), tuple(tracing.recorded), tracing.stored, *counts, scalars, tracing.total
    )


def _needed(tracing: Tracing) -> list[Made | Formed | Moved]:
    """Return the instructions that something stored depends on."""
    wanted: set[int] = set()
    found = []
    for made in reversed(tracing.made):
        if not made.writes or not wanted.isdisjoint(made.writes):
            wanted.update(made.reads)
            found.append(made)
    return found[::-1]


def _spans(needed: Sequence[Made | Formed | Moved]) -> dict[int, slice]:
    """Return the tokens on which something reads each row, or each row of a matrix: queries need no support's answer.

    It is one span that holds all of them.
    """
    found: dict[int, slice] = {}

    def read(values: Sequence[int], low: int, high: int) -> None:
        for value in values if low < high else ():
            held = found.get(value, slice(low, high))
            found[value] = slice(min(held.start, low), max(held.stop, high))

    for made in reversed(needed):
        own = [found[value] for value in made.writes if value in found]
        first, last = min((s.start for s in own), default=0), max((s.stop for s in own), default=0)
        if isinstance(made, Formed):
            read(made.queries, first, last)
            read(made.keys, made.sources.start, made.sources.stop)
        elif isinstance(made, Moved):
            read((made.pattern,), first, last)
            read(made.values, made.sources.start, made.sources.stop)
        elif made.code == Code.WEIGH:
            read((made.a,), made.low, made.high)
            read((made.base, made.b), first, last)
        elif made.code < Code.SUM:
            read((made.a, made.b), max(made.low, first), min(made.high, last))
            read((made.base,), first, last)
        else:
            read((made.base, made.a, made.b), made.low, made.high)
    return found


def _stretch(
    codes: list[tuple[int, ...]], numbers: list[float], dtype: np.dtype[Any], then: Callable[[Room], None] | None
) -> Stretch:
    return Stretch(np.array(codes, np.int32).reshape(-1, 9), np.array(numbers, dtype), then)


class _Places:
    """Which row, scalar or stretch of the matrices every value stands in."""

    def __init__(self, tracing: Tracing, columns: Sequence[int], last: dict[int, int], spans: dict[int, slice]) -> None:
        self.tracing, self.last, self.spans = tracing, last, spans
        self.where: dict[int, int] = {}
        self.counts = {"row": 0, "scalar": 0}
        self.free: dict[object, list[int]] = {"row": [], "scalar": []}
        self.matrices = 0
        for value in tracing.constants:
            self.take(value)
            self.last[value] = len(tracing.made)  # constants stay
        for column in columns:
            self.take(tracing.inputs[column])

    def take(self, value: int) -> int:
        """Give a value a place."""
        kind: object = self.tracing.kinds[value]
        size = self.tracing.sizes.get(value)
        if size is not None:
            kind = size
        free = self.free.setdefault(kind, [])
        if free:
            self.where[value] = free.pop()
        elif size is not None:
            self.where[value] = self.matrices
            self.matrices += size * self.tracing.total
        else:
            self.where[value] = self.counts[str(kind)]
            self.counts[str(kind)] += 1
        return self.where[value]

    def release(self, values: Sequence[int], number: int, kept: int = -1) -> None:
        """Let the places of values go that nothing reads after instruction `number`, or at all."""
        for value in set(values):
            if self.last.get(value, -1) <= number and value != kept:
                kind: object = self.tracing.sizes.get(value, self.tracing.kinds[value])
                self.free.setdefault(kind, []).append(self.where[value])

    def put(self, made: Made, number: int) -> tuple[int, ...]:
        """Return an instruction with places instead of values."""
        code, to, base, a, b, low, high, _ = made
        read = [self.where[value] if value >= 0 else -1 for value in (base, a, b)]
        kept = -1
        if not made.writes:
            place = to
        elif base >= 0 and self._ends(base, number) and base not in (a, b) and self._alike(base, to):
            place, kept = self.where[base], base
            self.where[to] = place
        else:
            place = self.take(to)
        self.release(made.reads, number, kept)
        if made.writes:
            self.release(made.writes, number)
        own = self.spans.get(to, slice(0, 0)) if made.writes else slice(0, 0)
        if code < Code.WEIGH:
            low, high = max(low, own.start), max(min(high, own.stop), low, own.start)
        return code, place, *read, low, high, own.start, own.stop

    def _ends(self, value: int, number: int) -> bool:
        return self.last[value] <= number

    def _alike(self, value: int, other: int) -> bool:
        return self.tracing.kinds[value] == self.tracing.kinds[other]

    def external(self, made: Formed | Moved, number: int) -> Callable[[Room], None]:
        """Return what torch does, with places instead of values."""
        read = {value: self.where[value] for value in made.reads}
        into = [self.take(value) for value in made.writes]
        self.release(made.reads, number)
        self.release(made.writes, number)
        own = [self.spans[value] for value in made.writes if value in self.spans]
        some = slice(min((span.start for span in own), default=0), max((span.stop for span in own), default=0))
        if isinstance(made, Formed):
            queries, keys = ([read[value] for value in side] for side in (made.queries, made.keys))
            start, size, everyone = into[0], self.tracing.sizes[made.to], slice(0, self.tracing.total)

            def form(room: Room) -> None:
                made.form(room.tensor(queries, some), room.tensor(keys, everyone), room.matrix(start, size, some), some)

            return form
        start, size = read[made.pattern], self.tracing.sizes[made.pattern]
        values = [read[value] for value in made.values]

        def move(room: Room) -> None:
            room.rows[into, some] = (room.matrix(start, size, some) @ room.tensor(values, made.sources)).mT.numpy()

        return move
