"""A model of all rows of a file: the same as from memory, whatever happens on the way."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

import ridgeformer as rf
from ridgeformer.auditing import fitted_file
from ridgeformer.auditing.fitted import FittedModel
from ridgeformer.auditing.fitted_file import FittedFile, load_fitted
from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.solving import centre_products, centres, plan
from ridgeformer.solving.centre_model import CentreModel

ROWS = 900


@pytest.fixture(autouse=True)
def streamed(monkeypatch):
    """Columns at the centres are never kept, blocks are small, and few rows choose the temperature."""
    for module in (centres, plan):
        monkeypatch.setattr(module, "FACTORISED", 0)
    monkeypatch.setattr(centre_products, "BLOCK", 300)
    monkeypatch.setattr(fitted_file, "TUNED_ROWS", 120)


@pytest.fixture
def chosen(monkeypatch):
    """Temperature and ridge are given."""
    monkeypatch.setattr(fitted_file, "_choose", lambda *_: (rf.Gaussian(1.0), 0.05))


def write(path, rows=ROWS):
    draw = np.random.default_rng(0)
    a, b = 100 + 5 * draw.normal(size=rows), draw.random(rows)
    columns = {"a": a, "b": b, "y": 40 + np.sin((a - 100) / 4) + b + 0.1 * draw.normal(size=rows)}
    table = pa.table(columns)
    pa.csv.write_csv(table, path) if path.suffix == ".csv" else pa.parquet.write_table(table, path, row_group_size=150)
    return columns


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_file_is_fitted_as_its_rows_are(ending, tmp_path):
    columns = write(tmp_path / f"t{ending}")
    told = []
    fitted = FittedFile.of(
        tmp_path / f"t{ending}",
        None,
        tmp_path / "work",
        centres=rf.Centres(count=30),
        progress=lambda *now: told.append(now),
    )
    X = np.column_stack([columns["a"], columns["b"]])
    rows = torch.from_numpy(((X - X.mean(0)) / X.std(0)).astype(np.float32))
    y = columns["y"] - columns["y"].mean()
    model = fitted.model
    same = rf.solve(model.kernel, rows, y, model.ridge, algorithm=rf.Centres(count=30))
    found = np.array(fitted.predict(X).predicted)
    np.testing.assert_allclose(found, CentreModel.of(same).predict(rows).numpy() + columns["y"].mean(), atol=2e-3)
    assert np.sqrt(np.mean((found - columns["y"]) ** 2)) < 0.12
    assert float(fitted.model.left_out[0]) == pytest.approx(0.1, rel=0.15)
    assert {what.split(",")[0] for what, *_ in told} >= {"reading", "writing rows", "step 1"}
    assert 15 < len(model.Z) <= 30  # those that float32 tells apart
    assert f"Fitted {ROWS} rows with coefficients on {len(model.Z)} centres" in fitted.summary


@pytest.mark.usefixtures("chosen")
def test_predictions_have_ranges_and_names_of_columns_outside(tmp_path):
    columns = write(tmp_path / "t.parquet")
    fitted = FittedFile.of(tmp_path / "t.parquet", "y", tmp_path / "work", centres=rf.Centres(count=30))
    pa.csv.write_csv(pa.table({"b": [0.5, 2.0, None], "a": [100.0, 101.0, 99.0]}), tmp_path / "new.csv")
    found = fitted.predict_table(tmp_path / "new.csv")
    assert found.outside == ("", "'b' outside the training range", "")
    everything = fitted.predict(np.column_stack([columns["a"], columns["b"]]))
    inside = (everything.low <= columns["y"]) & (columns["y"] <= everything.high)
    assert 0.93 < inside.mean() < 0.98
    assert not any(everything.outside)


@pytest.mark.usefixtures("chosen")
def test_saved_and_loaded_it_predicts_the_same_and_edits_are_refused(tmp_path):
    columns = write(tmp_path / "t.parquet")
    fitted = FittedFile.of(tmp_path / "t.parquet", "y", tmp_path / "work", centres=rf.Centres(count=30))
    X = np.column_stack([columns["a"], columns["b"]])[:9]
    path = fitted.save(tmp_path / "m.safetensors")
    again = load_fitted(path)
    assert isinstance(again, FittedFile)
    assert again.predict(X).predicted == fitted.predict(X).predicted
    assert again.summary == fitted.summary
    bytes_ = bytearray(path.read_bytes())
    bytes_[-5] ^= 1
    path.write_bytes(bytes_)
    with pytest.raises(DataFileError, match="is damaged or was edited"):
        load_fitted(path)
    path.write_bytes(b"x" * 100)
    with pytest.raises(DataFileError, match="is no model that `ridgeformer fit` wrote"):
        load_fitted(path)
    small = FittedModel.of(rf.datasets.load("wine", limit=60)).save(tmp_path / "wine.safetensors")
    assert isinstance(load_fitted(small), FittedModel)


class KilledError(BaseException):
    pass


@pytest.mark.usefixtures("chosen")
def test_killed_at_any_stage_the_same_call_gives_the_same_model(tmp_path):
    write(tmp_path / "t.parquet")
    asked = (tmp_path / "t.parquet", "y")
    whole = FittedFile.of(*asked, tmp_path / "whole", centres=rf.Centres(count=30))
    stages = []

    def kill(what, *_):
        stage = what.split(", row")[0]
        if stage not in stages:
            stages.append(stage)
            raise KilledError

    while True:
        try:
            found = FittedFile.of(*asked, tmp_path / "work", centres=rf.Centres(count=30), progress=kill)
            break
        except KilledError:
            continue
    assert len(stages) >= 6
    assert torch.equal(found.model.b, whole.model.b)
    assert found.intercept == whole.intercept


def test_a_file_that_changed_since_is_fitted_anew_or_the_stale_checkpoint_refused(tmp_path):
    write(tmp_path / "t.parquet")
    asked = (tmp_path / "t.parquet", "y", tmp_path / "work")
    FittedFile.of(*asked, centres=rf.Centres(count=30))
    write(tmp_path / "t.parquet", rows=600)
    with pytest.raises(DataFileError, match="belongs to another fit"):
        FittedFile.of(*asked, centres=rf.Centres(count=30))


def test_a_target_without_variation_is_refused(tmp_path):
    pa.csv.write_csv(pa.table({"a": np.arange(200.0), "y": np.ones(200)}), tmp_path / "t.csv")
    with pytest.raises(InputError, match="one value only"):
        FittedFile.of(tmp_path / "t.csv", "y", tmp_path / "work")


@pytest.mark.usefixtures("chosen")
def test_more_centres_than_rows_are_refused_and_the_rows_are_kept(tmp_path):
    write(tmp_path / "t.parquet", rows=150)
    asked = (tmp_path / "t.parquet", "y", tmp_path / "work")
    with pytest.raises(InputError, match="count is 10,000 centres and there are 150 rows"):
        FittedFile.of(*asked, centres=rf.Centres(count=10_000))
    told = []
    FittedFile.of(*asked, centres=rf.Centres(count=50), progress=lambda *now: told.append(now[0]))
    assert not any(what.startswith(("reading", "writing")) for what in told)
