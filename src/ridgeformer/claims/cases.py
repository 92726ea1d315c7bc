"""How many cases a check tries: one number for every search and every draw of a run."""

from __future__ import annotations

__all__ = ["DEEP_CASES", "NORMAL_CASES", "drawn"]

NORMAL_CASES, DEEP_CASES = 2_000, 100_000
"""Cases of each search in a normal and in a deep run."""


def drawn(cases: int, normal: int) -> int:
    """Return how many draws a check makes that makes `normal` of them in a normal run, where a search has `cases`.

    Example:
        >>> drawn(NORMAL_CASES, 20), drawn(DEEP_CASES, 20), drawn(1, 20)
        (20, 1000, 1)
    """
    return max(1, -(-normal * cases // NORMAL_CASES))
