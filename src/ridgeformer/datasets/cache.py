"""The cache of fetched data: its place, a directory to work in, one .npz a dataset, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs
from jaxtyping import UInt8

from ridgeformer.core.errors import DataFileError, FetchError
from ridgeformer.core.reading import explained, open_regular, read_regular
from ridgeformer.datasets.npy import load_npz

__all__ = [
    "ENVIRONMENT",
    "cannot_write",
    "datasets_folder",
    "is_intact",
    "is_stored",
    "read",
    "root",
    "store",
    "workspace",
]

ENVIRONMENT = "RIDGEFORMER_CACHE"
"""Environment variable that moves the cache."""


def root(cache_dir: str | Path | None = None) -> Path:
    """Return the cache directory: the argument, else $RIDGEFORMER_CACHE, else the user's cache directory.

    Example:
        >>> root("somewhere").is_absolute()
        True
    """
    chosen = cache_dir if cache_dir is not None else os.environ.get(ENVIRONMENT)
    if chosen is None or str(chosen) == "":
        return platformdirs.user_cache_path("ridgeformer")
    return Path(chosen).expanduser().absolute()


def datasets_folder(cache_dir: str | Path | None = None) -> Path:
    """Return the part of the cache that holds datasets.

    Example:
        >>> datasets_folder("somewhere").name
        'datasets'
    """
    return root(cache_dir) / "datasets"


def cannot_write(directory: Path, error: OSError) -> FetchError:
    """Build the error for a cache that cannot be written."""
    return FetchError(
        f"cannot write to the cache {directory} ({error.strerror or error}): make room, or set {ENVIRONMENT} to a "
        "directory you can write to."
    )


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


MOST_RECORD_BYTES = 2**20


def store(directory: Path, work: Path, name: str, arrays: Mapping[str, Any], *, digest: str, source: str) -> Path:
    """Write the arrays to `work`, then move them into place; the record, moved last, makes them count.

    Raises:
        FetchError: the cache cannot be written.
    """
    data, record = _paths(directory, name)
    try:
        with (work / data.name).open("wb") as file:
            np.savez(file, **arrays)
        facts = {
            "name": name,
            "size": (work / data.name).stat().st_size,
            "sha256": _hash(work / data.name),
            "digest": digest,
            "source": source,
        }
        (work / record.name).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        os.replace(work / data.name, data)
        os.replace(work / record.name, record)
    except OSError as error:
        raise cannot_write(directory, error) from error
    return data


def is_stored(directory: Path, name: str) -> bool:
    """Return whether the file is there with the recorded size; its content is not read."""
    data, record = _paths(directory, name)
    try:
        return bool(data.stat().st_size == _facts(name, record)["size"])
    except (OSError, DataFileError):
        return False


def is_intact(directory: Path, name: str, digest: str) -> bool:
    """Return whether `read` would succeed."""
    try:
        _verify(directory, name, digest)
    except DataFileError:
        return False
    return True


def read(
    directory: Path, name: str, digest: str, part: str
) -> tuple[UInt8[np.ndarray, "n ..."], UInt8[np.ndarray, " n"], str]:
    """Return the images, the class codes and the source of one part, after checking size and sha256.

    Raises:
        DataFileError: nothing was fetched, or the file is not what was stored.
    """
    source = _verify(directory, name, digest)
    path, keys = _paths(directory, name)[0], (f"x_{part}", f"y_{part}")
    images, codes = load_npz(path, lambda stored: keys).values()
    return images, codes, source


def _paths(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}.npz", directory / f"{name}.json"


def _verify(directory: Path, name: str, digest: str) -> str:
    data, record = _paths(directory, name)
    if not (data.is_file() and record.is_file()):
        raise DataFileError(
            f"{name} has not been fetched (looked in {directory}): run `ridgeformer data fetch {name}` once."
        )
    facts = _facts(name, record)
    if data.stat().st_size != facts["size"]:
        raise _damaged(name, data, f"has {data.stat().st_size} bytes; {facts['size']} were stored")
    if facts["digest"] != digest or _hash(data) != facts["sha256"]:
        raise _damaged(name, data, "does not have the sha256 it should have")
    return str(facts["source"])


def _facts(name: str, record: Path) -> dict[str, Any]:
    """Return the entries of a record."""
    with explained(record, "cannot be read as a record", _replacing(name)):
        facts = json.loads(read_regular(record, MOST_RECORD_BYTES))
        return {key: facts[key] for key in ("size", "sha256", "digest", "source")}


def _damaged(name: str, path: Path, what: str) -> DataFileError:
    return DataFileError(f"the cached {path} {what}: {_replacing(name)}.")


def _replacing(name: str) -> str:
    return f"run `ridgeformer data fetch {name} --force` to replace it"


def _hash(path: Path) -> str:
    with open_regular(path) as file, explained(path):
        return hashlib.file_digest(file, "sha256").hexdigest()
