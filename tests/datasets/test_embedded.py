from __future__ import annotations

import numpy as np
import pytest

from ridgeformer.core.errors import InputError
from ridgeformer.datasets.embedded import DIABETES, DIGITS, WINE, Embedded


@pytest.mark.parametrize("entry", [DIGITS, DIABETES, WINE], ids=lambda entry: entry.name)
def test_the_record_is_true_of_the_data(entry: Embedded) -> None:
    data, info = entry.load(), entry.info()
    assert ((data.n,), data.d, data.task, data.classes) == (info.n, info.d, info.task, info.classes)
    assert data.name == info.name
    assert info.fetched
    assert "scikit-learn" in data.source
    assert data.description == info.description


def test_digits_are_images_in_the_unit_interval() -> None:
    digits = DIGITS.load()
    assert digits.image_shape == (8, 8)
    assert (digits.X.min(), digits.X.max()) == (0.0, 1.0)
    assert np.bincount(digits.y).min() > 170


def test_diabetes_is_in_its_own_units() -> None:
    diabetes = DIABETES.load()
    assert diabetes.X[:, 0].max() == 79  # years of age, not a standardised score
    assert diabetes.outputs == 1


def test_there_is_no_test_part() -> None:
    with pytest.raises(InputError, match=r"wine has no official 'test' part.*split\("):
        WINE.load("test")


def test_limit_is_stratified() -> None:
    assert np.bincount(WINE.load(limit=18).y).sum() == 18
    assert WINE.load(limit=1000).n == 178
