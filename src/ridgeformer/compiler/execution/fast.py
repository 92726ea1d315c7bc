"""The fast forward pass: the same weights and results, on the rows of the stream that they touch.

Three things make the literal pass slow, and none is needed: dense tokens x tokens masks, attention patterns
formed again although the channels they read have not changed, and whole softmaxes that only form a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.execution.literal import Reading
from ridgeformer.compiler.execution.operations import Rows
from ridgeformer.compiler.execution.plans import (
    AttentionPlan,
    GatedPlan,
    HeadPlan,
    always_one,
    plan_attention,
    plan_gated,
)
from ridgeformer.compiler.execution.table import InstructionTable, tabulate
from ridgeformer.compiler.execution.tracing import trace_weights
from ridgeformer.compiler.execution.weights import Snapshot
from ridgeformer.compiler.sublayers import GATES, AttentionSublayer, GatedMLP
from ridgeformer.core.compiled import compiled
from ridgeformer.language.program import Instruction, Record
from ridgeformer.language.roles import Tokens

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["Plans", "run_fast"]


Move = tuple[str, Instruction, AttentionSublayer | GatedMLP | None, AttentionPlan | GatedPlan | None]
"""One entry of the schedule with its plan: section, instruction, sublayer, plan."""


Key = TypeVar("Key")
Kept = TypeVar("Kept")

SEQUENCES = 16
"""Lengths of sequences whose plans are kept; the oldest goes first."""


class Plans:
    """The plans of a model's sublayers, kept while its weights and the sequence stay the same."""

    def __init__(self) -> None:
        self.kept: Snapshot | None = None
        self.ones: frozenset[int] = frozenset()
        self.moves: dict[Tokens, list[Move]] = {}
        self.tables: dict[tuple[object, ...], InstructionTable | None] = {}
        self.counted: dict[Tokens, int] = {}
        self.frozen = False

    def refresh(self, model: CompiledTransformer, *, differentiable: bool = False) -> bool:
        """Forget the plans if any of the model's weights has changed; return whether plans may be used at all.

        They may not if `differentiable` and a weight wants a gradient: such weights change at every step of a
        training loop, and nothing is copied for them.
        """
        together = self.kept is not None and self.kept.together()
        if differentiable:
            weights = self.kept.weights if self.kept is not None and together else model.parameters()
            if any([weight.requires_grad for weight in weights]):  # noqa: C419, a list is faster
                return False
        if self.kept is None or not together or not self.kept.unchanged(self.started):
            self.kept = Snapshot(model)
            self.moves, self.tables, self.counted, self.ones = {}, {}, {}, always_one(model)
        return True

    @property
    def started(self) -> bool:
        """Whether compiled functions run this model anyway."""
        return any(table is not None for table in list(self.tables.values()))  # threads may add one meanwhile

    def hold(self) -> bool:
        """Whether the model has the weights that the plans were made for."""
        return self.kept is not None and self.kept.together() and self.kept.unchanged(self.started)

    def table(
        self, model: CompiledTransformer, tokens: Tokens, wanted: frozenset[int] | None, tasks: int = 1
    ) -> InstructionTable | None:
        """Return the schedule as one table of instructions; None where torch is to carry out the plans."""
        tables, key = self.tables, (tokens, wanted)  # if another thread forgets them, what is planned here goes too
        each = self._work(model, tokens)
        if not self.frozen and (tasks * each < LEAST_WORK or (tasks > 1 and each < LEAST_TASK)):
            return None
        if key not in tables:
            tracing = trace_weights(model, self.of(model, tokens), tokens, wanted) if compiled() else None
            dtype = np.dtype(str(model.spec.torch_dtype).removeprefix("torch."))
            found = None if tracing is None else tabulate(tracing, dtype)
            _keep_last(tables, key, found)
        else:
            found = tables.get(key)
        small = tasks > 1 and each < LEAST_FORMED and not self.frozen and found is not None and len(found.stretches) > 1
        return None if small else found

    def _work(self, model: CompiledTransformer, tokens: Tokens) -> int:
        counted = self.counted
        found = counted.get(tokens)
        if found is None:
            found = work(self.of(model, tokens), tokens.total)
            _keep_last(counted, tokens, found)
        return found

    def of(self, model: CompiledTransformer, tokens: Tokens) -> list[Move]:
        """Return the model's schedule with plans, for a sequence."""
        kept = self.moves
        moves = kept.get(tokens)
        if moves is None:
            found: dict[int, AttentionPlan | GatedPlan] = {}
            known: dict[object, object] = {}
            moves = []
            for section, instruction, sublayer in model.schedule:
                if isinstance(sublayer, AttentionSublayer) and id(sublayer) not in found:
                    found[id(sublayer)] = plan_attention(sublayer, tokens, known)
                elif isinstance(sublayer, GatedMLP) and id(sublayer) not in found:
                    found[id(sublayer)] = plan_gated(sublayer, self.ones)
                moves.append((section, instruction, sublayer, found.get(id(sublayer))))
            _keep_last(kept, tokens, moves)
        return moves

    def __reduce__(self) -> tuple[type[Plans], tuple[()]]:
        return Plans, ()  # a copied or pickled model makes its own


def _keep_last(kept: dict[Key, Kept], key: Key, value: Kept) -> None:
    """Keep a value, and no more than `SEQUENCES` of them; the oldest goes first."""
    while len(kept) >= SEQUENCES:
        kept.pop(next(iter(list(kept))), None)
    kept[key] = value


LEAST_WORK = 2**20
"""Products that a pass takes from which on Numba is started: half a second once in a process."""


LEAST_TASK = 2**14
"""Products that a task of a batch takes from which on tasks are run one by one: torch runs small ones together."""

LEAST_FORMED = 2**16
"""Products that a task of a batch takes from which on its patterns are formed in calls of its own, not with others."""


def work(moves: Sequence[Move], total: int) -> int:
    """Return about how many products the plans of a schedule take on a sequence of `total` tokens.

    Example:
        >>> from ridgeformer import ConjugateGradients, DotProduct, compile
        >>> model = compile(DotProduct(), ConjugateGradients(steps=2), features=2, ridge=1.0)
        >>> moves = Plans().of(model, model.tokens(3, 1))
        >>> work(moves, 8) == 2 * work(moves, 4)
        True
    """
    found, formed = 0, set[object]()
    for _, _, _, plan in moves:
        if isinstance(plan, GatedPlan) and plan.operations is not None:
            found += len(plan.operations.added)
        elif isinstance(plan, AttentionPlan):
            found += len(plan.own.added)
            for head in plan.heads:
                each = {"pattern": total, "sum": 2 * head.key[1].shape[1]}.get(head.kind, 1)
                found += each * len(head.values)
                if head.kind == "pattern" and head.scores not in formed:  # at least once
                    formed.add(head.scores)
                    found += total * (head.key[1].shape[1] + EXPONENTIAL)
    return found * total


EXPONENTIAL = 16
"""Products in whose time an exponential is taken."""


def run_fast(
    model: CompiledTransformer, stream: Tensor, tokens: Tokens, plans: Plans, wanted: frozenset[int] | None = None
) -> Iterator[Reading]:
    """Run every sublayer on a copy of the stream (..., tokens, width); yield what the records read on the way.

    Not differentiable; the plans are fresh. Equal to `run_literally` up to the rounding of sums taken in another order.
    """
    state = _State(stream, tokens)
    for place, (section, instruction, sublayer, plan) in enumerate(plans.of(model, tokens)):
        if isinstance(plan, GatedPlan):
            assert isinstance(sublayer, GatedMLP)
            state.gate(sublayer, plan)
        elif isinstance(plan, AttentionPlan):
            assert isinstance(sublayer, AttentionSublayer)
            state.attend(sublayer, plan)
        elif isinstance(instruction, Record) and (wanted is None or place in wanted):
            columns = model.layout.columns[instruction.channel]
            value = state.rows.stack(columns)[..., tokens.rows(instruction.role), :]
            yield section, instruction, instruction.scale * value


class _State:
    """The stream as rows, and what has been made of those that have not changed since."""

    def __init__(self, stream: Tensor, tokens: Tokens) -> None:
        self.rows = Rows(stream)
        self.tokens = tokens
        self.kept: dict[tuple[object, ...], Tensor] = {}
        self.weighted_by: dict[tuple[object, ...], Tensor] = {}
        self.dependents: list[set[tuple[object, ...]]] = [set() for _ in self.rows]

    def gate(self, sublayer: GatedMLP, plan: GatedPlan) -> None:
        """Carry out a gated sublayer."""
        if plan.operations is not None:
            plan.operations.apply(self.rows)
            self._changed(plan.operations.written)
            return
        stream = self.rows.stack(range(len(self.rows)))
        b = stream @ sublayer.W_b
        g = torch.empty_like(b)
        for kind in set(sublayer.gates):
            units = [unit for unit, gate in enumerate(sublayer.gates) if gate == kind]
            g[..., units] = GATES[kind](b[..., units])
        targets = sublayer.W_d.abs().sum(0).nonzero().flatten().tolist()
        change = ((stream @ sublayer.W_a) * g) @ sublayer.W_d[:, targets]
        for position, target in enumerate(targets):
            self.rows.add(target, change[..., position])
        self._changed(tuple(targets))

    def attend(self, sublayer: AttentionSublayer, plan: AttentionPlan) -> None:
        """Carry out an attention sublayer: what heads read first, then what tokens do to themselves."""
        found = [(head, self._read(sublayer, head)) for head in plan.heads]
        if plan.own.written:
            plan.own.apply(self.rows)
            self._changed(plan.own.written)
        for head, outputs in found:
            for (target, _, count, scale), output in zip(head.runs, outputs, strict=True):
                change = self.rows.scale(output, scale)
                if count == 1:
                    self.rows.add(target, change, head.readers)
                elif head.readers is None:
                    self.rows.add_block(target, change)
                else:
                    for number, row in enumerate(change.unbind(0)):
                        self.rows.add(target + number, row, head.readers)
            self._changed(head.targets)

    def _read(self, sublayer: AttentionSublayer, head: HeadPlan) -> list[Tensor]:
        """Return what a head brings of each run of its values: (..., tokens), or (..., 1) if the same to all.

        A run of several columns has them as its first axis.
        """
        span = head.sources or slice(0, self.tokens.total)
        if head.kind == "mean":
            share = 1 / (span.stop - span.start)  # one sum and one product are cheaper than a mean
            sums = [self._run(source, count, span).sum(-1, keepdim=True) for _, source, count, _ in head.runs]
            return [self.rows.scale(total, share) for total in sums]
        if head.kind == "sum":
            parts = [self._run(source, count, span) for _, source, count, _ in head.runs]
            V = torch.cat([part if part.ndim > self.rows[0].ndim else part[None] for part in parts]).movedim(0, -1)
            Q, K = self._factor(head, "query"), self._factor(head, "key")[..., span, :]
            return self._by_run(head, (Q @ (K.mT @ V)).movedim(-1, 0))
        if head.kind == "pair":
            Q, K = self._factor(head, "query"), self._factor(head, "key")
            own = torch.sigmoid((Q * (K - K[..., span, :])).sum(-1))
            values = [self._run(source, count, slice(0, self.tokens.total)) for _, source, count, _ in head.runs]
            return [value[..., span] + own * (value - value[..., span]) for value in values]
        return [
            self._weighted(sublayer, head, source, span)
            if count == 1
            else self._moved(sublayer, head, source, count, span)
            for _, source, count, _ in head.runs
        ]

    def _moved(self, sublayer: AttentionSublayer, head: HeadPlan, source: int, count: int, span: slice) -> Tensor:
        """Return the attention-weighted sums of neighbouring rows: (count, ..., tokens)."""
        V = self._run(source, count, span).movedim(0, -1)
        return (self._pattern(sublayer, head) @ V).movedim(-1, 0)

    def _by_run(self, head: HeadPlan, found: Tensor) -> list[Tensor]:
        """Return columns, the first axis, as the runs of a head's values."""
        parts = found.split([count for _, _, count, _ in head.runs])
        return [part[0] if count == 1 else part for part, (_, _, count, _) in zip(parts, head.runs, strict=True)]

    def _run(self, column: int, count: int, span: slice) -> Tensor:
        """Return a row, or neighbouring rows, on some tokens."""
        if count == 1:
            return self._part(column, span)
        block = self.rows.block(column, count)
        return block.expand(count, *self.rows.shape)[..., span]

    def _part(self, column: int, span: slice) -> Tensor:
        row = self.rows.full(column)
        return row[span] if row.ndim == 1 else row[..., span]

    def _weighted(self, sublayer: AttentionSublayer, head: HeadPlan, source: int, span: slice) -> Tensor:
        """Return the attention-weighted sum of one row: (..., tokens)."""
        P, key = self._pattern(sublayer, head), (head.scores, source)
        if self.weighted_by.get(key) is not P:  # another pattern than the one it was made with
            self.kept.pop(key, None)
            self.weighted_by[key] = P
        return self._keep(key, (source,), lambda: _weigh(P, self._part(source, span)))

    def _pattern(self, sublayer: AttentionSublayer, head: HeadPlan) -> Tensor:
        """Return the attention weights (..., tokens, sources)."""
        scores = (*head.query[0], *head.key[0])
        return self._keep((head.scores, "pattern"), scores, lambda: self._form(sublayer, head))

    def _form(self, sublayer: AttentionSublayer, head: HeadPlan) -> Tensor:
        if head.sources is None:  # an irregular mask: form it as the literal pass does
            return sublayer.pattern(head.number, self.rows.stack(range(len(self.rows))), self.tokens)
        Q = self.rows.stack(head.query[0]) @ head.query[1]
        K = self.rows.stack(head.key[0])[..., head.sources, :] @ head.key[1]
        P = torch.softmax(Q @ K.mT, dim=-1)
        for span in head.idle:
            P[..., span, :] = 0.0
        return P

    def _factor(self, head: HeadPlan, side: str) -> Tensor:
        """Return X W_Q or X W_K."""
        columns, weights = head.query if side == "query" else head.key
        return self._keep((head.scores, side), columns, lambda: self.rows.stack(columns) @ weights)

    def _keep(self, key: tuple[object, ...], columns: tuple[int, ...], make: Callable[[], Tensor]) -> Tensor:
        """Return what was made before, or make it again if any of the columns it reads has changed since."""
        if key not in self.kept:
            self.kept[key] = make()
            for column in columns:
                self.dependents[column].add(key)
        return self.kept[key]

    def _changed(self, columns: tuple[int, ...]) -> None:
        for column in columns:
            if self.dependents[column]:
                for key in self.dependents[column]:
                    self.kept.pop(key, None)
                self.dependents[column].clear()


def _weigh(P: Tensor, row: Tensor) -> Tensor:
    """Return P v for one vector, or one a task."""
    return torch.mv(P, row) if row.ndim == 1 else (P @ row[..., None])[..., 0]
