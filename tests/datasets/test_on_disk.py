"""Rows on disk: what is written is the table, whatever happens on the way."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import ridgeformer as rf
from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.datasets import on_disk, rows_on_disk

ROWS = 1000


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(on_disk, "BATCH", 64)
    monkeypatch.setattr(on_disk, "NOTED", 2)


def table(seed=0, rows=ROWS):
    draw = np.random.default_rng(seed)
    a = 1e6 + draw.normal(size=rows)
    b = draw.integers(0, 9, rows).astype(float)
    b[draw.random(rows) < 0.1] = np.nan
    c = np.full(rows, 7.0)
    return {"a": a, "b": b, "c": c, "y": np.sin(a) + draw.normal(size=rows)}


def write(path, columns):
    columns = pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
    if path.suffix == ".csv":
        pa.csv.write_csv(columns, path)
    else:
        pa.parquet.write_table(columns, path, row_group_size=150)
    return path


def expected(columns):
    X = np.column_stack([columns[name] for name in "abc"])
    mean, spread = np.nanmean(X, 0), np.nanstd(X, 0)
    return np.nan_to_num((X - mean) / np.where(spread > 0, spread, 1))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_rows_are_those_of_the_table_standardised(small, tmp_path, ending):
    columns = table()
    seen = []
    found = rows_on_disk(
        write(tmp_path / f"t{ending}", columns), folder=tmp_path / "rows", dtype="float64",
        progress=lambda *now: seen.append(now),
    )  # fmt: skip
    np.testing.assert_allclose(found.X, expected(columns), atol=1e-9)
    np.testing.assert_array_equal(found.y, columns["y"])
    assert found.features == ("a", "b", "c")
    assert found.missing.tolist() == [0, int(np.isnan(columns["b"]).sum()), 0]
    assert seen[-1] == (2, ROWS, ROWS)
    np.testing.assert_allclose(found.prepare(np.array([[columns["a"][0], np.nan, 7.0]])), [[found.X[0, 0], 0, 0]])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("moment", range(1, 32, 3))
def test_killed_at_any_batch_and_called_again_it_gives_the_same_files(small, tmp_path, ending, moment, monkeypatch):
    path = write(tmp_path / f"t{ending}", table())
    rows_on_disk(path, folder=tmp_path / "whole")
    monkeypatch.setattr(pa.csv, "open_csv", _in_small_blocks(pa.csv.open_csv))

    class KilledError(BaseException):
        pass

    def kill(*_):
        nonlocal moment
        moment -= 1
        if moment == 0:
            raise KilledError

    try:
        rows_on_disk(path, folder=tmp_path / "rows", progress=kill)
    except KilledError:
        with open(tmp_path / "rows" / "X.npy", "ab") as torn:
            torn.write(b"torn")
    read = []
    found = rows_on_disk(path, folder=tmp_path / "rows", progress=lambda *now: read.append(now))
    for name in ("X.npy", "y.npy"):
        assert (tmp_path / "rows" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(found.y) == ROWS


def _in_small_blocks(original):
    def opened(path, read_options, **given):
        read_options.block_size = 4096
        return original(path, read_options, **given)

    return opened


def test_what_is_complete_is_opened_and_not_read_again(small, tmp_path):
    path = write(tmp_path / "t.parquet", table())
    rows_on_disk(path, folder=tmp_path / "rows")
    again = rows_on_disk(path, folder=tmp_path / "rows", progress=lambda *_: pytest.fail("it was read again"))
    assert again.X.shape == (ROWS, 3)
    write(path, table(1))
    np.testing.assert_allclose(rows_on_disk(path, folder=tmp_path / "rows").y, table(1)["y"])  # another file: anew


def test_text_far_down_names_the_column_and_keeps_what_was_done(small, tmp_path, monkeypatch):
    monkeypatch.setattr(pa.csv, "open_csv", _in_small_blocks(pa.csv.open_csv))
    path = write(tmp_path / "t.csv", table())
    lines = path.read_text().splitlines()
    lines[900] = '"n/k",1,7,2'
    path.write_text("\n".join(lines))
    with pytest.raises(DataFileError, match=r"t\.csv has something other than numbers.*n/k"):
        rows_on_disk(path, folder=tmp_path / "rows")
    assert json.loads((tmp_path / "rows" / "notes.json").read_text())["counted"] > 500


def test_a_file_that_changes_while_it_is_read_is_noticed(small, tmp_path):
    path = write(tmp_path / "t.parquet", table())

    def change(stage, done, _):
        if (stage, done >= 500) == (2, True):
            os.utime(path, ns=(1, 1))

    with pytest.raises(DataFileError, match="changed while it was read"):
        rows_on_disk(path, folder=tmp_path / "rows", progress=change)


def test_a_full_disk_is_said_and_the_rest_goes_on_from_there(small, tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", table())
    synced = []

    def full(handle):
        synced.append(handle)
        if len(synced) > 4:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DataFileError, match=r"No space left on device.*What was converted is kept"):
            rows_on_disk(path, folder=tmp_path / "rows")
    done = []
    rows_on_disk(path, folder=tmp_path / "rows", progress=lambda *now: done.append(now))
    assert done[0][0] == 2
    assert done[0][1] > 128


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": ["x", "y"], "y": [1.0, 2.0]}, "text, dates or records in column 'a'"),
        ({"a": [1.0, 2.0], "y": [1.0, None]}, "no value of the target 'y' in row 2"),
        ({"a": [1.0, float("inf")], "y": [1.0, 2.0]}, "an infinite value in row 2, column 'a'"),
        ({"y": [1.0, 2.0]}, "no column besides the target"),
        ({"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}, "has no rows"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, columns, said):
    with pytest.raises((InputError, DataFileError), match=said):
        rows_on_disk(write(tmp_path / "t.parquet", columns), folder=tmp_path / "rows")


def test_other_files_and_columns_are_refused(tmp_path):
    path = write(tmp_path / "t.parquet", table())
    for given, said in (({"drop": ("q",)}, "no column 'q'"), ({"dtype": "float16"}, "float32")):
        with pytest.raises(InputError, match=said):
            rows_on_disk(path, folder=tmp_path / "rows", **given)
    with pytest.raises(InputError, match="neither"):
        rows_on_disk(path.rename(tmp_path / "t.txt"), folder=tmp_path / "rows")
    with pytest.raises(DataFileError, match="does not exist"):
        rows_on_disk(tmp_path / "none.csv", folder=tmp_path / "rows")


def test_they_are_fitted_without_being_copied(tmp_path):
    columns = table()
    rows = rows_on_disk(write(tmp_path / "t.parquet", columns), folder=tmp_path / "rows", dtype="float64")
    fit = rf.solve(rf.Gaussian(1.0), rows.X, rows.y, 0.1, algorithm=rf.Centres(count=20))
    whole = rf.solve(rf.Gaussian(1.0), expected(columns), columns["y"], 0.1, algorithm=rf.Centres(count=20))
    np.testing.assert_allclose(fit.predict(rows.X[:5]), whole.predict(expected(columns)[:5]), atol=1e-6)


def test_a_parquet_file_is_read_without_keeping_what_was_read(tmp_path):
    """A file of 20 GB was held in memory as a whole: readers that buffer ahead keep every row group."""
    path = tmp_path / "long.parquet"
    columns = {name: np.random.default_rng(0).standard_normal(400_000) for name in "abcdefghy"}
    pa.parquet.write_table(pa.table(columns), path, row_group_size=20_000, compression="none")
    held = []
    for batch in on_disk._read(path, list(columns), 0):
        held.append(pa.total_allocated_bytes())
        del batch
    assert max(held) < path.stat().st_size / 4
