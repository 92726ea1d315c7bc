"""Single operations on rows of the stream, none of them in place.

A sublayer reads the stream as it was before it. Every operation makes a new row and leaves the old one alone, so
what is read is what was there before, in whatever order. A row may be shorter than the sequence: one number that
every token holds stays one number, and a cleared row is the number zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.language.expressions import guarded

__all__ = ["Operation", "Rows", "Update", "update"]

Where = tuple[slice, ...] | None
"""The tokens an operation acts on; None is all of them."""


class Rows(list[Tensor]):
    """The stream as rows, one a column: each (..., tokens), or (..., 1) if every token holds the same."""

    def __init__(self, stream: Tensor) -> None:
        first = stream.movedim(-1, 0).contiguous().unbind(0)
        super().__init__(first)
        self.first, self.stream = first, stream
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
    """row[target] += coefficient * the product of its factors, on some tokens; or coefficient * factor / divisor."""

    target: int
    factors: tuple[int, ...]
    coefficient: float
    divisor: int | None = None
    where: Where = None

    @property
    def clears(self) -> bool:
        """Whether it takes a whole row from itself."""
        return self == Operation(self.target, (self.target,), -1.0)

    @property
    def action(self) -> Action:
        """What carries it out: (rows to change, rows as they were before the sublayer)."""
        if self.where is not None or len(self.factors) > 2:
            return self._anywhere
        if self.divisor is not None:
            return _quotient(self.target, self.factors[0], self.divisor, self.coefficient)
        if len(self.factors) == 2:
            return _product(self.target, *self.factors, self.coefficient)
        return _copy(self.target, self.factors[0], self.coefficient)

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
class Update:
    """What a sublayer does to rows: those it clears, then what it adds, all read from the rows before it."""

    cleared: tuple[int, ...]
    actions: tuple[Action, ...]
    written: tuple[int, ...]

    def apply(self, rows: Rows) -> None:
        """Carry out all of it."""
        before = list(rows)
        for row in self.cleared:
            rows[row] = rows.zero
        for act in self.actions:
            act(rows, before)


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
    actions: list[Action] = []
    for operation in operations:
        if operation.clears and operation.target not in cleared:
            cleared.append(operation.target)
        else:
            actions.append(operation.action)
    return Update(tuple(cleared), tuple(actions), tuple(sorted({op.target for op in operations})))
