"""Bilinear units and guarded reciprocals: one unit a term, beyond what a stock transformer has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ridgeformer.compiler.primitives.base import Entry, Operand, Primitives, Unit
from ridgeformer.language.program import Program

__all__ = ["Exact"]


@dataclass(frozen=True)
class Exact(Primitives):
    """Units a * b and a / b: the program as it is written.

    Example:
        >>> Exact().multiply(2.0, Operand(3), Operand(4), one=0)
        [Unit(a=((3, 2.0),), gate='identity', b=((4, 1.0),), d=1.0)]
    """

    name: ClassVar[str] = "exact"

    def rewrite(self, program: Program) -> Program:
        """Return the program itself."""
        return program

    def move(self, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return one unit, gated by the constant 1."""
        return [Unit(tuple(parts), "identity", ((one, 1.0),), 1.0)]

    def multiply(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Return one unit with an identity gate."""
        return [Unit(((x.column, coefficient),), "identity", ((y.column, 1.0),), 1.0)]

    def divide(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Return one unit with a guarded reciprocal as its gate."""
        return [Unit(((x.column, coefficient),), "reciprocal", ((y.column, 1.0),), 1.0)]

    @property
    def options(self) -> dict[str, Any]:
        """None."""
        return {"reciprocal_range": None, "relu_bound": None, "relu_knots": None}
