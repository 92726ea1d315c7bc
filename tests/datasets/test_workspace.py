from __future__ import annotations

import os
from pathlib import Path

import pytest

from ridgeformer.core.errors import FetchError
from ridgeformer.datasets import workspace as module
from ridgeformer.datasets.cache import workspace


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
