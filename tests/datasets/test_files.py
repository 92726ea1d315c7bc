from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeformer.core.errors import DataFileError, DtypeError, InputError, ShapeError, UnknownNameError
from ridgeformer.datasets.files import PICKLES, load_file, read_npy, read_npz

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


@pytest.fixture
def npz(tmp_path: Path):
    def write(**arrays: Any) -> Path:
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write


@pytest.fixture
def npy(tmp_path: Path):
    def write(array: Any) -> Path:
        np.save(tmp_path / "data.npy", array)
        return tmp_path / "data.npy"

    return write


@pytest.mark.parametrize(
    "keys", [("X", "y"), ("x", "y"), ("data", "target"), ("x_train", "y_train"), ("X_train", "y_train")]
)
def test_the_usual_keys(npz, keys: tuple[str, str]) -> None:
    data = read_npz(npz(**{keys[0]: X, keys[1]: Y}), None, None, "train")
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, Y)
    assert f"target {keys[1]}" in data.source


def test_the_part_chooses_the_keys(npz) -> None:
    path = npz(x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2])
    assert read_npz(path, None, None, "test").n == 2
    assert read_npz(path, "y_train", None, "train").n == 4


def test_a_target_key_finds_its_features(npz) -> None:
    assert read_npz(npz(X=X, y=Y, label=Y + 1), "label", None, "train").y[0] == 1.5
    assert read_npz(npz(rows=X, label=Y), "label", None, "train").d == 2


def test_images_are_flattened_and_bytes_scaled(npz) -> None:
    images = np.full((4, 2, 3), 255, dtype=np.uint8)
    data = read_npz(npz(X=images, y=np.array([0, 1, 0, 1])), None, None, "train")
    assert (data.image_shape, data.d, data.X.max()) == ((2, 3), 6, 1.0)
    assert "pixels / 255" in data.source
    assert data.classes == ("0", "1")
    assert read_npz(npz(X=images.reshape(4, 6), y=Y), None, None, "train").X.max() == 255.0
    assert read_npz(npz(X=images.astype(float), y=Y), None, None, "train").X.max() == 255.0


def test_several_outputs(npz) -> None:
    assert read_npz(npz(X=X, y=np.ones((4, 3))), None, None, "train").outputs == 3


@pytest.mark.parametrize(
    ("arrays", "target", "part", "error", "words"),
    [
        ({"a": X, "b": Y}, None, "train", InputError, "keys a, b; X and y or .* target=KEY"),
        ({"X": X, "y": Y}, None, "test", InputError, "x_test and y_test .*test part"),
        ({"X": X, "labels": Y}, "label", "train", UnknownNameError, "no key 'label': did you mean 'labels'. Its keys"),
        ({"a": X, "b": X, "t": Y}, "t", "train", InputError, "features are not clear: name them X"),
        ({"X": X, "y": Y}, 0, "train", UnknownNameError, "no key 0"),
        ({"X": X, "y": Y[:3]}, None, "train", ShapeError, "4 rows and y has 3"),
        ({"X": X[:, 0], "y": Y}, None, "train", ShapeError, r"X of data.npz has shape \(4,\).*reshape"),
        ({"X": X[:0], "y": Y[:0]}, None, "train", ShapeError, r"shape \(0, 2\)"),
        ({"X": X + 1j, "y": Y}, None, "train", DtypeError, "complex128"),
        ({"X": X.astype(str), "y": Y}, None, "train", DtypeError, "text"),
        ({"X": np.where(X == 5, np.nan, X), "y": Y}, None, "train", InputError, "row 2, column 1"),
        ({"X": X, "y": np.where(Y > 2, np.nan, Y)}, None, "train", InputError, "y of data.npz has 2 missing"),
        ({"X": X.astype(object), "y": Y}, None, "train", DataFileError, "pickle.*runs code.*not loaded"),
        ({}, None, "train", InputError, "keys .none."),
    ],
)
def test_a_bad_npz_says_what_to_do(npz, arrays, target, part, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        read_npz(npz(**arrays), target, None, part)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0, 1, 3, 40, 300])
def test_a_truncated_npz_is_refused(npz, keep: int) -> None:
    path = npz(X=X, y=Y)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataFileError, match=r"empty|something else|truncated or damaged"):
        read_npz(path, None, None, "train")


def test_a_damaged_member_is_refused(tmp_path) -> None:
    np.savez_compressed(tmp_path / "data.npz", X=np.arange(1000.0).reshape(500, 2), y=np.arange(500.0))
    data = bytearray((tmp_path / "data.npz").read_bytes())
    data[300:340] = bytes(40)
    (tmp_path / "data.npz").write_bytes(bytes(data))
    with pytest.raises(DataFileError, match=r"truncated or damaged"):
        read_npz(tmp_path / "data.npz", None, None, "train")


def test_an_npy_has_its_target_last_unless_told(npy) -> None:
    path = npy(np.column_stack([X, Y]))
    assert read_npy(path, None, None).y.tolist() == Y.tolist()
    first = read_npy(path, 0, None)
    assert (first.y.tolist(), first.X[0].tolist()) == (X[:, 0].tolist(), [1.0, 0.5])
    assert read_npy(path, "-2", None).y.tolist() == X[:, 1].tolist()
    assert "target column 1" in read_npy(path, -2, None).source


def test_integers_in_an_npy_may_be_classes(npy) -> None:
    data = read_npy(npy(np.array([[5, 0], [6, 1], [7, 0], [8, 1]])), None, None)
    assert data.classes == ("0", "1")
    assert read_npy(npy(np.array([[5.0, 0], [6, 1]])), None, "classification").classes == ("0", "1")


@pytest.mark.parametrize(
    ("array", "target", "error", "words"),
    [
        (Y, None, ShapeError, r"shape \(4,\).*savez"),
        (X[:, :1], None, ShapeError, "a feature column and a target"),
        (np.zeros(3, dtype=[("a", float), ("b", float)]), None, ShapeError, "savez"),
        (X, 2, InputError, "no column 2: it has 2, 0 to 1"),
        (X, "price", InputError, "'price'.*no column names: give a position, 0 to 1"),
        (X.astype(object), None, DataFileError, "pickle.*runs code"),
        (np.array([["a", "b"]]), None, DtypeError, "the matrix of data.npy has dtype <U1"),
    ],
)
def test_a_bad_npy_says_what_to_do(npy, array, target, error, words) -> None:
    with pytest.raises(error, match=words):
        read_npy(npy(array), target, None)


def test_a_truncated_npy_is_refused(npy) -> None:
    path = npy(X)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataFileError, match=r"truncated or damaged"):
        read_npy(path, None, None)


def test_a_pickle_called_npy_is_never_opened(tmp_path) -> None:
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "exploded",))

    for name, read in (("a.npy", read_npy), ("a.npz", lambda *args: read_npz(*args, "train"))):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(DataFileError, match=r"something else inside"):
            read(tmp_path / name, None, None)
    np.savez(tmp_path / "b.npz", X=np.array([Bomb()], dtype=object), y=Y)
    with pytest.raises(DataFileError, match=r"runs code"):
        read_npz(tmp_path / "b.npz", None, None, "train")
    assert not (tmp_path / "exploded").exists()
