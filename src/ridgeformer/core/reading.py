"""Reading untrusted files: regular files only, bounded memory, and one sentence for every failure."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from ridgeformer.core.errors import DataFileError, RidgeformerError
from ridgeformer.core.memory import is_out_of_memory, show_bytes

__all__ = ["check_unpacked", "explained", "one_line", "open_regular", "read_regular"]

UNPACKED_ALLOWANCE = 64 * 2**20
"""Bytes any compressed file may unpack to."""

UNPACKED_RATIO = 100
"""Beyond the allowance: bytes in memory for one byte of the file. Deflate reaches 1,032, Parquet has no limit."""


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading; pipes and devices are refused without blocking.

    The type is read from the open descriptor, so replacing the file after the check has no effect.

    Raises:
        DataFileError: missing, a directory, a pipe, a device, or not allowed to be read.
    """
    neighbours: list[str] = []
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        with suppress(OSError):
            neighbours = [neighbour.name for neighbour in path.parent.iterdir()]
        near = difflib.get_close_matches(path.name, neighbours, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else "check the path."
        raise DataFileError(f"{path} does not exist: {hint}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataFileError(f"{path} cannot be opened ({why}): check the path and its permissions.") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise DataFileError(f"{path} is a directory; a file was expected: give the path of a file in it.")
        raise DataFileError(f"{path} is a pipe or a device; a regular file was expected: save the data to one.")
    with os.fdopen(handle, "rb") as file:
        yield file


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a regular file, at most `most` of them.

    Raises:
        DataFileError: it cannot be read, or it is larger.
    """
    with open_regular(path) as file, explained(path):
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise DataFileError(
                f"{path} has {show_bytes(size)}; at most {show_bytes(most)} were expected: it is another kind of file."
            )
        return file.read()


@contextmanager
def explained(
    path: Path | str, problem: str = "is truncated or damaged", advice: str = "save it again"
) -> Iterator[None]:
    """Turn any exception of a parser inside the block into one sentence about the file.

    Damaged input makes parsers raise anything (KeyError, RecursionError, zlib.error, RuntimeError, ...), so every
    `Exception` is caught; errors of this library pass unchanged.

    Raises:
        DataFileError: "PATH PROBLEM (what the parser said): ADVICE."

    Example:
        >>> with explained(Path("data.npz")):
        ...     {}["X"]
        Traceback (most recent call last):
        ridgeformer.core.errors.DataFileError: data.npz is truncated or damaged (KeyError: 'X'): save it again.
    """
    try:
        yield
    except RidgeformerError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise DataFileError(
                f"{path} needs more memory than is free ({one_line(error)}): use a part of it, or a larger machine."
            ) from error
        raise DataFileError(f"{path} {problem} ({one_line(error)}): {advice}.") from error


def check_unpacked(what: str, unpacked: int, packed: int) -> None:
    """Refuse content that would take far more memory than its file: a decompression bomb or a damaged header.

    `unpacked` counts the bytes that `what` says it will take in memory, `packed` those of the whole file.

    Raises:
        DataFileError: more than 64 MiB and more than 100 times the file.

    Example:
        >>> check_unpacked("X of data.npz", 2**30, 2**20)
        Traceback (most recent call last):
        ridgeformer.core.errors.DataFileError: X of data.npz would take 1.0 GiB in memory, more than 100 times its ...
    """
    if unpacked > UNPACKED_ALLOWANCE + UNPACKED_RATIO * packed:
        raise DataFileError(
            f"{what} would take {show_bytes(unpacked)} in memory, more than {UNPACKED_RATIO} times its file of "
            f"{packed:,} bytes: if that is right, save it without compression."
        )


def one_line(error: BaseException) -> str:
    r"""Return the type and message of an error in one line of at most 200 characters.

    Example:
        >>> one_line(ValueError("first\nsecond"))
        'ValueError: first second'
    """
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")[:200]
