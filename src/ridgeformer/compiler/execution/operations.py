"""Operations on rows of the stream: what a plan is made of, each as few calls of torch as possible.

Operations that do the same to neighbouring columns, such as one a feature, are carried out on a block of rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_

import torch
from torch import Tensor

from ridgeformer.language.expressions import guarded

__all__ = ["Operation", "Rows", "Update", "Where", "update"]


Where = tuple[slice, ...] | None
"""The tokens an operation acts on; None is all of them."""


class Rows(list[Tensor]):
    """The stream as rows, one a column: each (..., tokens), or (..., 1) if every token holds the same."""

    def __init__(self, stream: Tensor) -> None:
        self.base = stream.movedim(-1, 0).contiguous()
        first = self.base.unbind(0)
        super().__init__(first)
        self.first, self.stream = first, stream
        self.blocks: dict[tuple[int, int], tuple[Tensor, tuple[Tensor, ...]]] = {}
        self.shape = stream.shape[:-1]
        self.zero = stream.new_zeros(1)
        self.numbers: dict[float, Tensor] = {}

    def full(self, column: int) -> Tensor:
        """Return a row with one number for every token."""
        row = self[column]
        return row if row.shape == self.shape else row.expand(self.shape)

    def stack(self, columns: Sequence[int]) -> Tensor:
        """Return rows as the last axis: (..., tokens, columns)."""
        if columns and all(self[column] is self.first[column] for column in columns):  # nothing has written to them
            if list(columns) == list(range(columns[0], columns[-1] + 1)):
                return self.stream[..., columns[0] : columns[-1] + 1]
            return self.stream.index_select(-1, torch.tensor(columns, device=self.stream.device))
        return torch.stack([self.full(column) for column in columns], dim=-1)

    def block(self, start: int, count: int, rows: Sequence[Tensor] | None = None) -> Tensor:
        """Return neighbouring rows, those now or those given, as the first axis: (count, ..., tokens or 1)."""
        held = (self if rows is None else rows)[start : start + count]
        if all(map(is_, held, self.first[start : start + count])):
            return self.base[start : start + count]
        kept = self.blocks.get((start, count))
        if kept is not None and all(map(is_, held, kept[1])):
            return kept[0]
        if all(row is self.zero for row in held):
            return self.zero.expand(count, *[1] * len(self.shape))
        if any(row.shape != held[0].shape for row in held):
            held = [row.expand(self.shape) for row in held]
        return torch.stack(list(held))

    def add_block(self, start: int, change: Tensor) -> None:
        """Add to neighbouring rows at once."""
        count = len(change)
        if not all(row is self.zero for row in self[start : start + count]):
            change = self.block(start, count) + change
        held = change.unbind(0)
        self[start : start + count] = held
        self.blocks[(start, count)] = (change, held)

    def scale(self, row: Tensor, number: float) -> Tensor:
        """Return a row times a number, which is kept as a tensor: torch multiplies by those in half the time."""
        if number == 1.0:
            return row
        if number not in self.numbers:
            self.numbers[number] = self.zero + number
        return row * self.numbers[number]

    def add(self, target: int, change: Tensor, where: Where = None) -> None:
        """Add to a row, on some tokens or on all."""
        old = self[target]
        if where is None:
            self[target] = change if old is self.zero else old + change
            return
        new = self.full(target).clone()
        for part in where:
            new[..., part].add_(change if change.shape[-1] == 1 else change[..., part])
        self[target] = new


Action = Callable[[Rows, list[Tensor]], None]


@dataclass(frozen=True)
class Operation:
    """row[target] += coefficient * the product of its factors, on some tokens; or coefficient * factor / divisor.

    With `rectified`, (row, multiple) pairs, it is coefficient * max(0, their sum).
    """

    target: int
    factors: tuple[int, ...]
    coefficient: float
    divisor: int | None = None
    where: Where = None
    rectified: tuple[tuple[int, float], ...] = ()

    @property
    def clears(self) -> bool:
        """Whether it takes a whole row from itself."""
        return self == Operation(self.target, (self.target,), -1.0)

    @property
    def action(self) -> Action:
        """What carries it out: (rows to change, rows as they were before the sublayer)."""
        if self.rectified:
            return self._rectify
        if self.where is not None or len(self.factors) > 2:
            return self._anywhere
        if self.divisor is not None:
            return _quotient(self.target, self.factors[0], self.divisor, self.coefficient)
        if len(self.factors) == 2:
            return _product(self.target, *self.factors, self.coefficient)
        return _copy(self.target, self.factors[0], self.coefficient)

    def _rectify(self, rows: Rows, before: list[Tensor]) -> None:
        inside = rows.scale(before[self.rectified[0][0]], self.rectified[0][1])
        for row, multiple in self.rectified[1:]:
            inside = inside + rows.scale(before[row], multiple)
        rows.add(self.target, rows.scale(inside.clamp_min(0), self.coefficient))

    def _anywhere(self, rows: Rows, before: list[Tensor]) -> None:
        value = before[self.factors[0]]
        if self.divisor is not None:
            value = value / guarded(before[self.divisor])
        for factor in self.factors[1:]:
            value = value * before[factor]
        rows.add(self.target, rows.scale(value, self.coefficient), self.where)


# The commonest operations, each as one call of torch: with rows of a few hundred numbers, calls are what takes time.


def _product(target: int, a: int, b: int, coefficient: float) -> Action:
    def apply(rows: Rows, before: list[Tensor]) -> None:
        old = rows[target]
        if coefficient != 1.0:
            rows[target] = torch.addcmul(old, before[a], before[b], value=coefficient)
        elif old is rows.zero:
            rows[target] = before[a] * before[b]
        else:
            rows[target] = torch.addcmul(old, before[a], before[b])

    return apply


def _quotient(target: int, a: int, b: int, coefficient: float) -> Action:
    def apply(rows: Rows, before: list[Tensor]) -> None:
        old = rows[target]
        if coefficient != 1.0:
            rows[target] = torch.addcdiv(old, before[a], guarded(before[b]), value=coefficient)
        elif old is rows.zero:
            rows[target] = before[a] / guarded(before[b])
        else:
            rows[target] = torch.addcdiv(old, before[a], guarded(before[b]))

    return apply


def _copy(target: int, a: int, coefficient: float) -> Action:
    def apply(rows: Rows, before: list[Tensor]) -> None:
        old = rows[target]
        if coefficient != 1.0:
            rows[target] = torch.add(old, before[a], alpha=coefficient)
        else:
            rows[target] = before[a] if old is rows.zero else old + before[a]

    return apply


@dataclass(frozen=True)
class Group:
    """Operations that do the same to neighbouring columns.

    Attributes:
        first: The first of them; in the others every column that moves is one further each time.
        count: How many there are.
        moving: Which columns of `first`, in the order of `_columns`, move.
        summed: Whether all have one target, as in an inner product; otherwise the target moves too.
    """

    first: Operation
    count: int
    moving: tuple[bool, ...]
    summed: bool

    def change(self, rows: Rows, before: Sequence[Tensor]) -> Tensor:
        """Return what they add: (count, ..., tokens or 1), or the sum over the first axis."""
        op, read = self.first, []
        for column, moves in zip(_columns(op), self.moving, strict=True):
            read.append(rows.block(column, self.count, before) if moves else before[column][None])
        if op.rectified:
            inside = rows.scale(read[0], op.rectified[0][1])
            for part, (_, multiple) in zip(read[1:], op.rectified[1:], strict=True):
                inside = inside + rows.scale(part, multiple)
            return rows.scale(inside.clamp_min(0), op.coefficient)
        if op.divisor is not None:
            value = read[0] / guarded(read[1])
        elif len(read) == 1:
            value = read[0]
        elif self.summed and all(self.moving) and read[0].ndim == 2:
            value = _inner(*read)
            return rows.scale(value, op.coefficient)
        else:
            value = read[0] * read[1]
        value = rows.scale(value, op.coefficient)
        return value.expand(self.count, *value.shape[1:]).sum(0) if self.summed else value


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum over the first axis of a * b, (tokens,) or (1,), as a product with a vector where one is."""
    if a.shape[1] == 1 and b.shape[1] > 1:
        return a[:, 0] @ b
    return b[:, 0] @ a if b.shape[1] == 1 else (a * b).sum(0)


@dataclass(frozen=True)
class Update:
    """What a sublayer does to rows: those it clears, then what it adds, all read from the rows before it.

    `added` is what it adds, one by one; `actions` and `groups` are the same in as few calls as possible.
    """

    cleared: tuple[int, ...]
    added: tuple[Operation, ...]
    actions: tuple[Action, ...]
    groups: tuple[Group, ...]
    written: tuple[int, ...]

    def apply(self, rows: Rows) -> None:
        """Carry out all of it."""
        before = list(rows)
        changes: dict[tuple[int, int], Tensor] = {}
        for group in self.groups:
            key, change = (group.first.target, 0 if group.summed else group.count), group.change(rows, before)
            if not group.summed and len(change) != group.count:
                change = change.expand(group.count, *change.shape[1:])
            changes[key] = changes[key] + change if key in changes else change
        for row in self.cleared:
            rows[row] = rows.zero
        for act in self.actions:
            act(rows, before)
        for (target, count), change in changes.items():
            if count:
                rows.add_block(target, change)
            else:
                rows.add(target, change)


def update(operations: Sequence[Operation]) -> Update:
    """Return operations as one update.

    A row may be taken from itself once; a second time is an operation like any other.

    Example:
        >>> clear = [Operation(0, (0,), -1.0), Operation(1, (1,), -1.0)]
        >>> swap = [Operation(0, (1,), 1.0), Operation(1, (0,), 1.0)]
        >>> rows = Rows(torch.tensor([[3.0, 5.0]]))
        >>> update([*clear, *swap]).apply(rows)
        >>> [float(row) for row in rows]
        [5.0, 3.0]
    """
    cleared: list[int] = []
    rest: list[Operation] = []
    for operation in operations:
        if operation.clears and operation.target not in cleared:
            cleared.append(operation.target)
        else:
            rest.append(operation)
    groups, alone = _grouped(rest)
    written = tuple(sorted({op.target for op in operations}))
    actions = tuple(operation.action for operation in alone)
    return Update(tuple(cleared), tuple(rest), actions, tuple(groups), written)


def _columns(operation: Operation) -> tuple[int, ...]:
    """Return the columns that an operation reads."""
    if operation.rectified:
        return tuple(row for row, _ in operation.rectified)
    return operation.factors if operation.divisor is None else (*operation.factors, operation.divisor)


LEAST_GROUP = 3
"""Operations from which on a block pays."""


def _grouped(operations: Sequence[Operation]) -> tuple[list[Group], list[Operation]]:
    """Return operations that do the same to neighbouring columns in groups, and the others."""
    open_runs: dict[tuple[object, ...], list[list[Operation]]] = {}
    groups, alone = list[Group](), list[Operation]()
    for operation in operations:
        if operation.where is not None or len(operation.factors) > 2:
            alone.append(operation)
            continue
        multiples = tuple(multiple for _, multiple in operation.rectified)
        kind = (operation.coefficient, len(operation.factors), operation.divisor is None, multiples)
        runs = open_runs.setdefault(kind, [])
        run = next((run for run in runs if _continues(run, operation)), None)
        if run is None:
            runs.append([operation])
        else:
            run.append(operation)
    for run in (run for runs in open_runs.values() for run in runs):
        if len(run) < LEAST_GROUP:
            alone += run
            continue
        moving = tuple(a != b for a, b in zip(_columns(run[0]), _columns(run[1]), strict=True))
        groups.append(Group(run[0], len(run), moving, run[0].target == run[1].target))
    return groups, alone


def _continues(run: list[Operation], operation: Operation) -> bool:
    """Return whether an operation does to the next columns what the last of a run did to its own."""
    last = run[-1]
    step = operation.target - last.target
    moved = [b - a for a, b in zip(_columns(last), _columns(operation), strict=True)]
    if step not in (0, 1) or any(move not in (0, 1) for move in moved) or (step == 0 and not any(moved)):
        return False
    if step == 0 and operation.rectified:
        return False
    if len(run) == 1:
        return True
    before = [b - a for a, b in zip(_columns(run[-2]), _columns(last), strict=True)]
    return before == moved and last.target - run[-2].target == step
