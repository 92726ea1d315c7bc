"""Errors: every message says what was wrong, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DataFileError",
    "DtypeError",
    "FetchError",
    "InputError",
    "LogitRangeError",
    "NotPositiveSemidefiniteError",
    "ProgramError",
    "RidgeformerError",
    "ShapeError",
    "UnknownNameError",
    "unknown_name",
]


class RidgeformerError(Exception):
    """Base class of this library's errors; the command line prints one as a single line and exits with code 2."""


class InputError(RidgeformerError, ValueError):
    """An argument has a value for which no answer exists (a ridge of zero, a NaN, no rows)."""


class ShapeError(InputError):
    """Two arrays do not fit together."""


class DtypeError(InputError, TypeError):
    """An array holds text, objects or complex numbers where real numbers are needed."""


class UnknownNameError(InputError):
    """A name that is not registered; the message offers the nearest registered one."""


class LogitRangeError(InputError):
    """Attention logits too large for the exponential to be represented in the input's precision."""


class NotPositiveSemidefiniteError(InputError):
    """A kernel for which some vector v has v'Kv < 0 beyond round-off, so ridge regression is undefined."""


class ProgramError(InputError):
    """A program that cannot be compiled; the message begins with the file and the line of the statement.

    Attributes:
        file, line: Where the statement stands.
    """

    def __init__(self, reason: str, file: str = "", line: int = 0) -> None:
        super().__init__(f"{file}, line {line}: {reason}" if file else reason)
        self.file, self.line = file, line


class DataFileError(RidgeformerError):
    """A file that cannot be read as data: missing, truncated, of an unknown format, or with a wrong checksum."""


class FetchError(RidgeformerError):
    """A dataset could not be fetched; nothing was left in the cache."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Build the error for a name that is not known, with the nearest known one.

    Example:
        >>> print(unknown_name("kernel", "exponental", ["dot_product", "exponential"]))
        unknown kernel 'exponental': did you mean 'exponential'? Known: dot_product, exponential.
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return UnknownNameError(f"unknown {kind} {name!r}:{hint} Known: {', '.join(names)}.")
