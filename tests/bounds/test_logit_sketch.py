import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import (
    gaussian_logit_sketch_bound,
    gaussian_logit_sketch_floor,
    logit_sketch_bound,
    logit_sketch_floor,
    resolvent_error_bound,
    sketch_error_floor,
)
from ridgeformer.core.errors import InputError, LogitRangeError, NotPositiveSemidefiniteError, ShapeError

from .spectra import cases, norm, resolvent, symmetric

EXAMPLE = np.array([[2.0, 0.5], [-1.0, 1.0]])


def _logits(rows, basis):
    """L and Lh of rows and of their projection on the span of an orthonormal basis."""
    kept = rows @ basis
    return symmetric(rows @ rows.T), symmetric(kept @ kept.T)


@st.composite
def sketched(draw):
    """Rows at some temperature, with several projections of the same width: PCA, bottom and random ones."""
    n, p = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    width = draw(st.integers(0, p))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.standard_normal((n, p)) * 10.0 ** draw(st.floats(-3, 0.7))
    directions = np.linalg.svd(rows)[2].T
    bases = [directions[:, :width], directions[:, p - width :], np.eye(p)[:, :width]]
    bases += [np.linalg.qr(rng.standard_normal((p, p)))[0][:, :width] for _ in range(3)]
    return [_logits(rows, basis) for basis in bases]


@cases(340)
@given(sketched())
def test_bound_and_floor_enclose_the_error(pairs):
    for logits, kept in pairs:
        error = norm(np.exp(kept) * np.expm1(logits - kept))
        direct = norm(np.exp(logits) - np.exp(kept))
        slack = 1e-12 * norm(np.exp(logits))
        assert error == pytest.approx(direct, rel=1e-9, abs=slack)
        assert error <= logit_sketch_bound(logits, kept) * (1 + 1e-12) + slack
        assert error >= logit_sketch_floor(logits, kept) * (1 - 1e-12) - slack


@cases(80)
@given(sketched(), st.floats(-2, 2))
def test_the_resolvent_bound_takes_it_from_there(pairs, log_ridge):
    ridge = 10.0**log_ridge
    for logits, kept in pairs:
        gap = norm(resolvent(np.exp(logits), ridge) - resolvent(np.exp(kept), ridge))
        bound = resolvent_error_bound(logit_sketch_bound(logits, kept), ridge)
        assert gap <= bound * (1 + 1e-9) + 1e-9 / ridge


@cases(60)
@given(sketched())
def test_the_difference_is_positive_semidefinite(pairs):
    for logits, kept in pairs:
        difference = np.exp(kept) * np.expm1(logits - kept)
        assert np.linalg.eigvalsh(difference)[0] >= -1e-12 * norm(np.exp(logits))


def test_figures_of_the_two_row_example():
    logits, kept = _logits(EXAMPLE, np.linalg.svd(EXAMPLE)[2][:1].T)
    kernel, sketch = np.exp(logits), np.exp(kept)
    assert round(norm(kernel - sketch), 3) == 15.508
    assert round(sketch_error_floor(np.linalg.eigvalsh(kernel), 1), 3) == 7.388
    assert round(logit_sketch_bound(logits, kept), 3) == 93.816
    assert round(logit_sketch_floor(logits, kept), 3) == 15.507


def test_width_one_carries_a_kernel_of_full_rank():
    rows = np.linspace(-2.0, 2.0, 5)[:, None]
    logits = rows @ rows.T
    assert np.linalg.matrix_rank(logits) == 1
    assert np.linalg.eigvalsh(np.exp(logits))[0] > 1e-6
    assert logit_sketch_bound(logits, logits) == 0.0


@cases(60)
@given(st.floats(0, 5), st.floats(0, 5))
def test_both_are_attained_by_a_single_row(kept, lost):
    error = np.exp(kept + lost) - np.exp(kept)
    slack = pytest.approx(error, rel=1e-9, abs=1e-12)
    assert logit_sketch_bound([[kept + lost]], [[kept]]) == slack
    assert logit_sketch_floor([[kept + lost]], [[kept]]) == slack


@cases(60)
@given(st.integers(1, 8), st.floats(0.1, 3), st.floats(0.1, 3))
def test_each_side_of_the_minimum_is_attained(n, shared, lost):
    ones, eye = np.ones((n, n)), np.eye(n)
    same_rows_lost = shared * ones, np.zeros((n, n))
    error = norm(np.exp(same_rows_lost[0]) - 1.0)
    assert logit_sketch_bound(*same_rows_lost) == pytest.approx(error, rel=1e-9)
    orthogonal_lost = shared * ones + lost * eye, shared * ones
    error = norm(np.exp(orthogonal_lost[0]) - np.exp(orthogonal_lost[1]))
    assert logit_sketch_bound(*orthogonal_lost) == pytest.approx(error, rel=1e-9)


def _gaussian(logits):
    diagonal = np.diagonal(logits)
    return np.exp(logits - diagonal[:, None] / 2 - diagonal / 2)


@cases(340)
@given(sketched())
def test_the_gaussian_bound_and_floor_enclose_the_error(pairs):
    for logits, kept in pairs:
        error = norm(_gaussian(logits) - _gaussian(kept))
        slack = 1e-13 * len(logits) * (1 + np.abs(logits).max())
        assert error <= gaussian_logit_sketch_bound(logits, kept) * (1 + 1e-12) + slack
        assert error >= gaussian_logit_sketch_floor(logits, kept) * (1 - 1e-12) - slack


@cases(60)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_the_gaussian_bound_is_attained_if_all_rows_become_one_point(n, seed):
    rows = np.random.default_rng(seed).standard_normal((n, 3))
    logits, kept = symmetric(rows @ rows.T), np.zeros((n, n))
    assert gaussian_logit_sketch_bound(logits, kept) == pytest.approx(norm(_gaussian(logits) - 1.0), rel=1e-9)


@cases(60)
@given(st.floats(0.1, 3), st.floats(0, 3))
def test_the_gaussian_floor_is_attained_by_two_rows(lost, apart):
    """Two rows at a distance that the sketch keeps, which lose orthogonal parts."""
    rows = np.array([[0.0, lost, 0.0], [apart, 0.0, lost]])
    logits, kept = _logits(rows, np.eye(3)[:, :1])
    error = norm(_gaussian(logits) - _gaussian(kept))
    assert gaussian_logit_sketch_floor(logits, kept) == pytest.approx(error, rel=1e-9, abs=1e-12)


def test_the_gaussian_bound_holds_for_logits_of_any_size():
    rows = 1e6 * np.eye(3)
    assert gaussian_logit_sketch_bound(*_logits(rows, np.eye(3)[:, :1])) == pytest.approx(2.0)


def test_errors_say_what_to_do():
    logits, kept = _logits(EXAMPLE, np.eye(2)[:, :1])
    with pytest.raises(
        NotPositiveSemidefiniteError, match=r"logits - sketched_logits has the eigenvalue.*orthogonally"
    ):
        logit_sketch_bound(kept, logits)
    with pytest.raises(NotPositiveSemidefiniteError, match="sketched_logits has the eigenvalue -1"):
        logit_sketch_bound(logits, -np.eye(2))
    with pytest.raises(NotPositiveSemidefiniteError, match="not symmetric: pass X X'/tau, queries equal to keys"):
        logit_sketch_bound(logits, [[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(LogitRangeError, match=r"logits reach 800.*raise tau"):
        logit_sketch_bound([[800.0]], [[1.0]])
    with pytest.raises(ShapeError, match=r"logits has shape \(2, 3\); a square matrix"):
        logit_sketch_floor(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ShapeError, match="sketch the features, not the rows"):
        logit_sketch_floor(np.eye(3), np.eye(2))
    with pytest.raises(InputError, match="sketched_logits holds inf"):
        logit_sketch_floor(np.eye(1), [[np.inf]])
