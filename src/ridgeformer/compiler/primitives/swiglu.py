"""Stock SwiGLU units: X <- X + [(X W_a) * silu(X W_b)] W_d, with nothing added.

silu(b) a - silu(-b) a = a b is an identity, and its halves have the same sign, so that two units make a
product to rounding. A reciprocal then takes products only, by Newton's iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log, log1p, log2
from typing import Any, ClassVar

from ridgeformer.compiler.primitives.quotients import Inversion, invert_before_dividing
from ridgeformer.compiler.primitives.units import Entry, Operand, Primitives, Unit
from ridgeformer.core.errors import InputError
from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Channel, Gate, Program

__all__ = ["SwiGLU", "newton_error", "newton_sweeps", "rectifier_error"]

SHARP = 2.0**40
"""silu(SHARP x) / SHARP is max(0, x) but for x within some 1 / SHARP of zero."""

OPEN = 64.0
"""silu(64) = 64 without any rounding in float32 and float64, so a gate held there scales by a power of two."""

TOLERANCE = 1e-14
"""Relative error that the sweeps may leave at the low end of the range."""

BLOCK = 8
"""Sweeps between two measurements of what is missing; squaring alone would multiply its rounding by 2^sweeps."""


def newton_sweeps(low: float, high: float, tolerance: float = TOLERANCE) -> int:
    """Return how many sweeps bring 1 / b within a relative `tolerance` for every b in [low, high].

    It is the least N with exp(-2^N low / high) <= tolerance, as every sweep squares 1 - b x.

    Example:
        >>> [newton_sweeps(1 / span, 1.0) for span in (1e4, 1e8, 1e12)]
        [19, 32, 45]
    """
    return max(1, ceil(log2(high / low * log(1 / tolerance))))


def newton_error(b: float, high: float, sweeps: int) -> float:
    """Return 1 - b x after `sweeps` sweeps from x = 1 / high, for 0 <= b <= high: (1 - b / high)^(2^sweeps).

    It is never negative: the sweeps approach 1 / b from below, and a b too small for them gets too small an
    inverse, never too large a one. Round-off, some units in the last place, is not counted.

    Example:
        >>> newton_error(1.0, 2.0, 1), newton_error(0.0, 2.0, 9)
        (0.25, 1.0)
    """
    return exp(2.0**sweeps * log1p(-b / high)) if b < high else 0.0


def rectifier_error() -> float:
    """Return the largest error of max(0, x) = silu(2^40 x) / 2^40: x sigmoid(-x), at most 0.27847, over 2^40.

    Attained at x = 1.2785 / 2^40, from either side of zero. Multiplying by a power of two rounds nothing.

    Example:
        >>> rectifier_error() < 2.6e-13
        True
    """
    return 0.278465 / SHARP


@dataclass(frozen=True)
class SwiGLU(Primitives):
    """Units a * silu(b) and no others.

    Divisors must be positive, as those of every program here are: weights of a softmax, curvatures p'Ap,
    squared residuals, diagonals and bounds. Between b_min and B an inverse is exact to rounding. Below b_min
    it is too small, at most 2^sweeps / B, so a converged network idles. Above 2 B the sweeps diverge.

    Attributes:
        reciprocal_range: (b_min, B).
    """

    reciprocal_range: tuple[float, float] = (1e-12, 1e4)
    name: ClassVar[str] = "swiglu"

    @property
    def sweeps(self) -> int:
        """Newton sweeps of a reciprocal over the whole range."""
        return newton_sweeps(*self.reciprocal_range)

    def range_of(self, divisor: Channel) -> tuple[float, float]:
        """Return the range in which a divisor is inverted: no further than the program bounds it."""
        low, high = self.reciprocal_range
        return (low, high) if divisor.most is None or divisor.most <= low else (low, min(high, divisor.most))

    def rewrite(self, program: Program) -> Program:
        """Return the program with every quotient as Newton sweeps and a product."""
        return invert_before_dividing(program, self._invert, native=lambda term: False, early=True)

    def move(self, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return one unit whose gate is held open at 64: x * silu(64) / 64 = x, bit for bit."""
        return [Unit(tuple(parts), "silu", ((one, OPEN),), 1 / OPEN)]

    def multiply(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Return two units, silu(y) x - silu(-y) x."""
        a = ((x.column, coefficient),)
        return [Unit(a, "silu", ((y.column, sign),), sign) for sign in (1.0, -1.0)]

    def divide(self, coefficient: float, x: Operand, y: Operand, one: int) -> list[Unit]:
        """Refuse: `rewrite` leaves no quotient."""
        raise InputError("SwiGLU units do not divide: rewrite the program before it is lowered.")

    def rectify(self, coefficient: float, parts: Sequence[Entry], one: int) -> list[Unit]:
        """Return one unit, silu(2^40 x) / 2^40; see `rectifier_error`."""
        return [Unit(((one, coefficient),), "silu", tuple((column, SHARP * c) for column, c in parts), 1 / SHARP)]

    @property
    def options(self) -> dict[str, Any]:
        """Its range."""
        return {"reciprocal_range": self.reciprocal_range, "relu_bound": None, "relu_knots": None}

    def _invert(self, divisor: Channel) -> Inversion:
        """Return the sweeps x += x m, m = m m, from x = 1 / B and m = 1 - b / B.

        They are Newton's x <- x (2 - b x), as m = 1 - b x throughout, at one sublayer a sweep. What is missing is
        measured afresh after every block and before the last sweep: that is what makes Newton correct itself.
        """
        b, (low, high) = divisor.name, self.range_of(divisor)
        sweeps = newton_sweeps(low, high)
        x, m = f"inverse_{b}", f"missing_{b}"
        double, square = (Term(1.0, (x,)), Term(1.0, (x, m))), (Term(1.0, (m, m)),)
        measured = (Term(1.0, ("one",)), Term(-1.0, (b, x)))
        first = ((x, (Term(1 / high, ("one",)),)), (m, (Term(1.0, ("one",)), Term(-1 / high, (b,)))))
        gates = [Gate(f"1/{b}: start", f"{x} = 1 / {high:g}, {m} = 1 - {b} / {high:g}", first)]
        for sweep in range(1, sweeps):
            if sweep > 1 and sweep % BLOCK == 1:
                gates.append(Gate(f"1/{b}: measure {sweep}", f"{m} = 1 - {b} * {x}", ((m, measured),)))
            caption = f"{x} += {x} * {m}, {m} = {m} * {m}"
            gates.append(Gate(f"1/{b}: sweep {sweep}", caption, ((x, double), (m, square))))
        gates += [
            Gate(f"1/{b}: measure {sweeps}", f"{m} = 1 - {b} * {x}", ((m, measured),)),
            Gate(f"1/{b}: sweep {sweeps}", f"{x} += {x} * {m}", ((x, double),), (m,)),
        ]
        inverse = Channel(x, divisor.size, f"1 / {b}, by {sweeps} Newton sweeps")
        return Inversion(inverse, (Channel(m, divisor.size, f"1 - {b} * {x}"),), tuple(gates))
