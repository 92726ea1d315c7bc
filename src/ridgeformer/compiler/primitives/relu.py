"""ReLU units: X <- X + relu(X W_b) W_d, piecewise linear, so products and reciprocals have an error of their own.

Linear moves stay exact, relu(x) - relu(-x) = x, and so do products with a channel that is 0 or a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import expm1, log
from typing import Any, ClassVar

from ridgeformer.compiler.primitives.quotients import Inversion, invert_before_dividing
from ridgeformer.compiler.primitives.units import Entry, Operand, Primitives, Unit
from ridgeformer.core.errors import InputError
from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Channel, Gate, Program

__all__ = ["ReLU", "product_error", "quotient_error", "reciprocal_error"]


def product_error(bound: float, knots: int) -> float:
    """Return M^2 / N^2: the largest error of a product whose factors lie in [-M, M].

    A product is ((x + y)^2 - (x - y)^2) / 4, and a square over [-2M, 2M] in N pieces is too large by at most
    4 M^2 / N^2. Attained at x = y in the middle of a piece. Beyond the bound nothing is promised.

    Example:
        >>> product_error(2.0, 100)
        0.0004
    """
    return (bound / knots) ** 2


def reciprocal_error(low: float, high: float, knots: int) -> float:
    """Return (rho - 1)^2 / (4 rho), rho = (high / low)^(1 / N): the largest relative error of 1 / b on [low, high].

    Chords over N geometric pieces are never below 1 / b. Attained in the middle of every piece.

    Example:
        >>> reciprocal_error(1.0, 16.0, 2)      # rho = 4
        0.5625
    """
    excess = expm1(log(high / low) / knots)
    return excess**2 / (4 * (1 + excess))


def quotient_error(low: float, high: float, bound: float, knots: int, quotient: float) -> float:
    """Return the largest error of a quotient of this size, with numerator in [-M, M] and divisor in [low, high].

    It is abs(quotient) times `reciprocal_error`, and M / (low N^2) for the product with the inverse, which is
    scaled to end at M. A numerator that is a constant channel has only the first part.

    Example:
        >>> quotient_error(1.0, 16.0, 2.0, 2, quotient=1.0)
        1.0625
    """
    return abs(quotient) * reciprocal_error(low, high, knots) + bound / (low * knots**2)


@dataclass(frozen=True)
class ReLU(Primitives):
    """Units relu(b), each with the constant 1 as its other side.

    Attributes:
        reciprocal_range: (b_min, B); below it 1 / b_min is returned, above it 1 / B.
        bound: M, the largest absolute value of a factor.
        knots: N, even: pieces of a square and of a reciprocal.
    """

    reciprocal_range: tuple[float, float] = (1e-2, 1e2)
    bound: float = 8.0
    knots: int = 256
    name: ClassVar[str] = "relu"

    def rewrite(self, program: Program) -> Program:
        """Return the program with every quotient as a reciprocal and a product; 1 / b is native."""
        return invert_before_dividing(program, self._invert, native=lambda term: term.factors == ("one",))

    def move(self, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return two units, relu(x) - relu(-x): one of them is 0 and the other exact."""
        return [_unit([(column, sign * c) for column, c in parts], sign, one) for sign in (1.0, -1.0)]

    def multiply(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Return 2 N units for a product, N for a square, 2 where a factor is a constant channel.

        Where that channel is off, both units stay shut.
        """
        if x.constant is not None and y.constant is None:
            x, y = y, x
        if y.constant is not None:
            shut = [(one, -self.bound), (y.column, self.bound / y.constant)]
            weight = coefficient * y.constant
            return [_unit([(x.column, sign), *shut], sign * weight, one) for sign in (1.0, -1.0)]
        square = self._square([(x.column, 1.0), (y.column, 1.0)], coefficient / 4, one)
        if x.column == y.column:
            return square
        return square + self._square([(x.column, 1.0), (y.column, -1.0)], -coefficient / 4, one)

    def divide(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Return N + 2 units for coefficient / y: chords between geometric knots, kinks adding up from the right.

        From the right every kink but the last adds, so nothing cancels, however wide the range.
        """
        if x.column != one:
            raise InputError("ReLU units only divide the constant 1: rewrite the program before it is lowered.")
        low, high = self.reciprocal_range
        t = [low * (high / low) ** (i / self.knots) for i in range(self.knots)] + [high]
        slopes = [1 / (left * right) for left, right in pairwise(t)]
        kinks = [-slopes[0], *(left - right for left, right in pairwise(slopes)), slopes[-1]]
        units = [
            _unit([(one, 1.0), (y.column, -1 / knot)], coefficient * kink * knot, one)
            for knot, kink in zip(t, kinks, strict=True)
        ]
        return [_unit([(one, 1.0)], coefficient / high, one), *units]

    def rectify(self, coefficient: float, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return one unit, exact."""
        return [_unit(parts, coefficient, one)]

    @property
    def options(self) -> dict[str, Any]:
        """Its range, bound and knots."""
        return {"reciprocal_range": self.reciprocal_range, "relu_bound": self.bound, "relu_knots": self.knots}

    def _square(self, parts: list[Entry], weight: float, one: int) -> list[Unit]:
        """Return N units for weight * s^2, s in [-2M, 2M], even in s and exactly 0 at 0."""
        piece = 4 * self.bound / self.knots
        units = []
        for i in range(self.knots // 2):
            for sign in (1.0, -1.0):
                signed = [(column, sign * c) for column, c in parts]
                units.append(_unit([*signed, (one, -i * piece)], weight * piece * (2 if i else 1), one))
        return units

    def _invert(self, divisor: Channel) -> Inversion:
        """Return one gate for M b_min / b, a multiple of 1 / b that ends at the bound of products."""
        b, x, top = divisor.name, f"inverse_{divisor.name}", self.bound * self.reciprocal_range[0]
        one_over = Gate(f"1/{b}", f"{x} = {top:.4g} / {b}", ((x, (Term(top, ("one",), b),)),))
        return Inversion(Channel(x, divisor.size, f"{top:.4g} / {b}, piecewise linear"), (), (one_over,), 1 / top)


def _unit(b: Sequence[Entry], weight: float, one: int) -> Unit:
    return Unit(((one, 1.0),), "relu", tuple(b), weight)
