"""Where a condition that fails at a small number begins to hold."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

__all__ = ["bracket"]


def bracket(holds: Callable[[float], bool], start: float, largest: float, tolerance: float) -> tuple[float, float]:
    """Return (low, high) with `holds` false at low, true at high and high - low <= tolerance high.

    From `start` the number doubles until the condition holds; (largest tried, inf) if it does not up to
    `largest`. For a condition that never becomes false again, its first point lies between the two.

    Example:
        >>> low, high = bracket(lambda x: x >= 3.0, start=1.0, largest=100.0, tolerance=1e-6)
        >>> low < 3.0 <= high < 3.00001
        True
    """
    low, high = 0.0, min(start, largest)
    while not holds(high):
        if high >= largest:
            return high, inf
        low, high = high, min(2 * high, largest)
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
