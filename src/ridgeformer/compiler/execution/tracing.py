"""From the plans of all sublayers to one list of instructions, in which every value is made once and never changed.

The whole schedule is followed once, for a sequence of a given length: which value each column of the stream holds after
every sublayer is known from the weights alone. The same instruction on the same values is there once, so an attention
pattern that no step changes is formed once, and what nothing reads is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.execution.kernel import Code
from ridgeformer.compiler.execution.operations import Operation, Update
from ridgeformer.compiler.execution.plans import AttentionPlan, GatedPlan, HeadPlan
from ridgeformer.compiler.execution.values import ONE, ZERO, Made, Values
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.language.expressions import SMALLEST_DIVISOR, guarded
from ridgeformer.language.program import Record
from ridgeformer.language.roles import Tokens

if TYPE_CHECKING:
    from ridgeformer.compiler.execution.fast import Move
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["Formed", "Moved", "Recorded", "Tracing", "trace_weights"]


@dataclass(frozen=True, eq=False)
class Formed:
    """An attention pattern of a head, formed by torch: queries and keys are values with the weights they meet.

    Attributes:
        to: The pattern.
        queries, keys: Rows that the scores read.
        W_Q, W_K: Weights that they meet.
        sources: Tokens whose columns are formed.
        allowed: Mask, (tokens, sources); None lets everyone read all.
        softmax: Whether it is a softmax, or the scores themselves.
        idle: Tokens that read nothing.
        lone: One source: the pattern is divided by the weight of this one, so that what softmax divides by cancels.
        whole: Tokens that the softmax runs over, where `sources` are only some of them.
    """

    to: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    W_Q: Tensor
    W_K: Tensor
    sources: slice
    allowed: Tensor | None
    softmax: bool
    idle: tuple[slice, ...]
    lone: int | None = None
    whole: slice | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        """Values it reads."""
        return (*self.queries, *self.keys)

    @property
    def writes(self) -> tuple[int, ...]:
        """Values it makes."""
        return (self.to,)

    @cached_property
    def between(self) -> Tensor:
        """W_Q W_K', which stands between queries and keys."""
        return self.W_Q.detach() @ self.W_K.detach().mT

    @cached_property
    def scale(self) -> float:
        """The spectral norm of that: scores are at most this times the lengths of query and key."""
        return float(torch.linalg.matrix_norm(self.between, 2))

    def form(self, Q: Tensor, K: Tensor, into: Tensor, readers: slice) -> None:
        """Write the pattern of some readers' queries (m, r) and keys (n, tokens) into (r, sources)."""
        if readers.start == readers.stop:
            return
        if self.lone is not None:
            self._form_relative(Q, K, into)
            self._silence(into, readers)
            return
        scores = self._scores(Q, K[:, self.sources])
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
        self._silence(into, readers)

    def _scores(self, Q: Tensor, K: Tensor) -> Tensor:
        return (Q.mT @ self.between) @ K if Q.shape[1] < K.shape[1] else Q.mT @ (self.between @ K)

    def _form_relative(self, Q: Tensor, K: Tensor, into: Tensor) -> None:
        """Write softmax weights over that of the lone source: exponentials of differences, if none can overflow."""
        assert self.lone is not None
        assert self.whole is not None
        whole, one = K[:, self.whole], K[:, self.lone, None]
        longest = _longest(Q) * _longest(whole)
        if 2 * self.scale * longest + log(whole.shape[1]) < -log(SMALLEST_DIVISOR[Q.dtype]) - 1:
            torch.exp(self._scores(Q, K[:, self.sources] - one), out=into)
            return
        P, start = torch.softmax(self._scores(Q, whole), -1), self.whole.start
        divisor = guarded(P[:, self.lone - start, None])
        torch.div(P[:, self.sources.start - start : self.sources.stop - start], divisor, out=into)

    def _silence(self, into: Tensor, readers: slice) -> None:
        for span in self.idle:
            into[max(span.start - readers.start, 0) : max(span.stop - readers.start, 0)] = 0.0


def _longest(rows: Tensor) -> float:
    """Return the length of the longest column."""
    given = rows.numpy()
    return float(np.einsum("ij,ij->j", given, given).max()) ** 0.5


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


@dataclass(kw_only=True)
class Tracing(Values):
    """What is known while the schedule is followed.

    Attributes:
        tokens: The sequence.
        features, outputs: Numbers that a support is given.
        embed: The embedding of every role.
        inputs: Column of the embedding to the value it has given.
        held: The value that every column holds now.
        patterns: How matrices are formed.
        recorded: What is stored, in order; `stored` numbers.
    """

    tokens: Tokens
    features: int
    outputs: int
    embed: dict[str, Tensor] = field(default_factory=dict)
    inputs: dict[int, int] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    patterns: dict[int, Formed] = field(default_factory=dict)
    recorded: list[Recorded] = field(default_factory=list)
    stored: int = 0

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
        relative = self._relative(a, before[op.divisor])
        if relative is not None:
            return self.product(base, op.coefficient, (relative,), op.where)
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
            known = self._known_pattern(sublayer, head, tokens, before)
            return known or self._weighted(self._pattern(sublayer, head, tokens, before), values, span)
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
            self._form(Formed(to, queries, keys, *weights, span, allowed, softmax, head.idle))
            self.known[key] = to
        return self.known[key]

    def _form(self, formed: Formed) -> None:
        self.patterns[formed.to] = formed
        self.made.append(formed)

    def _relative(self, a: int, b: int) -> int | None:
        """Return a / b where both are read through one softmax and b is the weight of one source; else None.

        Its normalisation cancels, so only the columns are formed that a reads.
        """
        above, below = self.makers.get(a), self.makers.get(b)
        if above is None or below is None or not above.code == below.code == Code.WEIGH or above.b != below.b:
            return None
        formed, row = self.patterns[above.b], self.fixed.get(below.a)
        if not formed.softmax or formed.allowed is not None or formed.lone is not None or row is None:
            return None
        if below.high - below.low != 1 or (row[below.low], above.c, below.c) != (1.0, 1.0, 1.0):
            return None
        key = ("relative", above.b, below.low, above.low, above.high)
        if key not in self.known:
            to = self.known[key] = self.value("matrix")
            sources = slice(above.low, above.high)
            self._form(replace(formed, to=to, sources=sources, lone=below.low, whole=formed.sources))
        return self.make(Code.WEIGH, 1.0, -1, above.a, self.known[key], above.low, above.high)

    def _known_pattern(
        self, sublayer: AttentionSublayer, head: HeadPlan, tokens: Tokens, before: Sequence[int]
    ) -> list[int]:
        """Return what a head brings whose scores depend on no data; empty if they do, or every reader has its own.

        Readers that all ask the same get the same, one scalar a value; otherwise values must be known as well.
        """
        Q, K = (self._at_hand([before[c] for c in columns]) for columns in (head.query[0], head.key[0]))
        if Q is None or K is None:
            return []
        values, span = [before[source] for _, source, _ in head.values], head.sources or slice(0, self.total)
        softmax, V = sublayer.kinds[head.number] == "softmax", self._at_hand(values)
        alike = not any(self.is_row(before[c]) for c in head.query[0])
        single = alike and softmax and head.sources is not None and not head.idle
        if not single and (V is None or self.total * (span.stop - span.start) > LARGEST_KNOWN):
            return []
        allowed = sublayer.masks[head.number].matrix(tokens)[:, span] if head.sources is None or not softmax else None
        formed = Formed(-1, (), (), head.query[1], head.key[1], span, allowed, softmax, head.idle)
        readers = slice(0, 1 if single else self.total)
        P = Q.new_empty(readers.stop, span.stop - span.start)
        formed.form(Q[:, readers], K, P, readers)
        if not single and V is not None:
            return [self.fixed_row(row) for row in (V[:, span] @ P.mT).numpy()]
        weights = np.zeros(self.total, self.dtype)
        weights[span] = P[0].numpy()
        shares = self.fixed_row(weights)
        return [self.total_of(1.0, value, shares, span) for value in values]

    def _at_hand(self, values: Sequence[int]) -> Tensor | None:
        """Return rows and scalars that are known as rows, (values, tokens); None if one is not."""
        found = np.empty((len(values), self.total), self.dtype)
        for place, value in enumerate(values):
            if value not in self.constants and value not in self.fixed:
                return None
            found[place] = self.constants[value] if value in self.constants else self.fixed[value]
        return torch.from_numpy(found)

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


LARGEST_KNOWN = 2**24
"""Entries of a pattern up to which it is formed beforehand, where it depends on no data."""

FEWEST_MOVED = 3
"""Rows from which on torch multiplies a pattern with them at once."""


def trace_weights(
    model: CompiledTransformer, moves: Sequence[Move], tokens: Tokens, wanted: frozenset[int] | None
) -> Tracing | None:
    """Return the instructions that a schedule's plans amount to; None where a sublayer has no plan of operations."""
    dtype = model.spec.torch_dtype
    precision = np.dtype(str(dtype).removeprefix("torch.")), SMALLEST_DIVISOR[dtype]
    tracing = Tracing(tokens.total, *precision, tokens=tokens, features=model.spec.features, outputs=model.spec.outputs)
    tracing.embed = {role.value: model.embed[role.value].detach() for role in tokens.counts}
    embeddings = torch.stack(list(tracing.embed.values()))
    given, alone = embeddings[:, :-1].any(1), embeddings[:, -1].numpy()
    for column in range(embeddings.shape[-1]):
        if not bool(given[:, column].any()):
            row = np.repeat(alone[:, column], list(tokens.counts.values()))
            tracing.held.append(tracing.number(float(row[0])) if (row == row[0]).all() else tracing.fixed_row(row))
            continue
        some = [tokens.rows(role) for n, role in enumerate(tokens.counts) if embeddings[n, :, column].any()]
        tracing.held.append(tracing.value("row"))
        tracing.hulls[tracing.held[-1]] = (min(span.start for span in some), max(span.stop for span in some))
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
