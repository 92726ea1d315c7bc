from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ridgeformer import datasets
from ridgeformer.core.errors import DataFileError, InputError, UnknownNameError


def test_every_name_is_listed_once_with_its_record() -> None:
    infos = datasets.available()
    assert [info.name for info in infos] == list(datasets.REGISTRY)
    ready = {info.name: info.fetched for info in infos}
    assert ready == {"digits": True, "diabetes": True, "wine": True, "mnist": False, "fashion": False, "cifar10": False}
    assert all(info.licence and info.citation and info.origin and info.description for info in infos)


def test_load_by_name(tmp_path: Path) -> None:
    assert datasets.load("wine").n == 178
    assert datasets.load("digits", limit=50).n == 50


@pytest.mark.parametrize("name", ["mnist", "fashion", "cifar10"])
def test_load_before_fetch_says_the_command(name: str) -> None:
    with pytest.raises(DataFileError, match=f"run `ridgeformer data fetch {name}` once"):
        datasets.load(name)


def test_fetch_then_load_through_the_registry(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(datasets.REGISTRY, "tiny", tiny.spec)
    path = datasets.fetch("tiny", source=tiny.tgz(tmp_path / "a.tgz"))
    assert path is not None
    assert path.is_file()
    assert datasets.show("tiny").fetched
    assert datasets.load("tiny", part="test").n == 6
    assert datasets.load("tiny", limit=3).n == 3


def test_a_misspelt_name_gets_a_hint() -> None:
    for call in (datasets.load, datasets.show, datasets.fetch):
        with pytest.raises(UnknownNameError, match=r"unknown dataset 'minst': did you mean 'mnist'"):
            call("minst")


def test_what_looks_like_a_path_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "mine.npz", X=np.eye(6), y=np.array([0, 0, 0, 1, 1, 1]))
    monkeypatch.chdir(tmp_path)
    assert datasets.load("mine.npz").task == "classification"
    assert datasets.load(tmp_path / "mine.npz", limit=2).y.tolist() == [0, 1]
    assert datasets.load("mine.npz", task="regression", limit=99).n == 6
    with pytest.raises(DataFileError, match=r"does not exist"):
        datasets.load("some/where")
    with pytest.raises(DataFileError, match=r"does not exist"):
        datasets.load(Path("mnist"))


def test_target_and_task_belong_to_files() -> None:
    with pytest.raises(InputError, match=r"belong to files; 'digits' has its own"):
        datasets.load("digits", target="y")
    with pytest.raises(InputError, match=r"belong to files"):
        datasets.load("digits", task="regression")


def test_limit_is_at_least_one() -> None:
    with pytest.raises(InputError, match=r"limit is 0; at least one row"):
        datasets.load("digits", limit=0)


def test_nothing_to_fetch_is_fine() -> None:
    assert datasets.fetch("wine") is None
