import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import (
    prediction_error_from_diagonal,
    prediction_error_from_energy,
    prediction_error_from_query_norm,
    prediction_error_from_variance,
    solution_error_bound,
)
from ridgeformer.core.errors import InputError, ShapeError

from .spectra import cases, problems, resolvent


def _case(problem, queries, outputs):
    """Residuals, query features, kernel rows and the errors they cause."""
    n, rng = problem.n, problem.rng
    residuals = rng.standard_normal((n, outputs)) * 10.0 ** rng.uniform(-3, 3, (n, outputs))
    features = rng.standard_normal((queries, n)) * 10.0 ** rng.uniform(-3, 3, (queries, n))
    rows = features @ problem.root.T
    inverse = resolvent(problem.kernel, problem.ridge)
    return residuals, features, rows, inverse


@cases(340)
@given(problems(max_log_scale=40))
def test_the_solution_bound_holds(problem):
    residuals, _, _, inverse = _case(problem, 1, 6)
    errors = np.linalg.norm(inverse @ residuals, axis=0)
    bounds = solution_error_bound(np.linalg.norm(residuals, axis=0), problem.ridge)
    assert bounds.shape == (6,)
    assert (errors <= bounds * (1 + 1e-9)).all()


@cases(110)
@given(problems(max_log_scale=40), st.floats(0, 2))
def test_every_prediction_bound_holds_and_they_are_ordered(problem, unexplained):
    residuals, features, rows, inverse = _case(problem, 5, 4)
    errors = np.abs(rows @ inverse @ residuals)
    norms = np.linalg.norm(residuals, axis=0)
    diagonals = np.square(features).sum(axis=1) * (1 + unexplained)
    energies = np.minimum(np.einsum("qi,ij,qj->q", rows, inverse, rows), diagonals)
    by_norm = prediction_error_from_query_norm(norms, problem.ridge, np.linalg.norm(rows, axis=1))
    by_energy = prediction_error_from_energy(norms, problem.ridge, energies)
    by_diagonal = prediction_error_from_diagonal(norms, problem.ridge, diagonals)
    by_variance = prediction_error_from_variance(norms, problem.ridge, energies, diagonals)
    slack = 1e-7 * by_diagonal
    for bound in (by_norm, by_energy, by_diagonal, by_variance):
        assert bound.shape == (5, 4)
        assert (errors <= bound * (1 + 1e-9) + slack).all()
    assert (by_variance <= by_energy * (1 + 1e-12)).all()
    assert (by_variance <= by_diagonal * (1 + 1e-12)).all()
    assert (by_energy <= by_norm * (1 + 1e-9) + slack).all()
    assert (by_energy <= 2 * by_diagonal * (1 + 1e-12)).all()


@cases(340)
@given(problems(max_log_scale=40))
def test_the_energy_of_a_query_never_exceeds_its_diagonal(problem):
    _, features, rows, inverse = _case(problem, 6, 1)
    energies = np.einsum("qi,ij,qj->q", rows, inverse, rows)
    assert (energies <= np.square(features).sum(axis=1) * (1 + 1e-9)).all()


@cases(115)
@given(problems(max_log_scale=3, min_log_ridge=-2))
def test_the_bounds_hold_for_iterates_of_gradient_descent(problem):
    """The residual is that of an actual approximate solution, at 6 stages of it."""
    n, rng = problem.n, problem.rng
    matrix, y = problem.kernel + problem.ridge * np.eye(n), rng.standard_normal(n)
    exact, alpha = np.linalg.solve(matrix, y), np.zeros(n)
    features = rng.standard_normal((3, n))
    diagonals = np.square(features).sum(axis=1)
    for _ in range(6):
        residual = float(np.linalg.norm(y - matrix @ alpha))
        slack = 1e-12 * np.linalg.norm(y)
        assert np.linalg.norm(alpha - exact) <= solution_error_bound(residual + slack, problem.ridge)
        errors = np.abs(features @ problem.root.T @ (alpha - exact))
        assert (errors <= prediction_error_from_diagonal(residual + slack, problem.ridge, diagonals)).all()
        alpha = alpha + (y - matrix @ alpha) / (problem.spectrum[0] + problem.ridge)


@cases(60)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0.01, 10), st.floats(0.01, 10))
def test_one_eigenvalue_attains_the_variance_bound_at_every_energy(s, ridge, residual, feature):
    error = feature * np.sqrt(s) / (s + ridge) * residual
    energy, diagonal = feature**2 * s / (s + ridge), feature**2
    bound = float(prediction_error_from_variance(residual, ridge, energy, diagonal))
    assert bound == pytest.approx(error, rel=1e-6)


@cases(60)
@given(st.floats(1e-3, 1e3), st.floats(0.01, 10), st.floats(0.01, 10))
def test_an_eigenvalue_equal_to_the_ridge_attains_the_diagonal_bound(ridge, residual, feature):
    error = feature * np.sqrt(ridge) / (2 * ridge) * residual
    assert float(prediction_error_from_diagonal(residual, ridge, feature**2)) == pytest.approx(error, rel=1e-12)


@cases(60)
@given(st.floats(1e-3, 1e3), st.floats(0.01, 10), st.floats(0.01, 10))
def test_the_null_space_attains_the_bounds_that_ask_nothing_of_the_query(ridge, residual, query):
    kernel = np.diag([1.0, 0.0])
    inverse, r, k = resolvent(kernel, ridge), np.array([0.0, residual]), np.array([0.0, query])
    assert float(solution_error_bound(residual, ridge)) == pytest.approx(np.linalg.norm(inverse @ r), rel=1e-12)
    error = pytest.approx(abs(k @ inverse @ r), rel=1e-12)
    assert float(prediction_error_from_query_norm(residual, ridge, query)) == error
    assert float(prediction_error_from_energy(residual, ridge, k @ inverse @ k)) == error


def test_a_query_with_no_features_has_no_error():
    assert float(prediction_error_from_variance(1.0, 0.1, 0.0, 0.0)) == 0.0


def test_shapes_follow_queries_then_outputs():
    assert prediction_error_from_diagonal(1.0, 1.0, 1.0).shape == ()
    assert prediction_error_from_diagonal([1.0, 2.0], 1.0, 1.0).shape == (2,)
    assert prediction_error_from_energy(1.0, 1.0, [1.0, 2.0, 3.0]).shape == (3,)
    assert prediction_error_from_query_norm(torch.ones(2), 1.0, torch.ones(3)).shape == (3, 2)


def test_a_bound_beyond_float64_is_infinite_and_silent():
    assert float(solution_error_bound(1e300, 1e-300)) == np.inf
    assert float(prediction_error_from_query_norm(1e300, 1.0, 1e300)) == np.inf


def test_errors_say_what_to_do():
    with pytest.raises(InputError, match="residual_norms holds -1; numbers >= 0 were expected"):
        solution_error_bound(-1.0, 1.0)
    with pytest.raises(InputError, match="ridge is 0"):
        prediction_error_from_energy(1.0, 0.0, 1.0)
    with pytest.raises(InputError, match="query_diagonals holds -2"):
        prediction_error_from_diagonal(1.0, 1.0, [1.0, -2.0])
    with pytest.raises(
        InputError, match=r"at query 1; k\(x\)'A\^-1 k\(x\) <= k\(x, x\).*prediction_error_from_diagonal"
    ):
        prediction_error_from_variance(1.0, 1.0, [0.5, 1.5], [1.0, 1.0])
    with pytest.raises(ShapeError, match="give one of each per query"):
        prediction_error_from_variance(1.0, 1.0, [0.5, 0.5], 1.0)
    with pytest.raises(ShapeError, match=r"residual_norms has shape \(1, 2\)"):
        solution_error_bound([[1.0, 2.0]], 1.0)
