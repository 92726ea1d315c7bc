"""A part of the audit that these data do not allow: the rest goes on, and the page says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ridgeformer.core.errors import RidgeformerError

__all__ = ["Skipped", "attempt"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Skipped:
    """Why a part was left out, in one sentence."""

    reason: str

    def as_dict(self) -> dict[str, str]:
        """Return it as plain values, for JSON."""
        return {"skipped": self.reason}


def attempt(part: Callable[[], Result]) -> Result | Skipped:
    """Return what a part finds, or why these data do not allow it. Errors of the program itself are not caught.

    Example:
        >>> from ridgeformer.core.errors import InputError
        >>> def part():
        ...     raise InputError("row 3 is all zeros.")
        >>> attempt(part)
        Skipped(reason='row 3 is all zeros.')
    """
    try:
        return part()
    except RidgeformerError as error:
        return Skipped(" ".join(str(error).split()))
