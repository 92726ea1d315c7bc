"""The options of primitives, checked once: whatever passes here is fit to compile with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeformer.core.checks import positive
from ridgeformer.core.errors import InputError

__all__ = ["CHECKS", "checked_bound", "checked_knots", "checked_range"]

SMALLEST, LARGEST = 1e-30, 1e30
"""Ends of every reciprocal range: inside them no intermediate value leaves float32."""

MOST_KNOTS = 2**16


def checked_range(given: Any) -> tuple[float, float]:
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


def checked_bound(given: Any) -> float:
    """Return relu_bound as a float > 0."""
    return positive(given, "relu_bound", "factors of a product lie between minus it and it")


def checked_knots(given: Any) -> int:
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
