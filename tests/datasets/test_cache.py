from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, FetchError
from ridgeformer.datasets import cache
from ridgeformer.datasets.cache import workspace

ARRAYS = {
    "x_train": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "y_train": np.array([0, 1, 2], dtype=np.uint8),
    "x_test": np.ones((2, 4), dtype=np.uint8),
    "y_test": np.array([1, 0], dtype=np.uint8),
}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    with workspace(folder, "tiny") as work:
        cache.store(folder, work, "tiny", ARRAYS, digest="d1", source="a test")
    return folder


def test_what_is_stored_is_read_back(stored: Path) -> None:
    images, codes, source = cache.read(stored, "tiny", "d1", "test")
    assert images.tolist() == ARRAYS["x_test"].tolist()
    assert codes.tolist() == [1, 0]
    assert source == "a test"
    assert cache.is_stored(stored, "tiny")
    assert cache.is_intact(stored, "tiny", "d1")
    assert sorted(os.listdir(stored)) == ["tiny.json", "tiny.npz"]


def test_nothing_fetched_says_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"tiny has not been fetched .*`ridgeformer data fetch tiny`"):
        cache.read(tmp_path, "tiny", "d1", "train")
    assert not cache.is_stored(tmp_path, "tiny")


def test_data_without_its_record_does_not_count(stored: Path) -> None:
    (stored / "tiny.json").unlink()
    assert not cache.is_stored(stored, "tiny")
    with pytest.raises(DataFileError, match=r"has not been fetched"):
        cache.read(stored, "tiny", "d1", "train")


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("tiny.npz", flipped, "sha256"),
        ("tiny.npz", lambda data: data[:-1], "bytes; .* were stored"),
        ("tiny.json", lambda data: data[: len(data) // 2], "cannot be read as a record"),
        ("tiny.json", lambda data: b"[]", "cannot be read as a record"),
        ("tiny.json", lambda data: b"{}", "cannot be read as a record"),
    ],
)
def test_damage_is_found_and_the_command_named(
    stored: Path, file: str, damage: Callable[[bytes], bytes], words: str
) -> None:
    (stored / file).write_bytes(damage((stored / file).read_bytes()))
    with pytest.raises(DataFileError, match=f"{file}.*{words}.*`ridgeformer data fetch tiny --force`"):
        cache.read(stored, "tiny", "d1", "train")
    assert not cache.is_intact(stored, "tiny", "d1")


def test_a_copy_of_another_version_is_damaged(stored: Path) -> None:
    with pytest.raises(DataFileError, match=r"--force"):
        cache.read(stored, "tiny", "d2", "train")


def test_a_file_that_cannot_be_read_is_damaged(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(DataFileError, match=r"cannot be opened \(Permission denied\)"):
        cache.read(stored, "tiny", "d1", "train")


def test_a_failed_write_keeps_the_old_copy(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.np, "savez", full)
    with (
        pytest.raises(FetchError, match=r"No space left.*RIDGEFORMER_CACHE"),
        workspace(stored, "tiny") as work,
    ):
        cache.store(stored, work, "tiny", ARRAYS, digest="d1", source="again")
    assert sorted(os.listdir(stored)) == ["tiny.json", "tiny.npz"]
    assert cache.is_intact(stored, "tiny", "d1")


def test_killed_between_the_two_moves_the_data_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = []

    def first_only(source: Path, destination: Path) -> None:
        moves.append(destination)
        if len(moves) == 2:
            raise KeyboardInterrupt
        Path(source).rename(destination)

    monkeypatch.setattr(cache.os, "replace", first_only)
    with pytest.raises(KeyboardInterrupt), workspace(tmp_path, "tiny") as work:
        cache.store(tmp_path, work, "tiny", ARRAYS, digest="d1", source="a test")
    assert not cache.is_stored(tmp_path, "tiny")
    assert not cache.is_intact(tmp_path, "tiny", "d1")


def test_the_record_says_where_from(stored: Path) -> None:
    record = json.loads((stored / "tiny.json").read_text())
    assert record["source"] == "a test"
    assert record["size"] == (stored / "tiny.npz").stat().st_size
