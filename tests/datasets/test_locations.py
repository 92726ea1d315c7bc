from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from ridgeformer.datasets.cache import ENVIRONMENT, cannot_write, datasets_folder, root


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
