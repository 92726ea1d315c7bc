from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeformer.core.errors import DataFileError, InputError, UnknownNameError
from ridgeformer.datasets.files import PICKLES, load_file

X = np.arange(8.0).reshape(4, 2)
Y = np.array([0.5, 1.5, 2.5, 3.5])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "d.npz", X=X, y=Y)
    np.save(tmp_path / "d.npy", np.column_stack([X, Y]))
    (tmp_path / "d.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for (a, b), y in zip(X, Y, strict=True)))
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y}), tmp_path / "d.parquet")
    return tmp_path


@pytest.mark.parametrize("ending", [".npz", ".npy", ".csv", ".parquet"])
def test_the_same_data_from_every_kind_of_file(folder: Path, ending: str) -> None:
    data = load_file(str(folder / f"d{ending}"))
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, Y)
    assert (data.name, data.task) == ("d", "regression")
    assert f"d{ending}" in data.source


def test_the_ending_may_be_in_capitals(folder: Path) -> None:
    assert load_file((folder / "d.csv").rename(folder / "D.CSV")).n == 4


@pytest.mark.parametrize("ending", PICKLES)
def test_pickles_are_refused_by_name(tmp_path: Path, ending: str) -> None:
    with pytest.raises(DataFileError, match=r"pickle runs code.*never opened.*numpy.savez"):
        load_file(tmp_path / f"model{ending}")


def test_paths_that_are_no_data(folder: Path) -> None:
    with pytest.raises(DataFileError, match=r"is a directory; a file was expected: give the path of a file in it"):
        load_file(folder)
    with pytest.raises(DataFileError, match=r"dd.npz does not exist: did you mean 'd.npz'"):
        load_file(folder / "dd.npz")
    with pytest.raises(DataFileError, match=r"does not exist: check the path"):
        load_file(folder / "none" / "elsewhere.csv")
    (folder / "d.txt").write_text("1 2 3")
    with pytest.raises(DataFileError, match=r"ends in .txt; .npz, .npy, .csv, .parquet were expected"):
        load_file(folder / "d.txt")
    (folder / "plain").write_text("1 2 3")
    with pytest.raises(DataFileError, match=r"ends in nothing"):
        load_file(folder / "plain")


@pytest.mark.parametrize("ending", [".npz", ".npy", ".csv", ".parquet"])
def test_an_empty_file_is_called_empty(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"e{ending}").write_bytes(b"")
    with pytest.raises(DataFileError, match=r"is empty"):
        load_file(tmp_path / f"e{ending}")


@pytest.mark.parametrize("ending", [".npz", ".npy", ".csv", ".parquet"])
def test_noise_under_any_ending_is_one_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"noise{ending}"
    path.write_bytes(np.random.default_rng(0).bytes(4096))
    with pytest.raises((DataFileError, InputError)) as caught:
        load_file(path, target="y" if ending != ".npy" else None)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(DataFileError, match=r"cannot be opened \(Permission denied\): check .* its permissions"):
        load_file(folder / "d.csv")


def test_only_an_npz_has_a_test_part(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no test part.*split\(\)"):
        load_file(folder / "d.csv", part="test")
    with pytest.raises(UnknownNameError, match=r"unknown part 'tset'"):
        load_file(folder / "d.npz", part="tset")
