"""A model survives its file; what is damaged, foreign or changed is refused; rows outside the range are flagged."""

import json

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from ridgeformer import datasets
from ridgeformer.auditing.fitted import FittedModel
from ridgeformer.core.errors import DataFileError, InputError
from tests.auditing.generated_tables import table


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prices")
    model = FittedModel.of(table("categories", folder))
    return folder, model, model.save(folder / "model.safetensors")


def test_it_predicts_the_same_after_loading_and_flags_what_is_outside(prices):
    folder, model, path = prices
    new = folder / "new.csv"
    new.write_text("income,town\n0.1,Oslo\n,Rome\n0.2,Paris\n99,Bern\n")
    one, other = model.predict_table(new), FittedModel.load(path).predict_table(new)
    np.testing.assert_allclose(one.predicted, other.predicted, rtol=1e-9)
    assert abs(one.predicted[0] - 4) < 1
    assert abs(one.predicted[1] - 8) < 1
    assert (one.low < one.predicted).all()
    assert one.outside[:2] == ("", "")
    assert "'town' has a value never seen" in one.outside[2]
    assert "'income' is outside its training range" in one.outside[3]


def test_intervals_cover_new_rows():
    """Jackknife+ at 95 %: 200 new rows of the same straight line with noise."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(280, 2))
    y = X[:, 0] + 0.3 * draw.normal(size=280)
    model = FittedModel.of(datasets.Dataset("line", X[:80], y[:80], "regression"))
    found = model.predict(X[80:])
    covered = ((found.low <= y[80:]) & (y[80:] <= found.high)).mean()
    assert 0.9 < covered < 0.99
    few = FittedModel.of(datasets.Dataset("line", X[:15], y[:15], "regression")).predict(X[80:])
    assert np.isnan(few.low).all()


def test_what_is_damaged_or_foreign_is_refused(prices, tmp_path):
    path = prices[2]
    half = tmp_path / "half.safetensors"
    half.write_bytes(path.read_bytes()[:-100])
    changed, foreign = tmp_path / "changed.safetensors", tmp_path / "foreign.safetensors"
    arrays = load_file(path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    arrays["X"][1, 1] += 0.5  # row 0 has a hole there
    save_file(arrays, changed, metadata=metadata)
    save_file({"a": arrays["X"]}, foreign)
    for bad in (half, changed, foreign):
        with pytest.raises(DataFileError, match="fit it again"):
            FittedModel.load(bad)
    with pytest.raises(DataFileError, match="does not exist"):
        FittedModel.load(tmp_path / "none.safetensors")


def test_a_new_table_without_a_column_is_refused(prices, tmp_path):
    (tmp_path / "new.csv").write_text("town\nOslo\n")
    with pytest.raises(InputError, match="no column 'income'"):
        prices[1].predict_table(tmp_path / "new.csv")


def test_classes_come_with_probabilities():
    wine = datasets.load("wine")
    found = FittedModel.of(wine).predict(wine.X[:5])
    assert found.predicted == ("class_0",) * 5
    np.testing.assert_allclose(found.probabilities.sum(1), 1)


def test_the_file_is_numbers_and_json(prices):
    data = prices[2].read_bytes()
    size = int.from_bytes(data[:8], "little")
    facts = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["ridgeformer"])
    assert facts["target"] == "price"
    assert [column["name"] for column in facts["columns"]] == ["town", "income"]
