"""From the plans of all sublayers to one list of instructions, in which every value is made once and never changed.

The whole schedule is followed once, for a sequence of a given length: which value each column of the stream holds after
every sublayer is known from the weights alone. The same instruction on the same values is there once, so an attention
pattern that no step changes is formed once, and what nothing reads is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from ridgeformer.compiler.execution.kernel import Code
from ridgeformer.compiler.execution.operations import Operation, Update, Where
from ridgeformer.compiler.execution.plans import AttentionPlan, GatedPlan, HeadPlan
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.language.program import Record
from ridgeformer.language.roles import Tokens

if TYPE_CHECKING:
    from ridgeformer.compiler.execution.fast import Move
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["Formed", "Made", "Moved", "Recorded", "Tracing", "trace_weights"]

ZERO, ONE = 0, 1
"""Values that are there from the start: the scalars 0 and 1."""

Kind = Literal["row", "scalar", "matrix"]


class Made(NamedTuple):
    """An instruction of the kernel: which value it makes of which; -1 is none. Stores make no value but a place."""

    code: Code
    to: int
    base: int
    a: int
    b: int
    low: int
    high: int
    c: float

    @property
    def reads(self) -> tuple[int, ...]:
        """Values it reads."""
        return tuple(value for value in (self.base, self.a, self.b) if value >= 0)

    @property
    def writes(self) -> tuple[int, ...]:
        """Values it makes."""
        return () if self.code in (Code.STORE, Code.SPREAD) else (self.to,)


@dataclass(frozen=True, eq=False)
class Formed:
    """An attention pattern of a head, formed by torch: queries and keys are values with the weights they meet."""

    to: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    W_Q: Tensor
    W_K: Tensor
    sources: slice
    allowed: Tensor | None
    softmax: bool
    idle: tuple[slice, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        """Values it reads."""
        return (*self.queries, *self.keys)

    @property
    def writes(self) -> tuple[int, ...]:
        """Values it makes."""
        return (self.to,)

    def form(self, Q: Tensor, K: Tensor, into: Tensor, readers: slice) -> None:
        """Write the pattern of some readers' queries (r, m) and keys (tokens, n) into (r, sources)."""
        scores = (Q @ self.W_Q) @ (K[self.sources] @ self.W_K).mT
        allowed = None if self.allowed is None else self.allowed[readers]
        if not self.softmax:
            assert allowed is not None
            torch.where(allowed, scores, scores.new_zeros(()), out=into)
            return
        if allowed is None:
            torch.softmax(scores, -1, out=into)
        else:
            anyone = allowed.any(-1, keepdim=True)
            shut = torch.where(anyone, ~allowed, False)
            torch.mul(scores.masked_fill(shut, -torch.inf).softmax(-1), anyone, out=into)
        for span in self.idle:
            into[max(span.start - readers.start, 0) : max(span.stop - readers.start, 0)] = 0.0


@dataclass(frozen=True)
class Moved:
    """A pattern times several rows at once, by torch."""

    to: tuple[int, ...]
    pattern: int
    values: tuple[int, ...]
    sources: slice

    @property
    def reads(self) -> tuple[int, ...]:
        """Values it reads."""
        return (self.pattern, *self.values)

    @property
    def writes(self) -> tuple[int, ...]:
        """Values it makes."""
        return self.to


class Recorded(NamedTuple):
    """Where the numbers of a record begin, column by column, among those that are stored."""

    section: str
    record: Record
    start: int
    columns: int
    length: int


@dataclass
class Tracing:
    """What is known while the schedule is followed.

    Attributes:
        total: Tokens of the sequence.
        kinds: The kind of every value.
        inputs: Column of the embedding to the value it has given.
        constants: Scalars that are known beforehand.
        made: Instructions in order.
        held: The value that every column holds now.
        sizes: Columns of every matrix.
    """

    total: int
    kinds: list[Kind] = field(default_factory=lambda: ["scalar", "scalar"])
    inputs: dict[int, int] = field(default_factory=dict)
    constants: dict[int, float] = field(default_factory=lambda: {ZERO: 0.0, ONE: 1.0})
    made: list[Made | Formed | Moved] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    recorded: list[Recorded] = field(default_factory=list)
    stored: int = 0
    known: dict[tuple[object, ...], int] = field(default_factory=dict)

    # -- values ------------------------------------------------------------------------------------

    def value(self, kind: Kind) -> int:
        """Return a new value."""
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def make(self, code: Code, c: float, base: int, a: int, b: int, low: int = 0, high: int | None = None) -> int:
        """Return the value of an instruction, added unless the same is there."""
        high = self.total if high is None else high
        key = (code, c, base, a, b, low, high)
        if key not in self.known:
            to = self.value("scalar" if Code.SUM <= code <= Code.SQUASH else "row")
            self.made.append(Made(code, to, base, a, b, low, high, c))
            self.known[key] = to
        return self.known[key]

    def is_row(self, value: int) -> bool:
        """Whether tokens may hold different numbers."""
        return self.kinds[value] == "row"

    def row(self, value: int) -> int:
        """Return a value as a row."""
        return value if self.is_row(value) else self.make(Code.FILL, 1.0, -1, value, ONE)

    def combine(self, columns: Sequence[int], weights: Sequence[float], before: Sequence[int]) -> int:
        """Return a sum of multiples of columns."""
        total = ZERO
        for column, weight in zip(columns, weights, strict=True):
            if weight == 1.0 and total == ZERO:
                total = before[column]
            elif weight != 0.0:
                total = self.product(total, weight, (before[column],))
        return total

    def product(self, base: int, c: float, factors: Sequence[int], where: Where = None) -> int:
        """Return base + c times the factors."""
        rows, numbers = [v for v in factors if self.is_row(v)], [v for v in factors if not self.is_row(v) and v != ONE]
        while len(numbers) > (1 if rows else 2):
            numbers[:2] = [self.make(Code.TIMES, 1.0, ZERO, numbers[0], numbers[1])]
        while len(rows) > 2:
            rows[:2] = [self.make(Code.MULTIPLY, 1.0, -1, rows[0], rows[1])]
        if len(rows) == 2 and numbers:
            rows[0], numbers = self.make(Code.SCALE, 1.0, -1, rows[0], numbers[0]), []
        numbers += [ONE] * (2 - len(numbers))
        if not rows:
            if where is None and not self.is_row(base):
                return self.make(Code.TIMES, c, base, numbers[0], numbers[1])
            both = numbers[0] if numbers[1] == ONE else self.make(Code.TIMES, 1.0, ZERO, numbers[0], numbers[1])
            return self.onto(Code.FILL, c, base, both, ONE, where)
        if len(rows) == 1:
            return self.onto(Code.SCALE, c, base, rows[0], numbers[0], where)
        return self.onto(Code.MULTIPLY, c, base, rows[0], rows[1], where)

    def onto(self, code: Code, c: float, base: int, a: int, b: int, where: Where) -> int:
        """Return the row base + ... on some tokens or on all."""
        if where is None:
            return self.make(code, c, -1 if base == ZERO else self.row(base), a, b)
        base = self.row(base)
        for span in where:
            base = self.make(code, c, base, a, b, span.start, span.stop)
        return base

    def quotient(self, base: int, c: float, a: int, b: int, where: Where) -> int:
        """Return base + c a / b."""
        if self.is_row(b):
            return self.onto(Code.DIVIDE if self.is_row(a) else Code.INVERT, c, base, a, b, where)
        if self.is_row(a) or self.is_row(base) or where is not None:
            return self.product(base, c, (a, self.make(Code.OVER, 1.0, ZERO, ONE, b)), where)
        return self.make(Code.OVER, c, base, a, b)

    def total_of(self, c: float, a: int, b: int, span: slice) -> int:
        """Return the scalar c times the sum of a b over some tokens."""
        a, b = (a, b) if self.is_row(a) else (b, a)
        if not self.is_row(a):
            return self.product(ZERO, c * (span.stop - span.start), (a, b))
        code = Code.DOT if self.is_row(b) else Code.SUM
        return self.make(code, c, ZERO, a, b, span.start, span.stop)

    # -- sublayers ---------------------------------------------------------------------------------

    def update(self, update: Update, before: Sequence[int]) -> None:
        """Follow operations of tokens on themselves."""
        for column in update.cleared:
            self.held[column] = ZERO
        for operation in update.added:
            self.held[operation.target] = self._operate(self.held[operation.target], operation, before)

    def _operate(self, base: int, op: Operation, before: Sequence[int]) -> int:
        if op.rectified:
            columns, weights = [column for column, _ in op.rectified], [weight for _, weight in op.rectified]
            inside = self.combine(columns, weights, before)
            if self.is_row(inside):
                return self.onto(Code.RECTIFY, op.coefficient, base, inside, -1, op.where)
            if op.where is None and not self.is_row(base):
                return self.make(Code.CUT, op.coefficient, base, inside, -1)
            return self.product(base, op.coefficient, (self.make(Code.CUT, 1.0, ZERO, inside, -1),), op.where)
        factors = [before[column] for column in op.factors]
        if op.divisor is None:
            return self.product(base, op.coefficient, factors, op.where)
        (a,) = factors
        return self.quotient(base, op.coefficient, a, before[op.divisor], op.where)

    def attend(self, sublayer: AttentionSublayer, plan: AttentionPlan, tokens: Tokens) -> None:
        """Follow an attention sublayer: what heads read first, then what tokens do to themselves."""
        before = list(self.held)
        found = [self._read(sublayer, head, tokens, before) for head in plan.heads]
        self.update(plan.own, before)
        for head, outputs in zip(plan.heads, found, strict=True):
            for (target, _, scale), output in zip(head.values, outputs, strict=True):
                self.held[target] = self.product(self.held[target], scale, (output,), head.readers)

    def _read(self, sublayer: AttentionSublayer, head: HeadPlan, tokens: Tokens, before: Sequence[int]) -> list[int]:
        span = head.sources or slice(0, self.total)
        values = [before[source] for _, source, _ in head.values]
        if head.kind == "mean":
            share = 1 / (span.stop - span.start)
            return [self.total_of(share, v, ONE, span) if self.is_row(v) else v for v in values]
        if head.kind == "pattern":
            return self._weighted(self._pattern(sublayer, head, tokens, before), values, span)
        sides = [
            [self.combine(columns, column, before) for column in weights.T.tolist()]
            for columns, weights in (head.query, head.key)
        ]
        if head.kind == "sum":
            return [
                self._sum([(q, self.total_of(1.0, k, v, span)) for q, k in zip(*sides, strict=True)]) for v in values
            ]
        logits = self._sum([(q, self._apart(k, span.start)) for q, k in zip(*sides, strict=True)])
        own = self.make(*((Code.SIGMOID, 1.0, -1) if self.is_row(logits) else (Code.SQUASH, 1.0, ZERO)), logits, -1)
        return [self.product(self._at(v, span.start), 1.0, (own, self._apart(v, span.start))) for v in values]

    def _sum(self, pairs: Sequence[tuple[int, int]]) -> int:
        total = ZERO
        for pair in pairs:
            total = self.product(total, 1.0, pair)
        return total

    def _at(self, value: int, token: int) -> int:
        """Return what one token holds."""
        return self.make(Code.PICK, 1.0, ZERO, value, -1, token, token + 1) if self.is_row(value) else value

    def _apart(self, value: int, token: int) -> int:
        """Return how far all tokens are from one."""
        return self.product(value, -1.0, (self._at(value, token),)) if self.is_row(value) else ZERO

    def _pattern(self, sublayer: AttentionSublayer, head: HeadPlan, tokens: Tokens, before: Sequence[int]) -> int:
        queries, keys = (tuple(self.row(before[c]) for c in columns) for columns in (head.query[0], head.key[0]))
        key = (head.scores, queries, keys)
        if key not in self.known:
            to = self.value("matrix")
            span, softmax = head.sources or slice(0, self.total), sublayer.kinds[head.number] == "softmax"
            allowed = sublayer.masks[head.number].matrix(tokens) if head.sources is None or not softmax else None
            if allowed is not None:
                allowed = allowed[:, span]
            weights = head.query[1], head.key[1]
            self.made.append(Formed(to, queries, keys, *weights, span, allowed, softmax, head.idle))
            self.sizes[to], self.known[key] = span.stop - span.start, to
        return self.known[key]

    def _weighted(self, pattern: int, values: Sequence[int], span: slice) -> list[int]:
        """Return a pattern times rows: one by one in the kernel, many at once by torch."""
        rows = [self.row(value) for value in values]
        if len(set(rows)) < FEWEST_MOVED:
            return [self.make(Code.WEIGH, 1.0, -1, row, pattern, span.start, span.stop) for row in rows]
        key = (pattern, tuple(rows))
        if key not in self.known:
            self.known[key] = len(self.made)
            self.made.append(Moved(tuple(self.value("row") for _ in rows), pattern, tuple(rows), span))
        moved = self.made[self.known[key]]
        assert isinstance(moved, Moved)
        return list(moved.to)

    def record(self, section: str, record: Record, columns: Sequence[int], span: slice) -> None:
        """Store what a record reads."""
        length = span.stop - span.start
        self.recorded.append(Recorded(section, record, self.stored, len(columns), length))
        for column in columns:
            value = self.held[column]
            code = Code.STORE if self.is_row(value) else Code.SPREAD
            self.made.append(Made(code, self.stored, -1, value, -1, span.start, span.stop, record.scale))
            self.stored += length


FEWEST_MOVED = 3
"""Rows from which on torch multiplies a pattern with them at once."""


def trace_weights(
    model: CompiledTransformer, moves: Sequence[Move], tokens: Tokens, wanted: frozenset[int] | None
) -> Tracing | None:
    """Return the instructions that a schedule's plans amount to; None where a sublayer has no plan of operations."""
    tracing = Tracing(tokens.total)
    embeddings = torch.stack([model.embed[role.value].detach() for role in tokens.counts])
    constant = (embeddings[:, :-1] == 0).all(0).all(0) & (embeddings[:, -1] == embeddings[:1, -1]).all(0)
    for column, (same, number) in enumerate(zip(constant.tolist(), embeddings[0, -1].tolist(), strict=True)):
        if same and number in (0.0, 1.0):
            tracing.held.append(ZERO if number == 0 else ONE)
            continue
        tracing.held.append(tracing.value("scalar" if same else "row"))
        if same:
            tracing.constants[tracing.held[-1]] = number
        else:
            tracing.inputs[column] = tracing.held[-1]
    for place, (section, instruction, sublayer, plan) in enumerate(moves):
        if isinstance(plan, GatedPlan):
            if plan.operations is None:
                return None
            tracing.update(plan.operations, list(tracing.held))
        elif isinstance(plan, AttentionPlan):
            assert isinstance(sublayer, AttentionSublayer)
            tracing.attend(sublayer, plan, tokens)
        elif isinstance(instruction, Record) and (wanted is None or place in wanted):
            columns = model.layout.columns[instruction.channel]
            tracing.record(section, instruction, columns, tokens.rows(instruction.role))
    return tracing
