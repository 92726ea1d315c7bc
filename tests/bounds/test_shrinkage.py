from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import shrinkage
from ridgeformer.core.errors import InputError, ShapeError

from .spectra import cases

ANY_SCALE = st.floats(1e-300, 1.7e308)


@cases(60)
@given(st.lists(ANY_SCALE | st.just(0.0), min_size=1, max_size=8), ANY_SCALE)
def test_equals_the_formula_in_exact_arithmetic(spectrum, ridge):
    found = shrinkage(spectrum, ridge)
    for value, s in zip(found, spectrum, strict=True):
        exact = Fraction(s) / (Fraction(s) + Fraction(ridge))
        assert value == pytest.approx(float(exact), rel=1e-15, abs=1e-300)


@cases(100)
@given(st.lists(ANY_SCALE, min_size=2, max_size=8), ANY_SCALE)
def test_rises_with_the_eigenvalue_and_stays_between_0_and_1(spectrum, ridge):
    found = shrinkage(np.sort(spectrum), ridge)
    assert (np.diff(found) >= -1e-15).all()
    assert (found >= 0).all()
    assert (found <= 1).all()


def test_takes_lists_arrays_tensors_and_keeps_their_order():
    for kind in (list, np.array, torch.tensor):
        assert shrinkage(kind([1.0, 3.0, 0.0]), 1).tolist() == [0.5, 0.75, 0.0]


def test_says_what_is_wrong_with_a_spectrum():
    with pytest.raises(InputError, match=r"negative, -1e-17 at index 1.*numpy\.clip\(spectrum, 0, None\)"):
        shrinkage([1.0, -1e-17], 1.0)
    with pytest.raises(InputError, match=r"spectrum holds nan at index \(1,\)"):
        shrinkage([1.0, float("nan")], 1.0)
    with pytest.raises(ShapeError, match=r"shape \(2, 2\).*eigvalsh\(K\), not K"):
        shrinkage(np.eye(2), 1.0)
    with pytest.raises(ShapeError, match="at least one number"):
        shrinkage([], 1.0)


@pytest.mark.parametrize("ridge", [0.0, -1.0, float("inf"), float("nan")])
def test_says_what_is_wrong_with_a_ridge(ridge):
    with pytest.raises(InputError, match=r"ridge is .*must be a finite number > 0"):
        shrinkage([1.0], ridge)
