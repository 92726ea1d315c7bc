from __future__ import annotations

import numpy as np
import pytest

from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.datasets.split import standardise, unit_rows


def test_unit_rows_have_unit_length_at_any_scale() -> None:
    X = np.random.default_rng(0).standard_normal((4, 3)) * np.array([[1.0], [1e-200], [1e200], [1e300]])
    U = unit_rows(X)
    assert np.allclose(np.linalg.norm(U, axis=1), 1, rtol=1e-14)
    assert np.allclose(U[0], X[0] / np.linalg.norm(X[0]), rtol=1e-14)


def test_unit_rows_names_the_first_zero_row_and_leaves_its_input() -> None:
    X = np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    with pytest.raises(InputError, match=r"row 1 is all zeros \(2 such rows in all\).*drop"):
        unit_rows(X)
    unit_rows(X[:1])
    assert X[0].tolist() == [1.0, 2.0]


def test_unit_rows_refuses_nan() -> None:
    with pytest.raises(InputError, match=r"NaN"):
        unit_rows([[np.nan, 1.0]])


def test_standardise_uses_the_train_statistics_only() -> None:
    draw = np.random.default_rng(0)
    train, test = draw.normal(3, 5, (50, 4)), draw.normal(9, 1, (20, 4))
    a, b = standardise(train, test)
    assert np.allclose(a.mean(0), 0, atol=1e-14)
    assert np.allclose(a.std(0), 1)
    assert np.allclose(b, (test - train.mean(0)) / train.std(0))
    assert (standardise(train, test[:1])[1] == b[:1]).all()


def test_a_constant_column_becomes_zero_everywhere() -> None:
    a, b = standardise(np.full((7, 1), 0.1), [[5.0]])
    assert not a.any()
    assert not b.any()


def test_one_matrix_gives_a_tuple_of_one() -> None:
    (only,) = standardise([[1.0], [3.0]])
    assert only.tolist() == [[-1.0], [1.0]]


def test_standardise_wants_the_same_columns() -> None:
    with pytest.raises(ShapeError, match=r"matrix 1 after train has 1 columns and train has 2"):
        standardise(np.ones((2, 2)), np.ones((2, 1)))
