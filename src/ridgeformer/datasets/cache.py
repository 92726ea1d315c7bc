"""The cache: one .npz a dataset and a small record beside it, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from ridgeformer.core.errors import DataFileError
from ridgeformer.core.reading import explained, open_regular, read_regular
from ridgeformer.datasets.locations import cannot_write
from ridgeformer.datasets.npy import load_npz

__all__ = ["is_intact", "is_stored", "read", "store"]

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
