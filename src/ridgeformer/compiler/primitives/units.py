"""Gated units: what every choice of primitives provides, its options, and the exact choice of bilinear units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ridgeformer.core.checks import positive
from ridgeformer.core.errors import InputError
from ridgeformer.language.program import Program

__all__ = [
    "CHECKS",
    "Entry",
    "Exact",
    "Operand",
    "Primitives",
    "Unit",
    "checked_bound",
    "checked_knots",
    "checked_range",
]


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

    @abstractmethod
    def rectify(self, coefficient: float, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return units for coefficient * max(0, sum of multiples of columns)."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Its options as plain values, under the names that `compile` gives them; None where it has none."""


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

    def rectify(self, coefficient: float, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return one unit with a ReLU as its gate."""
        return [Unit(((one, coefficient),), "relu", tuple(parts), 1.0)]

    @property
    def options(self) -> dict[str, Any]:
        """None."""
        return {"reciprocal_range": None, "relu_bound": None, "relu_knots": None}


SMALLEST, LARGEST = 1e-30, 1e30
"""Ends of every reciprocal range: inside them no intermediate value leaves float32."""

MOST_KNOTS = 2**16


def checked_range(given: Sequence[float]) -> tuple[float, float]:
    """Return (b_min, B) as floats with 1e-30 <= b_min < B <= 1e30.

    Raises:
        InputError: anything else.

    Example:
        >>> checked_range([1e-6, 100])
        (1e-06, 100.0)
    """
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"reciprocal_range is {given!r}; two numbers (b_min, B) were expected.") from None
    if not SMALLEST <= low < high <= LARGEST:
        raise InputError(
            f"reciprocal_range is ({low:g}, {high:g}); {SMALLEST:g} <= b_min < B <= {LARGEST:g} was expected: give the "
            "smallest and the largest number to be divided by."
        )
    return low, high


def checked_bound(given: float) -> float:
    """Return relu_bound as a float > 0."""
    return positive(given, "relu_bound", "factors of a product lie between minus it and it")


def checked_knots(given: int) -> int:
    """Return relu_knots if it is an even whole number from 2 to 65536.

    Raises:
        InputError: anything else.
    """
    whole = isinstance(given, int) and not isinstance(given, bool)
    if not whole or given % 2 or not 2 <= given <= MOST_KNOTS:
        raise InputError(f"relu_knots is {given!r}; an even whole number from 2 to {MOST_KNOTS} was expected.")
    return int(given)


CHECKS: dict[str, Callable[[Any], Any]] = {
    "reciprocal_range": checked_range,
    "relu_bound": checked_bound,
    "relu_knots": checked_knots,
}
"""The check of every option, by the name that `compile` gives it."""
