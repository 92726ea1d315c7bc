"""Values of a run that is being planned, each made once: what is known of them before any data is worked out here.

Some rows depend on no data: which tokens are supports, how many came before, a counter of the steps. They are computed
when the run is planned. Others are known to be zero on most tokens, because such a row multiplies them: instructions
act on the tokens where something may be nonzero, and on no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeformer.compiler.execution.kernel import Code
from ridgeformer.compiler.execution.operations import Where

__all__ = ["ONE", "ZERO", "Kind", "Made", "Values"]

ZERO, ONE = 0, 1
"""Values that are there from the start: the scalars 0 and 1."""

Kind = Literal["row", "scalar", "matrix"]


class Made(NamedTuple):
    """An instruction of the kernel: which value it makes of which; -1 is none. Stores make no value but a place."""

    code: Code
    to: int
    base: int
    a: int
    b: int
    low: int
    high: int
    c: float

    @property
    def reads(self) -> tuple[int, ...]:
        """Values it reads."""
        return tuple(value for value in (self.base, self.a, self.b) if value >= 0)

    @property
    def writes(self) -> tuple[int, ...]:
        """Values it makes."""
        return () if self.code in (Code.STORE, Code.SPREAD) else (self.to,)


@dataclass
class Values:
    """Values, the instructions that make them, and what is known of them.

    Attributes:
        total: Tokens of the sequence.
        dtype: Of all numbers.
        least: Largest divisor that is taken for zero.
        kinds: The kind of every value.
        constants: Scalars that are known beforehand.
        fixed: Rows that are known beforehand.
        hulls: The tokens between which a row may be nonzero; all of them unless given.
        makers: The instruction that makes a value, if the kernel does.
        known: Instruction to its value.
    """

    total: int
    dtype: np.dtype[Any]
    least: float
    kinds: list[Kind] = field(default_factory=lambda: ["scalar", "scalar"])
    constants: dict[int, float] = field(default_factory=lambda: {ZERO: 0.0, ONE: 1.0})
    fixed: dict[int, NDArray[Any]] = field(default_factory=dict)
    hulls: dict[int, tuple[int, int]] = field(default_factory=dict)
    makers: dict[int, Made] = field(default_factory=dict)
    made: list[Any] = field(default_factory=list)
    known: dict[tuple[object, ...], int] = field(default_factory=dict)

    def value(self, kind: Kind) -> int:
        """Return a new value."""
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def number(self, number: float) -> int:
        """Return a scalar that is known."""
        if number in (0.0, 1.0):
            return ZERO if number == 0 else ONE
        key = ("number", number)
        if key not in self.known:
            self.known[key] = self.value("scalar")
            self.constants[self.known[key]] = number
        return self.known[key]

    def fixed_row(self, row: NDArray[Any]) -> int:
        """Return a row that is known."""
        key = ("fixed", row.tobytes())
        if key not in self.known:
            value = self.known[key] = self.value("row")
            self.fixed[value] = row
            some = row.nonzero()[0]
            self.hulls[value] = (int(some[0]), int(some[-1]) + 1) if len(some) else (0, 0)
        return self.known[key]

    def hull(self, value: int) -> tuple[int, int]:
        """Return between which tokens a row may be nonzero."""
        return self.hulls.get(value, (0, self.total))

    def make(self, code: Code, c: float, base: int, a: int, b: int, low: int = 0, high: int | None = None) -> int:
        """Return the value of an instruction, added unless the same is there or nothing is left to do."""
        low, high = self._within(code, a, b, low, self.total if high is None else high)
        if c == 0.0 and base >= 0:
            return base
        if low >= high and code < Code.SUM:
            return base if base >= 0 else self.fixed_row(np.zeros(self.total, self.dtype))
        if low >= high and code in (Code.SUM, Code.DOT):
            return base
        if code == Code.MULTIPLY:
            code, c, a, b = self._scaled(c, a, b, low, high)
        if code == Code.SCALE and (c, b, base) == (1.0, ONE, -1):
            first, last = self.hull(a)
            if low <= first and last <= high:
                return a
        key = (code, c, base, a, b, low, high)
        if key not in self.known:
            one = Made(code, -1, base, a, b, low, high, c)
            folded = self._folded(one)
            self.known[key] = self._add(one) if folded is None else folded
        return self.known[key]

    def _add(self, one: Made) -> int:
        """Return the new value of an instruction."""
        scalar = Code.SUM <= one.code <= Code.SQUASH
        to = self.value("scalar" if scalar else "row")
        self.makers[to] = one._replace(to=to)
        self.made.append(self.makers[to])
        if not scalar and one.code not in (Code.SIGMOID, Code.WEIGH):
            first, last = self.hull(one.base) if one.base >= 0 else (one.low, one.high)
            self.hulls[to] = (min(first, one.low), max(last, one.high)) if first < last else (one.low, one.high)
        return to

    def _within(self, code: Code, a: int, b: int, low: int, high: int) -> tuple[int, int]:
        """Return the tokens on which an instruction adds anything but zero."""
        if (code in (Code.FILL, Code.INVERT) and a == ZERO) or (code in (Code.SCALE, Code.SUM) and b == ZERO):
            return low, low
        reads = {Code.SCALE: (a,), Code.MULTIPLY: (a, b), Code.DIVIDE: (a,), Code.RECTIFY: (a,), Code.WEIGH: (a,),
                 Code.SUM: (a,), Code.DOT: (a, b)}.get(code, ())  # fmt: skip
        for value in reads:
            first, last = self.hull(value)
            low, high = max(low, first), min(high, last)
        return low, max(low, high)

    def _scaled(self, c: float, a: int, b: int, low: int, high: int) -> tuple[Code, float, int, int]:
        """Return a product with a row that is known, and the same on all these tokens, as a multiple."""
        for one, other in ((a, b), (b, a)):
            row = self.fixed.get(other)
            if row is not None and one not in self.fixed and (row[low:high] == row[low]).all():
                return Code.SCALE, c * float(row[low]), one, ONE
        return Code.MULTIPLY, c, a, b

    def _folded(self, one: Made) -> int | None:
        """Return the value of an instruction on values that are known; None if they are not, or it overflows."""
        given: list[Any] = []
        for value in (one.base, one.a, one.b):
            known = self.fixed.get(value, self.constants.get(value)) if value >= 0 else 0.0
            if known is None:
                return None
            given.append(known if isinstance(known, np.ndarray) else self.dtype.type(known))
        with np.errstate(all="ignore"):
            base, a, b = given
            result = evaluate(one, base, a, b, self.total, self.least)
        if not np.isfinite(result).all():
            return None
        if isinstance(result, np.ndarray):
            return self.fixed_row(result.astype(self.dtype))
        return self.number(float(result))

    def is_row(self, value: int) -> bool:
        """Whether tokens may hold different numbers."""
        return self.kinds[value] == "row"

    def row(self, value: int) -> int:
        """Return a value as a row."""
        return value if self.is_row(value) else self.make(Code.FILL, 1.0, -1, value, ONE)

    def combine(self, columns: Sequence[int], weights: Sequence[float], before: Sequence[int]) -> int:
        """Return a sum of multiples of columns."""
        total = ZERO
        for column, weight in zip(columns, weights, strict=True):
            if weight == 1.0 and total == ZERO:
                total = before[column]
            elif weight != 0.0:
                total = self.product(total, weight, (before[column],))
        return total

    def product(self, base: int, c: float, factors: Sequence[int], where: Where = None) -> int:
        """Return base + c times the factors."""
        if base == ZERO and c == 1.0 and where is None and len(factors) == 1:
            return factors[0]
        rows, numbers = [v for v in factors if self.is_row(v)], [v for v in factors if not self.is_row(v) and v != ONE]
        while len(numbers) > (1 if rows else 2):
            numbers[:2] = [self.make(Code.TIMES, 1.0, ZERO, numbers[0], numbers[1])]
        while len(rows) > 2:
            rows[:2] = [self.make(Code.MULTIPLY, 1.0, -1, rows[0], rows[1])]
        if len(rows) == 2 and numbers:
            rows[0], numbers = self.make(Code.SCALE, 1.0, -1, rows[0], numbers[0]), []
        numbers += [ONE] * (2 - len(numbers))
        if not rows:
            if where is None and not self.is_row(base):
                return self.make(Code.TIMES, c, base, numbers[0], numbers[1])
            both = numbers[0] if numbers[1] == ONE else self.make(Code.TIMES, 1.0, ZERO, numbers[0], numbers[1])
            return self.onto(Code.FILL, c, base, both, ONE, where)
        if len(rows) == 1:
            return self.onto(Code.SCALE, c, base, rows[0], numbers[0], where)
        return self.onto(Code.MULTIPLY, c, base, rows[0], rows[1], where)

    def onto(self, code: Code, c: float, base: int, a: int, b: int, where: Where) -> int:
        """Return the row base + ... on some tokens or on all."""
        if where is None:
            return self.make(code, c, -1 if base == ZERO else self.row(base), a, b)
        base = self.row(base)
        for span in where:
            base = self.make(code, c, base, a, b, span.start, span.stop)
        return base

    def quotient(self, base: int, c: float, a: int, b: int, where: Where) -> int:
        """Return base + c a / b."""
        if self.is_row(b):
            return self.onto(Code.DIVIDE if self.is_row(a) else Code.INVERT, c, base, a, b, where)
        if self.is_row(a) or self.is_row(base) or where is not None:
            return self.product(base, c, (a, self.make(Code.OVER, 1.0, ZERO, ONE, b)), where)
        return self.make(Code.OVER, c, base, a, b)

    def total_of(self, c: float, a: int, b: int, span: slice) -> int:
        """Return the scalar c times the sum of a b over some tokens."""
        a, b = (a, b) if self.is_row(a) else (b, a)
        if not self.is_row(a):
            return self.product(ZERO, c * (span.stop - span.start), (a, b))
        low, high, by = span.start, span.stop, self.makers.get(a)
        if b == ONE and by is not None and by.code == Code.MULTIPLY and by.base < 0:
            c, a, b, low, high = c * by.c, by.a, by.b, max(low, by.low), min(high, by.high)
        code = Code.DOT if self.is_row(b) else Code.SUM
        return self.make(code, c, ZERO, a, b, low, high)


def evaluate(one: Made, base: Any, a: Any, b: Any, total: int, least: float) -> Any:
    """Return what the kernel would make, a row or a number, of operands that are rows or numbers."""
    code, c, some = one.code, one.c, slice(one.low, one.high)
    if code >= Code.SUM:
        guard = np.inf if code == Code.OVER and b <= least else b
        part = a[some] if isinstance(a, np.ndarray) else a
        made: dict[Code, Callable[[], Any]] = {
            Code.SUM: lambda: base + c * b * part.sum(),
            Code.DOT: lambda: base + c * (part * b[some]).sum(),
            Code.PICK: lambda: part[0],
            Code.TIMES: lambda: base + c * a * b,
            Code.OVER: lambda: base + c * a / guard,
            Code.CUT: lambda: base + c * np.maximum(a, 0),
            Code.SQUASH: lambda: 1 / (1 + np.exp(-a)),
        }
        return made[code]()
    x, z = (side[some] if isinstance(side, np.ndarray) else side for side in (a, b))
    if code in (Code.DIVIDE, Code.INVERT):
        z = np.where(z <= least, np.inf, z)
    result = np.zeros(total, np.result_type(a, b)) + base
    added: dict[Code, Callable[[], Any]] = {
        Code.FILL: lambda: c * x,
        Code.SCALE: lambda: c * z * x,
        Code.MULTIPLY: lambda: c * x * z,
        Code.DIVIDE: lambda: c * x / z,
        Code.INVERT: lambda: c * x / z,
        Code.RECTIFY: lambda: c * np.maximum(x, 0),
        Code.SIGMOID: lambda: 1 / (1 + np.exp(-x)),
    }
    result[some] += added[code]()
    return result
