from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import (
    UNIT_ROUNDOFF,
    residual_norm_bound,
    residual_roundoff,
    residual_roundoff_from_sums,
    rounding_gamma,
)
from ridgeformer.core.errors import InputError, ShapeError

from .spectra import cases, problems


def exact_residual(kernel, alpha, y, ridge):
    """y - K alpha - l alpha in rational arithmetic."""
    coefficients = [Fraction(a) for a in alpha.tolist()]
    return [
        Fraction(target) - sum(Fraction(k) * a for k, a in zip(row, coefficients, strict=True)) - Fraction(ridge) * own
        for row, target, own in zip(kernel.tolist(), y.tolist(), coefficients, strict=True)
    ]


def distance(found, exact):
    return float(np.linalg.norm([float(Fraction(f) - e) for f, e in zip(found.tolist(), exact, strict=True)]))


def _sequential(kernel, alpha, y, ridge):
    total = y - ridge * alpha
    for j in range(len(alpha)):
        total = total - kernel[:, j] * alpha[j]
    return total


def _evaluations(kernel, alpha, y, ridge):
    """The residual in several orders of operation."""
    order = np.argsort(-np.abs(alpha))
    return [
        y - kernel @ alpha - ridge * alpha,
        y - (kernel + ridge * np.eye(len(y))) @ alpha,
        _sequential(kernel, alpha, y, ridge),
        _sequential(kernel[:, order[::-1]], alpha[order[::-1]], y, 0.0) - ridge * alpha,
        y - np.einsum("ij,j->i", kernel, alpha) - ridge * alpha,
    ]


@cases(410)
@given(problems(max_n=6, max_log_scale=30))
def test_every_order_of_evaluation_stays_within_the_allowance(problem):
    kernel, ridge, rng = problem.kernel, problem.ridge, problem.rng
    y = rng.standard_normal(problem.n)
    alpha = np.linalg.solve(kernel + ridge * np.eye(problem.n), y) * (1 + 1e-6 * rng.standard_normal(problem.n))
    exact = exact_residual(kernel, alpha, y, ridge)
    allowance = float(residual_roundoff(np.diagonal(kernel).clip(0), alpha, np.linalg.norm(y), ridge))
    true_norm = float(np.linalg.norm([float(e) for e in exact]))
    for found in _evaluations(kernel, alpha, y, ridge):
        assert distance(found, exact) <= allowance
        assert true_norm <= residual_norm_bound(found, allowance)


@pytest.mark.parametrize("n", [50, 200])
def test_an_adversary_comes_close_to_the_allowance(n):
    """One term of 1, then n - 1 terms just under half a unit in its last place, each rounded away."""
    grain = UNIT_ROUNDOFF * (1 - 2**-20)
    root = np.full(n, 2.0**-40)
    root[0] = 1.0
    kernel, alpha, y, ridge = np.outer(root, root), np.full(n, grain * 2.0**40), np.zeros(n), 2.0**-60
    alpha[0] = 1.0
    found = np.zeros(n)
    for j in range(n):
        found = found - kernel[:, j] * alpha[j]
    found = found - ridge * alpha
    error = distance(found, exact_residual(kernel, alpha, y, ridge))
    allowance = float(residual_roundoff(np.diagonal(kernel), alpha, 0.0, ridge))
    assert error <= allowance
    assert error > 0.9 * allowance


@cases(50)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_equals_the_formula(n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(8):
        diagonal, alpha = rng.uniform(0, 2, n), rng.standard_normal((n, 3))
        targets, ridge = rng.uniform(0, 2, 3), float(rng.uniform(0.01, 2))
        size = (
            np.sqrt(diagonal.sum()) * (np.sqrt(diagonal)[:, None] * np.abs(alpha)).sum(axis=0)
            + ridge * np.linalg.norm(alpha, axis=0)
            + targets
        )
        expected = rounding_gamma(n + 3) * size
        found = residual_roundoff(diagonal, alpha, targets, ridge)
        assert found == pytest.approx(expected, rel=1e-12)
        assert float(residual_roundoff(diagonal, alpha[:, 0], targets[0], ridge)) == pytest.approx(found[0], rel=1e-14)


def test_sums_beyond_float64_make_the_bound_infinite():
    assert float(residual_roundoff_from_sums(2, float("inf"), 0.0, 1.0, 1.0, 0.1)) == float("inf")
    found = residual_roundoff_from_sums(2, 1.0, [float("inf"), 1.0], [1.0, 1.0], [1.0, 1.0], 0.1)
    assert found[0] == float("inf")
    assert 0 < found[1] < 1


@cases(60)
@given(st.lists(st.floats(-UNIT_ROUNDOFF, UNIT_ROUNDOFF), min_size=0, max_size=20), st.integers(0, 2**20))
def test_gamma_bounds_products_of_roundings(deltas, signs):
    product = Fraction(1)
    for i, delta in enumerate(deltas):
        product *= (1 + Fraction(delta)) ** (-1 if signs >> i & 1 else 1)
    assert abs(product - 1) <= Fraction(rounding_gamma(len(deltas))) * (1 + Fraction(2) ** -50)


def test_gamma_is_nearly_attained_by_division():
    worst = (1 / (1 - Fraction(UNIT_ROUNDOFF))) ** 20 - 1
    assert float(worst) == pytest.approx(rounding_gamma(20), rel=1e-12)


@cases(300)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.floats(0, 1))
def test_the_norm_bound_covers_its_own_evaluation(residual, roundoff):
    square = sum((Fraction(r) ** 2 for r in residual), Fraction(0))
    bound = Fraction(float(residual_norm_bound(residual, roundoff))) - Fraction(roundoff)
    assert bound >= 0
    assert bound**2 >= square * (1 - Fraction(2) ** -1000) or square < Fraction(1e-290)


def test_one_bound_per_output():
    assert residual_norm_bound(np.ones((3, 2)), [0.0, 1.0]).shape == (2,)
    assert residual_norm_bound(np.ones(3), 0.0).shape == ()
    assert residual_roundoff(np.ones(3), np.ones((3, 2)), [0.0, 1.0], 1.0).shape == (2,)


def test_errors_say_what_to_do():
    with pytest.raises(ShapeError, match=r"diagonal has shape \(2,\) and alpha \(3,\).*one diagonal entry of K"):
        residual_roundoff([1.0, 1.0], [1.0, 1.0, 1.0], 1.0, 1.0)
    with pytest.raises(ShapeError, match="give the norm of each target column"):
        residual_roundoff([1.0], [1.0], [1.0, 2.0], 1.0)
    with pytest.raises(InputError, match="diagonal holds -1"):
        residual_roundoff([-1.0], [1.0], 1.0, 1.0)
    with pytest.raises(InputError, match="alpha holds nan"):
        residual_roundoff([1.0], [float("nan")], 1.0, 1.0)
    with pytest.raises(InputError, match="ridge is 0"):
        residual_roundoff([1.0], [1.0], 1.0, 0.0)
    for sums in ((-1.0, 1.0, 1.0, 1.0), (1.0, float("nan"), 1.0, 1.0), (1.0, 1.0, [1.0, 1.0], 1.0)):
        with pytest.raises(InputError, match="one number >= 0 was expected for the trace, and one per output"):
            residual_roundoff_from_sums(2, *sums, ridge=1.0)
    with pytest.raises(ShapeError, match=r"residual has shape \(2,\) and roundoff \(2,\)"):
        residual_norm_bound([1.0, 1.0], [1.0, 1.0])
    with pytest.raises(InputError, match=r"fewer than 2\^53 roundings"):
        rounding_gamma(2**53)
