import sys

import numba
import numpy as np
import pytest

from ridgeformer.core import compiled
from ridgeformer.core.compiled import compile_it


def double(numbers, out):
    for i in range(numbers.shape[0]):
        out[i] = 2 * numbers[i]


@pytest.fixture
def nowhere_to_keep_it(monkeypatch):
    """Numba finds no place for what it compiles; returns, for each time it was asked to compile, whether to keep it."""
    asked, real = [], numba.njit

    def njit(function, *, cache, **options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", njit)
    compile_it.cache_clear()
    yield asked
    compile_it.cache_clear()


def test_what_is_not_finite_stays_so():
    numbers = np.array([np.nan, np.inf, -np.inf])
    found = np.zeros(3)
    compile_it(double)(numbers, found)
    np.testing.assert_array_equal(found, numbers)


def test_it_is_compiled_anew_where_there_is_no_place_to_keep_it(nowhere_to_keep_it):
    found = np.zeros(4)
    compile_it(double)(np.ones(4), found)
    assert nowhere_to_keep_it == [True, False]
    assert found.tolist() == [2.0] * 4


def test_numba_that_cannot_be_imported_is_as_good_as_none(monkeypatch):
    assert compiled.compiled()
    monkeypatch.setitem(sys.modules, "numba", None)
    compiled.compiled.cache_clear()
    try:
        assert not compiled.compiled()
    finally:
        compiled.compiled.cache_clear()
