from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeformer.core.errors import DtypeError, InputError, ShapeError, UnknownNameError
from ridgeformer.datasets.dataset import Dataset, Entry, _check_rows, _check_task, shares, stratified_rows
from ridgeformer.datasets.embedded import DIABETES, DIGITS
from ridgeformer.datasets.published import MNIST


def classes(n: int = 30) -> Dataset:
    y = np.array([0] * (n // 2) + [1] * (n // 3) + [2] * (n - n // 2 - n // 3))
    return Dataset("three", np.arange(2.0 * n).reshape(n, 2), y, "classification", ("a", "b", "c"))


def numbers(n: int = 10) -> Dataset:
    return Dataset("line", np.arange(float(n))[:, None], 2 * np.arange(float(n)))


def test_sizes_names_and_repr() -> None:
    data = classes()
    assert (data.n, data.d, data.outputs) == (30, 2, 3)
    assert data.features == ("x0", "x1")
    assert repr(data) == "Dataset('three', n=30, d=2, classification, 3 classes)"
    two = Dataset("two", np.ones((3, 1)), np.ones((3, 2)))
    assert two.outputs == 2
    assert repr(two).endswith("regression, 2 outputs)")


def test_it_is_frozen() -> None:
    with pytest.raises(AttributeError):
        numbers().name = "other"  # type: ignore[misc]


def test_targets_of_classes_are_signed_or_one_hot() -> None:
    data = classes()
    signed = data.targets()
    assert signed.dtype == np.float64
    assert set(np.unique(signed)) == {-1.0, 1.0}
    assert (signed.argmax(1) == data.y).all()
    assert (data.targets(other=0.0).sum(1) == 1).all()


def test_targets_of_numbers_are_a_copy() -> None:
    data = numbers()
    data.targets()[:] = 0
    assert data.y[1] == 2
    assert Dataset("two", np.ones((3, 1)), np.ones((3, 2))).targets().shape == (3, 2)


def test_subset_by_index_and_by_mask() -> None:
    data = numbers()
    assert data.subset([3, -1]).y.tolist() == [6.0, 18.0]
    assert data.subset(data.y > 14).y.tolist() == [16.0, 18.0]


@pytest.mark.parametrize(
    ("rows", "words"),
    [([], "at least one row"), ([10], "no row 10"), ([0.5], "row number"), (np.zeros(3, dtype=bool), "10 booleans")],
)
def test_subset_says_which_rows_it_wants(rows: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        numbers().subset(rows)


def test_sample_is_stratified_deterministic_and_without_replacement() -> None:
    data = classes()
    drawn = data.sample(12, seed=3)
    assert np.bincount(drawn.y).tolist() == [6, 4, 2]
    assert len(np.unique(drawn.X[:, 0])) == 12
    assert (drawn.X == data.sample(12, seed=3).X).all()
    assert (drawn.X != data.sample(12, seed=4).X).any()
    assert data.sample(30, seed=0).X.tolist() == data.X.tolist()


@pytest.mark.parametrize("n", [0, 31])
def test_sample_refuses_what_it_cannot_draw(n: int) -> None:
    with pytest.raises(InputError, match=f"cannot draw {n} rows from three.*choose 1 to 30"):
        classes().sample(n, seed=0)


def test_split_is_stratified_deterministic_and_complete() -> None:
    data = classes()
    train, test = data.split(1 / 3, seed=1)
    assert np.bincount(train.y).tolist() == [10, 7, 3]
    assert np.bincount(test.y).tolist() == [5, 3, 2]
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == data.X[:, 0].tolist()
    assert (data.split(1 / 3, seed=1)[1].X == test.X).all()


def test_split_leaves_a_row_on_each_side() -> None:
    train, test = numbers(2).split(0.01, seed=0)
    assert (train.n, test.n) == (1, 1)


def test_sample_and_split_do_not_share_a_stream() -> None:
    data = numbers(100)
    assert data.sample(20, seed=0).y.tolist() != data.split(0.2, seed=0)[1].y.tolist()


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, float("nan")])
def test_split_refuses_fractions_outside(fraction: float) -> None:
    with pytest.raises(InputError, match=r"strictly between 0 and 1"):
        numbers().split(fraction, seed=0)


def test_one_row_cannot_be_split() -> None:
    with pytest.raises(InputError, match=r"one row"):
        numbers(1).split(0.5, seed=0)


X3 = np.ones((3, 2))
Y3 = np.ones(3)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"X": np.ones(3)}, ShapeError, "flatten images"),
        ({"X": np.ones((0, 2))}, ShapeError, "at least one row"),
        ({"X": np.array([[1.0, 2], [np.nan, 1], [1, 1]])}, InputError, "1 entries.*row 1, column 0"),
        ({"y": np.ones(2)}, ShapeError, "one target a row"),
        ({"y": np.array([1, 2, 3])}, InputError, "int64.*float64"),
        ({"y": np.array([1.0, np.inf, 3])}, InputError, "infinite in row 1"),
        ({"classes": ("a", "b")}, InputError, "leave classes empty"),
        ({"task": "classification"}, InputError, "integer class codes"),
        ({"task": "classification", "y": np.array([0, 1, 1])}, InputError, "at least two"),
        ({"task": "classification", "y": np.array([0, 1, 2]), "classes": ("a", "b")}, InputError, "codes 0 to 1"),
        ({"features": ("a",)}, ShapeError, "1 feature names for 2 columns"),
        ({"image_shape": (2, 2)}, ShapeError, "4 pixels"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Dataset(**({"name": "wrong", "X": X3, "y": Y3} | fields))


def test_a_wrong_type_is_named_where_annotations_are_not_checked() -> None:
    with pytest.raises(DtypeError, match=r"float32.*astype"):
        _check_rows("wrong", np.ones((3, 2), dtype=np.float32))
    with pytest.raises(UnknownNameError, match=r"did you mean 'classification'"):
        _check_task("clasification")


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    part=st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_every_class_gets_its_share_rounded_down_or_up(counts: list[int], part: float, seed: int) -> None:
    total = sum(counts)
    n = int(part * total)
    got = shares(np.array(counts), n, np.random.default_rng(seed))
    exact = np.array(counts) * n / total
    assert got.sum() == n
    assert (np.abs(got - exact) < 1).all()
    assert (got <= counts).all()


def test_rows_are_distinct_ascending_and_in_proportion() -> None:
    codes = np.array([0] * 60 + [1] * 30 + [2] * 10)
    rows = stratified_rows(codes, 100, 20, np.random.default_rng(0))
    assert (np.diff(rows) > 0).all()
    assert np.bincount(codes[rows]).tolist() == [12, 6, 2]


def test_a_code_that_no_row_has_is_no_trouble() -> None:
    rows = stratified_rows(np.array([0, 3, 3, 0]), 4, 2, np.random.default_rng(0))
    assert len(rows) == 2


def test_equal_remainders_are_drawn_by_lot() -> None:
    counts = np.full(10, 100)
    first = [int(shares(counts, 1, np.random.default_rng(seed)).argmax()) for seed in range(30)]
    assert len(set(first)) > 3


def test_without_classes_any_rows() -> None:
    rows = stratified_rows(None, 10, 10, np.random.default_rng(0))
    assert rows.tolist() == list(range(10))


def test_every_kind_of_entry_is_one() -> None:
    assert isinstance(DIGITS, Entry)
    assert isinstance(MNIST, Entry)


def test_a_record_prints_what_to_do_when_not_fetched() -> None:
    shown = str(MNIST.info())
    assert "60,000 train + 10,000 test, 784 features" in shown
    assert "no: run `ridgeformer data fetch mnist`" in shown
    assert "ready     yes" in str(replace(MNIST.info(), fetched=True))


def test_a_regression_prints_no_classes() -> None:
    shown = str(DIABETES.info())
    assert "classes" not in shown
    assert "rows      442, 10 features" in shown
