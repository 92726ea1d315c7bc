"""A directory to work in that is gone afterwards, even if the process that used it was killed."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from ridgeformer.datasets.locations import cannot_write

__all__ = ["workspace"]

STALE_SECONDS = 2 * 3600
"""Age at which a directory whose lock cannot be asked counts as abandoned."""

_OWNER = "owner.lock"

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # Windows has none: age alone decides there


@contextmanager
def workspace(directory: Path, name: str) -> Iterator[Path]:
    """Give a fresh directory inside `directory`; it is removed with all it holds, however the block ends.

    A process that is killed outright cannot tidy up. The system releases the lock it held, and the next
    workspace in the same place removes what it left.

    Raises:
        FetchError: `directory` cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for left in directory.glob(".*-*"):
            if left.is_dir() and _abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=directory))
        owner = (work / _OWNER).open("wb")
    except OSError as error:
        raise cannot_write(directory, error) from error
    with owner:
        _lock(owner)
        try:
            yield work
        finally:
            owner.close()
            shutil.rmtree(work, ignore_errors=True)


def _lock(file: IO[bytes]) -> bool:
    """Return whether the lock is ours now: False while a living process holds it, or without locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _abandoned(work: Path) -> bool:
    try:
        with (work / _OWNER).open("r+b") as owner:
            if _lock(owner):
                return True
        return fcntl is None and _age(work) > STALE_SECONDS
    except OSError:  # not locked yet, or not ours to open
        return _age(work) > STALE_SECONDS


def _age(work: Path) -> float:
    try:
        return time.time() - work.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0
