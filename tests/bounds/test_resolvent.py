import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import resolvent_error_bound, resolvent_error_floor
from ridgeformer.core.errors import InputError

from .spectra import cases, norm, problems, resolvent

INVERSE_SQUARES = 1 / np.arange(1.0, 41.0) ** 2


def _gaps(problem, others):
    return norm(resolvent(problem.kernel, problem.ridge) - resolvent(others, problem.ridge))


@cases(260)
@given(problems(), st.integers(0, 8))
def test_bound_holds_for_every_positive_semidefinite_pair(problem, width):
    sketches = problem.sketches(width)
    for gap, difference in zip(_gaps(problem, sketches), norm(problem.kernel - sketches), strict=True):
        assert gap <= resolvent_error_bound(difference, problem.ridge) * (1 + 1e-9) + 1e-9 / problem.ridge


@cases(260)
@given(problems(), st.integers(0, 8))
def test_floor_holds_for_every_sketch_of_that_rank(problem, width):
    floor = resolvent_error_floor(problem.spectrum, width, problem.ridge)
    assert (_gaps(problem, problem.sketches(width)) >= floor * (1 - 1e-9) - 1e-9 / problem.ridge).all()


@cases(100)
@given(problems(max_log_scale=10), st.integers(0, 6))
def test_floor_holds_for_unsymmetric_sketches_too(problem, width):
    left, right = problem.rng.standard_normal((2, 8, problem.n, width))
    sketches = np.sqrt(problem.spectrum.max()) * left @ (problem.root.T @ right).swapaxes(1, 2)
    floor = resolvent_error_floor(problem.spectrum, width, problem.ridge)
    assert (_gaps(problem, sketches) >= floor * (1 - 1e-6)).all()


@cases(60)
@given(problems())
def test_the_top_eigendirections_attain_floor_and_bound_at_once(problem):
    for width in range(problem.n):
        gap = _gaps(problem, problem.top(width))
        slack = pytest.approx(gap, abs=1e-9 / problem.ridge)
        assert resolvent_error_floor(problem.spectrum, width, problem.ridge) == slack
        assert resolvent_error_bound(problem.spectrum[width], problem.ridge) == slack


@cases(60)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_bound_is_attained_by_the_identity_against_nothing(difference, ridge):
    gap = norm(resolvent(difference * np.eye(2), ridge) - resolvent(np.zeros((2, 2)), ridge))
    assert resolvent_error_bound(difference, ridge) == pytest.approx(gap, rel=1e-9)


def test_figures_of_the_inverse_square_spectrum():
    ridge, width = 0.01, 3
    kernel, cut = np.diag(INVERSE_SQUARES), np.diag(np.where(np.arange(40) < width, INVERSE_SQUARES, 0.0))
    true = norm(resolvent(kernel, ridge) - resolvent(cut, ridge))
    assert round(true, 2) == 86.21
    assert round(resolvent_error_floor(INVERSE_SQUARES, width, ridge), 2) == 86.21
    assert round(resolvent_error_bound(INVERSE_SQUARES[width], ridge), 2) == 86.21
    assert INVERSE_SQUARES[width] / ridge**2 == pytest.approx(625, rel=1e-12)
    assert round(INVERSE_SQUARES[width:].sum() / ridge**2) == 2591


def test_saturates_at_the_inverse_ridge():
    assert resolvent_error_bound(1e300, 1e-3) == pytest.approx(1e3, rel=1e-12)
    assert resolvent_error_bound(0.0, 1e-3) == 0.0


def test_floor_is_zero_from_the_rank_on():
    assert resolvent_error_floor([2.0, 1.0, 0.0], 2, 0.1) == 0.0
    assert resolvent_error_floor([2.0, 1.0, 0.0], 7, 0.1) == 0.0


def test_errors_name_the_argument():
    with pytest.raises(InputError, match="difference is -1; a number >= 0"):
        resolvent_error_bound(-1.0, 1.0)
    with pytest.raises(InputError, match="ridge is 0; it must be a finite number > 0"):
        resolvent_error_bound(1.0, 0.0)
    with pytest.raises(InputError, match="width is -3"):
        resolvent_error_floor([1.0], -3, 1.0)
    with pytest.raises(InputError, match="difference has shape"):
        resolvent_error_bound(np.ones(2), 1.0)
