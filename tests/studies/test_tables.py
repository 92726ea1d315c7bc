"""Tables: tidy, in a fixed order, with intervals, as csv and parquet."""

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from ridgeformer import studies
from ridgeformer.core.errors import InputError, RidgeformerError, UnknownNameError
from ridgeformer.core.statistics import mean_interval, proportion_interval
from ridgeformer.studies import Preset, Study, product
from tests.studies.tiny_studies import STUDY, study


def test_columns_are_parameters_seed_values_and_numbers_are_sorted_as_numbers(tmp_path):
    studies.run(STUDY, store=tmp_path / "a.db", preset="quick")
    table = studies.table(STUDY, tmp_path / "a.db")
    assert table.column_names == ["x", "seed", "trace", "sum", "product", "x_squared"]
    assert table.column("x").to_pylist() == [x for x in range(50) for _ in range(3)]
    assert table.column("seed").to_pylist() == [0, 1, 2] * 50


@pytest.mark.parametrize(("format", "read"), [("csv", csv.read_csv), ("parquet", parquet.read_table)])
def test_exports_are_exact(tmp_path, format, read):
    studies.run(STUDY, store=tmp_path / "a.db", preset="quick")
    table = studies.table(STUDY, tmp_path / "a.db")
    path = studies.export(table, tmp_path / "new" / "table", format=format)
    assert read(path).to_pylist() == table.to_pylist()


def test_one_preset_only(tmp_path):
    points = product(x=[1, 2])
    both = Study(
        "tiny", 1, "-", "tests.studies.tiny_studies:draw", {"quick": Preset(points[:1]), "default": Preset(points)}
    )
    studies.run(both, store=tmp_path / "a.db", preset="default")
    assert studies.table(both, tmp_path / "a.db", preset="quick").column("x").to_pylist() == [1]


def test_points_with_different_parameters_share_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.studies.tiny_studies.draw", lambda seed, **params: {"n": len(params)})
    presets = {"quick": Preset(product(a=[1, "x"], b=[[1, 2]]) + product(a=[2]))}
    mixed = Study("tiny", 1, "-", "tests.studies.tiny_studies:draw", presets)
    studies.run(mixed, store=tmp_path / "a.db", preset="quick")
    table = studies.table(mixed, tmp_path / "a.db")
    assert sorted(table.column("a").to_pylist()) == ['"x"', "1", "2"]
    assert sorted(table.column("b").to_pylist()) == ["[1,2]", "[1,2]", "null"]
    studies.export(table, tmp_path / "t.csv")


def test_a_value_called_like_a_parameter_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.studies.tiny_studies.draw", lambda x, seed: {"x": 1})
    small = study("draw", [1])
    studies.run(small, store=tmp_path / "a.db", preset="quick")
    with pytest.raises(InputError, match="both called 'x'"):
        studies.table(small, tmp_path / "a.db")


def test_intervals_over_seeds():
    rows = pa.table({
        "w": [1, 1, 1, 2], "seed": [0, 1, 2, 0], "step": [1, 1, 1, 1], "error": [1.0, 2.0, 6.0, 4.0],
        "note": ["a", "b", "c", "d"], "holds": [True, True, False, True],
    })  # fmt: skip
    first, second = studies.intervals(rows, ["step"]).to_pylist()
    assert (first["w"], first["step"], first["seeds"], first["error"]) == (1, 1, 3, 3.0)
    assert (first["error_low"], first["error_high"]) == mean_interval([1.0, 2.0, 6.0])
    assert first["holds"] == pytest.approx(2 / 3)
    assert (first["holds_low"], first["holds_high"]) == proportion_interval(2, 3)
    assert (second["error"], second["error_low"], second["error_high"]) == (4.0, None, None)
    assert "note" not in first


def test_what_cannot_be_exported(tmp_path):
    studies.run(study("die", [0]), store=tmp_path / "a.db", preset="quick")
    table = studies.table(study("die", [0]), tmp_path / "a.db")
    with pytest.raises(UnknownNameError, match="did you mean 'csv'"):
        studies.export(table, tmp_path / "x", format="cvs")
    (tmp_path / "file").write_text("")
    with pytest.raises(RidgeformerError, match="cannot be written"):
        studies.export(table, tmp_path / "file" / "x.csv")
    with pytest.raises(InputError, match="no results of overhead"):
        studies.table("overhead", tmp_path / "a.db")
