"""What gated sublayers may be made of: a choice of units, and the rewriting of a program that it calls for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from ridgeformer.language.program import Program

__all__ = ["Entry", "Operand", "Primitives", "Unit"]

Entry = tuple[int, float]
"""A column of the stream and what it is multiplied by."""


class Unit(NamedTuple):
    """One gated unit, (x.a) * g(x.b) * d: columns read on either side, the gate, and its output weight."""

    a: Sequence[Entry]
    gate: str
    b: Sequence[Entry]
    d: float


class Operand(NamedTuple):
    """A column that a product reads; `constant` is the one value it has where it is not zero, if it has one."""

    column: int
    constant: float | None = None


class Primitives(ABC):
    """A way to make linear moves, products and quotients out of gated units.

    Every method returns units whose outputs, summed, are what is wanted; `one` is the column of the
    constant 1.
    """

    name: ClassVar[str]

    @abstractmethod
    def rewrite(self, program: Program) -> Program:
        """Return an equivalent program that asks only for what these units can do."""

    @abstractmethod
    def move(self, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return units for a sum of multiples of columns, exact: clearing a channel relies on it."""

    @abstractmethod
    def multiply(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Return units for coefficient * x * y."""

    @abstractmethod
    def divide(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Return units for coefficient * x / y."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Its options as plain values, under the names that `compile` gives them; None where it has none."""
