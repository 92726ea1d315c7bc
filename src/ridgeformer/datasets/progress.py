"""How far a long operation is: a callback, so that the command line can draw a bar and a test can listen."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[int, int | None, str], object]
"""Called as `progress(done, total, what)`; `total` is None while the size is not known."""


def silent(done: int, total: int | None, what: str) -> None:
    """Report to no one.

    Example:
        >>> silent(1, 2, "reading")
    """
