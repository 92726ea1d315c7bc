import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import (
    effective_dimension,
    gaussian_sketch_relative_error,
    pca_relative_error,
    pca_relative_error_bound,
    smallest_pca_width,
    width_for_relative_error,
    width_from_effective_dimension,
)
from ridgeformer.core.errors import InputError

from .spectra import cases, norm, problems, resolvent

FLOAT = 1 + 1e-12


@cases(60)
@given(problems())
def test_effective_dimension_is_the_trace_of_the_smoother(problem):
    for ridge in problem.ridge * np.array([0.1, 0.5, 1.0, 3.0, 10.0]):
        smoother = problem.kernel @ resolvent(problem.kernel, ridge)
        assert effective_dimension(problem.spectrum, ridge) == pytest.approx(np.trace(smoother), abs=1e-9)


@cases(80)
@given(problems())
def test_effective_dimension_lies_below_the_rank_and_falls_with_the_ridge(problem):
    ridges = problem.ridge * np.array([0.1, 0.5, 1.0, 3.0, 10.0])
    found = np.array([effective_dimension(problem.spectrum, ridge) for ridge in ridges])
    assert (found <= np.count_nonzero(problem.spectrum) * FLOAT).all()
    assert (np.diff(found) <= 0).all()


@cases(200)
@given(problems())
def test_pca_relative_error_is_the_worst_over_all_targets(problem):
    smoother = problem.kernel @ resolvent(problem.kernel, problem.ridge)
    for width in range(problem.n + 2):
        cut = problem.top(width)
        worst = norm(smoother - cut @ resolvent(cut, problem.ridge))
        assert pca_relative_error(problem.spectrum, width, problem.ridge) == pytest.approx(worst, abs=1e-9)


@cases(180)
@given(problems(max_n=20, max_log_scale=140))
def test_effective_dimension_bounds_the_error_at_every_width(problem):
    d_eff = effective_dimension(problem.spectrum, problem.ridge)
    for width in range(problem.n + 2):
        error = pca_relative_error(problem.spectrum, width, problem.ridge)
        assert error <= pca_relative_error_bound(d_eff, width) * FLOAT


@pytest.mark.parametrize("width", [1, 2, 5, 50, 1000])
def test_a_width_equal_to_the_effective_dimension_guarantees_nothing(width):
    ridge = 0.3
    spectrum = np.full(width + 1, width * ridge)
    assert effective_dimension(spectrum, ridge) == pytest.approx(width, rel=1e-12)
    error = pca_relative_error(spectrum, width, ridge)
    assert error == pytest.approx(width / (width + 1), rel=1e-12)
    assert error == pytest.approx(pca_relative_error_bound(width, width), rel=1e-12)


def test_that_counterexample_as_matrices():
    width, ridge = 4, 0.5
    kernel = width * ridge * np.eye(width + 1)
    cut = np.diag([width * ridge] * width + [0.0])
    gap = kernel @ resolvent(kernel, ridge) - cut @ resolvent(cut, ridge)
    assert norm(gap) == pytest.approx(0.8, rel=1e-14)


@cases(60)
@given(problems(max_n=20), st.lists(st.floats(1e-4, 2.0), min_size=4, max_size=4))
def test_the_width_asked_for_delivers_the_error_asked_for(problem, accuracies):
    spectrum, ridge = problem.spectrum, problem.ridge
    for eps in accuracies:
        smallest = smallest_pca_width(spectrum, ridge, eps)
        enough = width_for_relative_error(spectrum, ridge, eps)
        assert pca_relative_error(spectrum, smallest, ridge) <= eps
        assert smallest == 0 or pca_relative_error(spectrum, smallest - 1, ridge) > eps
        assert smallest <= enough <= np.count_nonzero(spectrum)
        assert pca_relative_error(spectrum, enough, ridge) <= eps * FLOAT


@cases(400)
@given(st.floats(0, 1e6), st.floats(1e-6, 2.0))
def test_the_width_from_the_effective_dimension_is_the_smallest_that_suffices(d_eff, eps):
    width = width_from_effective_dimension(d_eff, eps)
    assert pca_relative_error_bound(d_eff, width) <= eps
    assert width == 0 or pca_relative_error_bound(d_eff, width - 1) > eps * (1 - 1e-15)


def test_tiny_accuracies_do_not_overflow():
    assert width_from_effective_dimension(1e10, 1e-300) > 10**309


def _whitened_and_in_sample(spectrum, ridge, width, seed):
    rng = np.random.default_rng(seed)
    factor = np.sqrt(spectrum)[:, None] * rng.standard_normal((len(spectrum), width)) / np.sqrt(width)
    kernel, sketch = np.diag(spectrum), factor @ factor.T
    white = 1 / np.sqrt(spectrum + ridge)
    return (
        norm((kernel - sketch) * white[:, None] * white),
        ridge * norm(resolvent(kernel, ridge) - resolvent(sketch, ridge)),
    )


@pytest.mark.parametrize("ridge", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("times", [4, 16])
@pytest.mark.parametrize("decay", [0.0, 1.0, 2.0])
def test_the_gaussian_guide_is_of_the_right_size(decay, times, ridge):
    spectrum = np.arange(1.0, 61.0) ** -decay
    d_eff = effective_dimension(spectrum, ridge)
    width = math.ceil(times * d_eff)
    guide = gaussian_sketch_relative_error(d_eff, width)
    draws = np.array([_whitened_and_in_sample(spectrum, ridge, width, seed) for seed in range(20)])
    assert 0.3 * guide < draws[:, 0].mean() < 1.05 * guide
    assert (draws[:, 1] < guide).all()
    small = draws[draws[:, 0] < 1]
    assert (small[:, 1] <= small[:, 0] / (1 - small[:, 0])).all()


def test_the_gaussian_guide_is_no_theorem():
    spectrum, ridge = np.ones(40), 0.1
    d_eff = effective_dimension(spectrum, ridge)
    guide = gaussian_sketch_relative_error(d_eff, 37)
    assert max(_whitened_and_in_sample(spectrum, ridge, 37, seed)[0] for seed in range(30)) > guide


def test_the_gaussian_guide_is_infinite_without_columns():
    assert gaussian_sketch_relative_error(3.0, 0) == math.inf


def test_the_order_of_the_spectrum_does_not_matter():
    assert pca_relative_error([1.0, 3.0, 2.0], 1, 2.0) == 0.5


def test_errors_name_the_argument():
    with pytest.raises(InputError, match="width is -1; it must be an integer >= 0"):
        pca_relative_error([1.0], -1, 1.0)
    with pytest.raises(InputError, match="width is True; an integer"):
        pca_relative_error([1.0], True, 1.0)
    with pytest.raises(InputError, match="d_eff is -2; a number >= 0"):
        width_from_effective_dimension(-2.0, 0.1)
    with pytest.raises(InputError, match="eps is 0; it must be a finite number > 0"):
        smallest_pca_width([1.0], 1.0, 0.0)
    with pytest.raises(InputError, match="eps is -1"):
        width_for_relative_error([1.0], 1.0, -1.0)
