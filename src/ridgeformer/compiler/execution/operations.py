"""Single operations on rows of the stream, and the order in which a sublayer may carry them out in place.

A sublayer reads the stream as it was before it. Done in place, one operation must not read what another of
the same sublayer has already changed: readers go first, and where that cannot be, they read a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.compiler.sublayers import guarded

__all__ = ["Operation", "Sequenced", "sequence"]

Where = tuple[slice, ...] | None
"""The tokens an operation acts on; None is all of them."""


@dataclass(frozen=True)
class Operation:
    """row[target] += coefficient * the product of its factors, on some tokens; or coefficient * factor / divisor."""

    target: int
    factors: tuple[int, ...]
    coefficient: float
    divisor: int | None = None
    where: Where = None

    @property
    def reads(self) -> tuple[int, ...]:
        """Rows whose old values it needs."""
        return self.factors if self.divisor is None else (*self.factors, self.divisor)

    def apply(self, rows: list[Tensor], before: list[Tensor]) -> None:
        """Carry it out in place; what it reads is read from `before`."""
        if self.where is None and self.divisor is None and len(self.factors) == 2:  # by far the commonest
            first, second = self.factors
            rows[self.target].addcmul_(before[first], before[second], value=self.coefficient)
            return
        if self.where is None and self.factors == (self.target,) and self.coefficient == -1.0 and self.divisor is None:
            rows[self.target].zero_()  # x + (-x)
            return
        if self.divisor is not None:
            rows[self.target].addcdiv_(before[self.factors[0]], guarded(before[self.divisor]), value=self.coefficient)
            return
        for part in self.where or (None,):
            factors = [_part(before[f], part) for f in self.factors]
            target = _part(rows[self.target], part)
            if len(factors) == 1:
                target.add_(factors[0], alpha=self.coefficient)
            elif len(factors) == 2:
                target.addcmul_(factors[0], factors[1], value=self.coefficient)
            else:
                target.addcmul_(factors[0] * factors[1], factors[2], value=self.coefficient)


def _part(row: Tensor, part: slice | None) -> Tensor:
    return row if part is None else row[..., part]


@dataclass(frozen=True)
class Sequenced:
    """Operations in an order that is safe in place, once the rows in `copied` have been copied."""

    operations: tuple[Operation, ...]
    copied: tuple[int, ...]
    written: tuple[int, ...]

    def apply(self, rows: list[Tensor]) -> None:
        """Carry out all of them."""
        before = rows
        if self.copied:
            before = list(rows)
            for row in self.copied:
                before[row] = rows[row].clone()
        for operation in self.operations:
            operation.apply(rows, before)


def sequence(operations: Sequence[Operation]) -> Sequenced:
    """Return the operations with every reader of a row before those that change it.

    Where operations wait for each other in a circle, the rows they share are copied first.

    Example:
        >>> swap = [Operation(0, (1,), 1.0), Operation(1, (0,), 1.0)]
        >>> sequence(swap).copied
        (0, 1)
        >>> sequence([Operation(0, (0,), -1.0), Operation(1, (0,), 1.0)]).operations[0].target
        1
    """
    waiting, done = list(operations), []
    while waiting:
        ready = [op for op in waiting if not any(op.target in other.reads for other in waiting if other is not op)]
        if not ready:
            break
        done += ready[:1]
        waiting.remove(ready[0])
    targets = {op.target for op in operations}
    copied = sorted({row for op in waiting for row in op.reads} & targets)
    return Sequenced((*done, *waiting), tuple(copied), tuple(sorted(targets)))


def stack(rows: list[Tensor], columns: Sequence[int]) -> Tensor:
    """Return rows as the last axis: (..., tokens, columns)."""
    return torch.stack([rows[column] for column in columns], dim=-1)
