from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import platformdirs
import pytest

from ridgeformer.core.errors import DataFileError, FetchError
from ridgeformer.datasets import cache
from ridgeformer.datasets import cache as module
from ridgeformer.datasets.cache import ENVIRONMENT, cannot_write, datasets_folder, root, workspace


def test_the_argument_beats_the_variable_beats_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert root(tmp_path / "mine") == tmp_path / "mine"
    assert root() == tmp_path / "cache"
    monkeypatch.setenv(ENVIRONMENT, "")
    assert root() == platformdirs.user_cache_path("ridgeformer")
    monkeypatch.delenv(ENVIRONMENT)
    assert root() == platformdirs.user_cache_path("ridgeformer")


def test_the_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert root("~/c") == tmp_path / "c"


def test_datasets_have_a_folder_of_their_own(tmp_path: Path) -> None:
    assert datasets_folder() == tmp_path / "cache" / "datasets"


def test_the_error_says_which_variable_to_set(tmp_path: Path) -> None:
    line = str(cannot_write(tmp_path, OSError(28, "No space left on device")))
    assert "No space left on device" in line
    assert "set RIDGEFORMER_CACHE" in line


def test_it_is_there_and_then_it_is_not(tmp_path: Path) -> None:
    with workspace(tmp_path / "new", "tiny") as work:
        assert work.is_dir()
        assert work.parent == tmp_path / "new"
    assert list((tmp_path / "new").iterdir()) == []


def test_an_exception_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def killed() -> None:
        with workspace(tmp_path, "tiny") as work:
            (work / "half").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert list(tmp_path.glob(".*")) == []


def test_a_cache_that_is_a_file_says_which_variable_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FetchError, match=r"cannot write to the cache.*RIDGEFORMER_CACHE"),
        workspace(tmp_path / "file", "t"),
    ):
        pass


def left_by_a_killed_process(folder: Path, name: str, *, age: float = 0) -> Path:
    """Its lock file is there and no one holds it."""
    left = folder / name
    left.mkdir()
    (left / "owner.lock").touch()
    (left / "half").touch()
    made = left.stat().st_mtime - age
    os.utime(left, (made, made))
    return left


def test_what_a_killed_process_left_is_removed_next_time(tmp_path: Path) -> None:
    left = left_by_a_killed_process(tmp_path, ".other-x")
    with workspace(tmp_path, "tiny"):
        assert not left.exists()


def test_what_a_living_process_uses_stays(tmp_path: Path) -> None:
    with workspace(tmp_path, "tiny") as one:
        os.utime(one, (0, 0))
        with workspace(tmp_path, "tiny") as two:
            assert one.is_dir()
            assert one != two


def test_a_directory_without_a_lock_is_judged_by_age(tmp_path: Path) -> None:
    old, new = tmp_path / ".tiny-old", tmp_path / ".tiny-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (0, 0))
    with workspace(tmp_path, "tiny"):
        assert not old.exists()
        assert new.exists()


def test_without_locks_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fcntl", None)
    old = left_by_a_killed_process(tmp_path, ".tiny-old", age=module.STALE_SECONDS + 60)
    new = left_by_a_killed_process(tmp_path, ".tiny-new")
    with workspace(tmp_path, "tiny"):
        assert not old.exists()
        assert new.exists()


def test_other_files_in_the_cache_stay(tmp_path: Path) -> None:
    (tmp_path / "mnist.npz").touch()
    (tmp_path / ".hidden-file").touch()
    with workspace(tmp_path, "tiny"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [".hidden-file", "mnist.npz"]


def test_gone_meanwhile_is_no_trouble(tmp_path: Path) -> None:
    assert not module._abandoned(tmp_path / "gone")


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
