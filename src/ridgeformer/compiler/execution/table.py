"""All sublayers of a model as one table of instructions, and running it: a few calls a pass, whatever its depth.

Values get places in a small workspace, which are used again as soon as nothing reads them any more. Attention patterns
between all tokens are formed by torch, at the places in the table where their scores are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.compiler.execution.fusing import Joined, Step, join
from ridgeformer.compiler.execution.kernel import PARTS, Code, carry_out
from ridgeformer.compiler.execution.literal import Reading
from ridgeformer.compiler.execution.tracing import Formed, Moved, Recorded, Tracing
from ridgeformer.compiler.execution.values import Made
from ridgeformer.core.compiled import compile_it
from ridgeformer.language.expressions import SMALLEST_DIVISOR
from ridgeformer.language.roles import QUERY, Role

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

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

    def tensor(self, places: list[int] | slice, tokens: slice) -> Tensor:
        """Return rows on some tokens, (rows, tokens); neighbours are not copied."""
        return torch.from_numpy(self.rows[places, tokens])

    def matrix(self, start: int, size: int, tokens: slice) -> Tensor:
        """Return rows of the matrix with `size` columns that begins at a place."""
        part = self.matrices[start + tokens.start * size : start + tokens.stop * size]
        return torch.from_numpy(part).view(-1, size)


class Copied(NamedTuple):
    """Features or targets that rows hold as they are, on the tokens of a role; zeros where `columns` is None."""

    span: slice
    places: list[int] | slice
    source: int
    columns: list[int] | slice | None


@dataclass(frozen=True)
class Stretch:
    """Instructions for one call of the kernel, with the terms of joined ones, then what torch does."""

    table: NDArray[np.int32]
    numbers: NDArray[Any]
    terms: NDArray[np.int32]
    factors: NDArray[Any]
    then: Callable[[Room], None] | None


@dataclass(eq=False)
class InstructionTable:
    """Instructions in place.

    Attributes:
        embed: For every role the columns of its embedding that are read, which stand in the first rows.
        copied: What they hold, if it is features and targets as they are; None if they are to be multiplied.
        fixed: Rows that depend on no data, which stand in the next ones and stay there.
        stretches: Instructions.
        recorded: What is stored, in order.
        stored: Numbers that are stored.
        rows, matrices: Rows, and numbers of matrices, that a run needs.
        scalars: Scalars as a run begins with them.
        total: Tokens.
    """

    embed: dict[str, Tensor]
    copied: list[Copied] | None
    fixed: NDArray[Any]
    stretches: tuple[Stretch, ...]
    recorded: tuple[Recorded, ...]
    stored: int
    rows: int
    matrices: int
    scalars: NDArray[Any]
    total: int
    rooms: list[Room] = field(default_factory=list)

    def run(self, model: CompiledTransformer, X: Tensor, y: Tensor, Xq: Tensor) -> Iterator[Reading]:
        """Run on checked supports, targets and queries of a model, tasks one by one; yield what the records read."""
        batch, kind = X.shape[:-2], self.scalars.dtype
        tasks = zip(X, y, Xq, strict=True) if batch else [(X, y, Xq)]
        out = np.empty((*batch, self.stored), kind)
        try:
            room = self.rooms.pop()  # two threads never get the same one
        except IndexError:
            rows, matrices = np.empty((self.rows, self.total), kind), np.empty(self.matrices, kind)
            inputs = next(iter(self.embed.values())).shape[1]
            rows[inputs : inputs + len(self.fixed)] = self.fixed
            room = Room(rows, np.empty_like(self.scalars), matrices)
        for given, into in zip(tasks, out.reshape(-1, self.stored), strict=True):
            self._carry_out(room, model, given, into)
        if room.rows.size + room.matrices.size <= LARGEST_KEPT:
            self.rooms.append(room)
        found = torch.from_numpy(out)
        for section, record, start, columns, length in self.recorded:
            part = found[..., start : start + columns * length]
            yield section, record, part.view(*batch, columns, length).mT.contiguous()

    def _carry_out(
        self, room: Room, model: CompiledTransformer, given: tuple[Tensor, Tensor, Tensor], out: NDArray[Any]
    ) -> None:
        """Run on one task; store what the records read."""
        room.scalars[:] = self.scalars
        if self.copied is None:
            stream = model.stream(*given, embed=self.embed).detach()
            room.rows[: stream.shape[1]] = stream.numpy().T
        for span, places, source, columns in self.copied or ():
            room.rows[places, span] = 0 if columns is None else given[source].detach().numpy().T[columns]
        least = self.scalars.dtype.type(SMALLEST_DIVISOR[given[0].dtype])
        kernel, work = compile_it(carry_out, *PARTS), (room.rows, room.scalars, room.matrices, out, least)
        for stretch in self.stretches:
            kernel(stretch.table, stretch.numbers, stretch.terms, stretch.factors, *work)
            if stretch.then is not None:
                stretch.then(room)


def tabulate(tracing: Tracing, dtype: np.dtype[Any]) -> InstructionTable | None:
    """Return instructions with places for their values; None if matrices or records are too large."""
    if tracing.stored > np.iinfo(np.int32).max:
        return None
    needed = join(_needed(tracing))
    spans = _spans(needed)
    last: dict[int, int] = {}
    for number, made in enumerate(needed):
        last.update(dict.fromkeys(made.reads, number))
    columns = [column for column, value in tracing.inputs.items() if value in last]
    fixed = [value for value in tracing.fixed if value in last]
    places = _Places(tracing, [tracing.inputs[column] for column in columns], fixed, last, spans)
    stretches, here = list[Stretch](), _Written()
    for number, made in enumerate(needed):
        if isinstance(made, Joined):
            here.add(places.put_joined(made, number, here), 0.0)
        elif isinstance(made, Made):
            here.add(places.put(made, number), made.c)
        else:
            stretches.append(here.stretch(dtype, places.external(made, number)))
            here = _Written()
    stretches.append(here.stretch(dtype, None))
    if places.matrices > LARGEST_MATRICES:
        return None
    scalars = np.zeros(places.counts["scalar"], dtype)
    for value, constant in tracing.constants.items():
        scalars[places.where[value]] = constant
    counts = places.counts["row"], places.matrices
    embed = {role: W[:, columns] for role, W in tracing.embed.items()}
    return InstructionTable(
        embed,
        _copied(embed, tracing),
        np.array([tracing.fixed[value] for value in fixed], dtype).reshape(-1, tracing.total),
        tuple(stretches),
        tuple(tracing.recorded),
        tracing.stored,
        *counts,
        scalars,
        tracing.total,
    )


def _copied(embed: dict[str, Tensor], tracing: Tracing) -> list[Copied] | None:
    """Return what the first rows hold, if none is a sum, a multiple or a square of what is given."""
    found = []
    features, outputs = tracing.features, tracing.outputs
    for role, W in embed.items():
        entries = W.numpy()
        if not np.isin(entries, (0, 1)).all() or entries[features + outputs :].any() or (entries.sum(0) > 1).any():
            return None
        span = tracing.tokens.rows(Role(role))
        ones = [(int(place), int(row)) for row, place in np.argwhere(entries)]
        queries = Role(role) == QUERY
        for low, high, source in ((0, features, 2 if queries else 0), (features, features + outputs, 1)):
            some = sorted((place, row - low) for place, row in ones if low <= row < high)
            if some and queries and source == 1:
                return None  # queries have no targets
            if some:
                places, columns = ([pair[side] for pair in some] for side in (0, 1))
                found.append(Copied(span, _neighbours(places), source, _neighbours(columns)))
        empty = sorted(set(range(entries.shape[1])) - {place for place, _ in ones})
        found += [Copied(span, _neighbours(empty), 0, None)] if empty else []
    return found


def _needed(tracing: Tracing) -> list[Made | Formed | Moved]:
    """Return the instructions that something stored depends on."""
    wanted: set[int] = set()
    found = []
    for made in reversed(tracing.made):
        if not made.writes or not wanted.isdisjoint(made.writes):
            wanted.update(made.reads)
            found.append(made)
    return found[::-1]


def _spans(needed: Sequence[Step]) -> dict[int, slice]:
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
            sources = made.whole or made.sources
            read(made.keys, sources.start, sources.stop)
        elif isinstance(made, Moved):
            read((made.pattern,), first, last)
            read(made.values, made.sources.start, made.sources.stop)
        elif isinstance(made, Joined):
            low, high = (0, 0) if made.code == Code.DOTS else (first, last)
            within = (made.low, made.high) if made.code == Code.DOTS else (max(made.low, low), min(made.high, high))
            read(made.rows, *within)
            read((made.base,), low, high)
        elif made.code == Code.WEIGH:
            read((made.a,), made.low, made.high)
            read((made.base, made.b), first, last)
        elif made.code < Code.SUM:
            read((made.a, made.b), max(made.low, first), min(made.high, last))
            read((made.base,), first, last)
        else:
            read((made.base, made.a, made.b), made.low, made.high)
    return found


class _Written:
    """A stretch of instructions that is being written."""

    def __init__(self) -> None:
        self.codes, self.numbers = list[tuple[int, ...]](), list[float]()
        self.terms, self.factors = list[tuple[int, int]](), list[float]()

    def add(self, code: tuple[int, ...], number: float) -> None:
        """Add an instruction."""
        self.codes.append(code)
        self.numbers.append(number)

    def stretch(self, dtype: np.dtype[Any], then: Callable[[Room], None] | None) -> Stretch:
        """Return what was written."""
        table, terms = np.array(self.codes, np.int32).reshape(-1, 10), np.array(self.terms, np.int32).reshape(-1, 2)
        return Stretch(table, np.array(self.numbers, dtype), terms, np.array(self.factors, dtype), then)


class _Places:
    """Which row, scalar or stretch of the matrices every value stands in."""

    def __init__(
        self,
        tracing: Tracing,
        given: Sequence[int],
        fixed: Sequence[int],
        last: dict[int, int],
        spans: dict[int, slice],
    ) -> None:
        self.tracing, self.last, self.spans = tracing, last, spans
        self.where: dict[int, int] = {}
        self.counts = {"row": 0, "scalar": 0}
        self.free: dict[object, list[int]] = {"row": [], "scalar": []}
        self.matrices = 0
        for value in tracing.constants:
            self.take(value)
            self.last[value] = len(tracing.made)  # constants stay
        for value in (*given, *fixed):
            self.take(value)
        self.last.update(dict.fromkeys(fixed, len(tracing.made)))  # so do fixed rows

    def _size(self, value: int) -> int | None:
        """Return the columns of a matrix."""
        formed = self.tracing.patterns.get(value)
        return None if formed is None else formed.sources.stop - formed.sources.start

    def take(self, value: int) -> int:
        """Give a value a place."""
        kind: object = self.tracing.kinds[value]
        size = self._size(value)
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
                kind: object = self._size(value) or self.tracing.kinds[value]
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
        if code == Code.WEIGH:
            start, stride = self.tracing.patterns[b].sources.start, self._size(b)
            return code, place, *read[:2], read[2] + low - start, low, high, own.start, own.stop, stride
        return code, place, *read, low, high, own.start, own.stop, 0

    def put_joined(self, made: Joined, number: int, here: _Written) -> tuple[int, ...]:
        """Return a joined instruction with places instead of values; its terms are written down."""
        base, begin, dots = made.base, len(here.terms), made.code == Code.DOTS
        read = {value: self.where[value] for value in made.reads}
        place, kept = read.get(made.a, -1), -1
        if dots:
            into = [self.take(value) for value in made.to]
        elif base >= 0 and self._ends(base, number) and base not in made.rows and self._alike(base, made.to[0]):
            place, kept = read[base], base
            self.where[made.to[0]] = place
        else:
            place = self.take(made.to[0])
        for a, b, c in made.terms:
            here.terms.append((read[a], into[b] if dots else read[b]))
            here.factors.append(c)
        self.release(made.reads, number, kept)
        self.release(made.writes, number)
        own = slice(0, 0) if dots else self.spans.get(made.to[0], slice(0, 0))
        low, high = made.low, made.high
        if not dots:
            low, high = max(low, own.start), max(min(high, own.stop), low, own.start)
        return made.code, place, read.get(base, -1), begin, len(here.terms), low, high, own.start, own.stop, 0

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
            queries, keys = (_neighbours([read[value] for value in side]) for side in (made.queries, made.keys))
            start, size, everyone = into[0], self._size(made.to) or 0, slice(0, self.tracing.total)

            def form(room: Room) -> None:
                made.form(room.tensor(queries, some), room.tensor(keys, everyone), room.matrix(start, size, some), some)

            return form
        start, size = read[made.pattern], self._size(made.pattern) or 0
        values, to = _neighbours([read[value] for value in made.values]), _neighbours(into)

        def move(room: Room) -> None:
            room.rows[to, some] = (room.tensor(values, made.sources) @ room.matrix(start, size, some).mT).numpy()

        return move


def _neighbours(places: list[int]) -> list[int] | slice:
    """Return places as a slice if they follow one another."""
    first = places[0] if places else 0
    return slice(first, first + len(places)) if places == list(range(first, first + len(places))) else places
