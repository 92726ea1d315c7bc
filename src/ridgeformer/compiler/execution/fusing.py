"""Instructions that belong together, joined: a sum of many rows, or one row against many, is one pass over memory.

`x'w` of sixteen features is sixteen instructions that each read and write the same row, and `mean r x` sixteen that
each read `r` again. Joined, each is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ridgeformer.compiler.execution.kernel import Code
from ridgeformer.compiler.execution.tracing import Formed, Moved
from ridgeformer.compiler.execution.values import ZERO, Made

__all__ = ["Joined", "Step", "join"]


@dataclass(frozen=True)
class Joined:
    """Several instructions as one.

    Attributes:
        code: LINEAR and BILINEAR add terms to a row, DOTS makes one scalar a term.
        to: Values made.
        base: What the terms are added to; -1 is nothing.
        a: The row that DOTS multiplies with all others; -1 otherwise.
        terms: (row, scalar or row, number); for DOTS (row, place among `to`, number).
        low, high: Tokens.
    """

    code: Code
    to: tuple[int, ...]
    base: int
    a: int
    terms: tuple[tuple[int, int, float], ...]
    low: int
    high: int

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows that are read on the tokens from `low` to `high`."""
        second = [b for _, b, _ in self.terms] if self.code == Code.BILINEAR else []
        return tuple(value for value in (self.a, *(a for a, _, _ in self.terms), *second) if value >= 0)

    @property
    def reads(self) -> tuple[int, ...]:
        """Values it reads."""
        scalars = [b for _, b, _ in self.terms] if self.code == Code.LINEAR else []
        return (*self.rows, *scalars, *((self.base,) if self.base >= 0 else ()))

    @property
    def writes(self) -> tuple[int, ...]:
        """Values it makes."""
        return self.to


Step = Made | Formed | Moved | Joined
"""One entry of the list that becomes a table."""


def join(made: Sequence[Made | Formed | Moved]) -> list[Step]:
    """Return the same values from fewer instructions: chains of added rows, and neighbouring products with one row.

    Example:
        >>> chain = [Made(Code.SCALE, 5, -1, 2, 1, 0, 9, 1.0), Made(Code.SCALE, 6, 5, 3, 1, 0, 9, 1.0)]
        >>> (joined,) = join(chain)
        >>> joined.code.name, joined.to, joined.terms
        ('LINEAR', (6,), ((2, 1, 1.0), (3, 1, 1.0)))
    """
    used = Counter(value for one in made for value in one.reads)
    found: list[Step | None] = []
    chains: dict[int, int] = {}  # a sum of terms to its place
    for one in made:
        joined = _chain(one) if isinstance(one, Made) else None
        if joined is not None:
            place = chains.get(joined.base, -1) if used[joined.base] == 1 else -1
            before = found[place] if place >= 0 else None
            if isinstance(before, Joined) and _alike(before, joined):
                joined = replace(joined, base=before.base, terms=before.terms + joined.terms)
                found[place] = None
            chains[joined.to[0]] = len(found)
            found.append(joined)
            continue
        group = _dots(found[-1], one) if found and isinstance(one, Made) and one.code == Code.DOT else None
        if group is not None:
            found[-1] = group
        else:
            found.append(one)
    return [_alone(one) for one in found if one is not None]


def _chain(one: Made) -> Joined | None:
    """Return an instruction that adds to a row as a sum of one term."""
    if one.code not in (Code.SCALE, Code.MULTIPLY):
        return None
    code = Code.LINEAR if one.code == Code.SCALE else Code.BILINEAR
    return Joined(code, (one.to,), one.base, -1, ((one.a, one.b, one.c),), one.low, one.high)


def _alike(one: Joined, other: Joined) -> bool:
    return (one.code, one.low, one.high) == (other.code, other.low, other.high)


def _alone(one: Step) -> Step:
    """Return a sum of one term as the instruction it was."""
    if not isinstance(one, Joined) or len(one.terms) > 1:
        return one
    ((a, b, c),) = one.terms
    code = Code.SCALE if one.code == Code.LINEAR else Code.MULTIPLY
    return Made(code, one.to[0], one.base, a, b, one.low, one.high, c)


def _dots(last: Step | None, one: Made) -> Joined | None:
    """Return an inner product joined with those just before it that share a row and the tokens."""
    if isinstance(last, Made) and last.code == Code.DOT and last.base == one.base == ZERO:
        shared = next((value for value in (last.a, last.b) if value in (one.a, one.b)), None)
        if shared is None:
            return None
        other = last.b if last.a == shared else last.a
        last = Joined(Code.DOTS, (last.to,), -1, shared, ((other, 0, last.c),), last.low, last.high)
    if not isinstance(last, Joined) or last.code != Code.DOTS or one.base != ZERO:
        return None
    if last.a not in (one.a, one.b) or (last.low, last.high) != (one.low, one.high):
        return None
    other = one.b if one.a == last.a else one.a
    return replace(last, to=(*last.to, one.to), terms=(*last.terms, (other, len(last.to), one.c)))
