import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import (
    cg_error_factor,
    cg_prediction_bound,
    cg_steps,
    chebyshev_error_factor,
    chebyshev_steps,
    condition_number_bound,
    heavy_ball_error_factor,
    heavy_ball_steps,
    nesterov_error_factor,
    nesterov_steps,
    neumann_error_factor,
    neumann_ratio,
    neumann_terms,
    richardson_error_factor,
    richardson_steps,
)
from ridgeformer.core.errors import InputError

from .spectra import cases, problems, resolvent

KAPPAS = st.floats(0, 6).map(lambda exponent: 10.0**exponent)


def conjugate_gradients(matrix, b, steps):
    """Iterates alpha_0 .. alpha_steps from zero, residuals reorthogonalised so that theory applies."""
    alpha, r = np.zeros_like(b), b.copy()
    p, previous, iterates = r.copy(), [], [alpha]
    for _ in range(steps):
        rho = r @ r
        if rho <= 1e-28 * (b @ b):
            iterates.append(alpha)
            continue
        q = matrix @ p
        gamma = rho / (p @ q)
        alpha, previous = alpha + gamma * p, [*previous, r / np.sqrt(rho)]
        r = r - gamma * q
        for direction in previous:
            r = r - (direction @ r) * direction
        p = r + (r @ r) / rho * p
        iterates.append(alpha)
    return np.array(iterates)


def chebyshev(matrix, b, lowest, highest, steps):
    """Iterates of the Chebyshev iteration for eigenvalues in [lowest, highest], from zero."""
    centre, half = (highest + lowest) / 2, (highest - lowest) / 2
    before, alpha = np.zeros_like(b), b / centre
    iterates, omega = [before, alpha], 2.0
    for _ in range(steps - 1):
        omega = 1 / (1 - omega * (half / centre) ** 2 / 4)
        alpha, before = omega * ((b - matrix @ alpha) / centre + alpha - before) + before, alpha
        iterates.append(alpha)
    return np.array(iterates[: steps + 1])


def richardson(matrix, b, lowest, highest, steps):
    alpha = np.zeros_like(b)
    iterates = [alpha]
    for _ in range(steps):
        alpha = alpha + 2 / (lowest + highest) * (b - matrix @ alpha)
        iterates.append(alpha)
    return np.array(iterates)


def heavy_ball(matrix, b, lowest, highest, steps):
    """Polyak's iteration with its best coefficients, from zero."""
    low, high = np.sqrt(lowest), np.sqrt(highest)
    alpha = change = np.zeros_like(b)
    iterates = [alpha]
    for _ in range(steps):
        change = ((high - low) / (high + low)) ** 2 * change + 4 / (low + high) ** 2 * (b - matrix @ alpha)
        alpha = alpha + change
        iterates.append(alpha)
    return np.array(iterates)


def nesterov(matrix, b, lowest, highest, steps):
    """Nesterov's iteration for strongly convex quadratics, from zero."""
    momentum = (np.sqrt(highest) - np.sqrt(lowest)) / (np.sqrt(highest) + np.sqrt(lowest))
    alpha = change = np.zeros_like(b)
    iterates = [alpha]
    for _ in range(steps):
        ahead = alpha + momentum * change
        alpha, before = ahead + (b - matrix @ ahead) / highest, alpha
        change = alpha - before
        iterates.append(alpha)
    return np.array(iterates)


STATIONARY = (
    (chebyshev, chebyshev_error_factor),
    (richardson, richardson_error_factor),
    (heavy_ball, heavy_ball_error_factor),
    (nesterov, nesterov_error_factor),
)


def energy_norms(vectors, matrix):
    return np.sqrt(np.maximum(np.einsum("ti,ij,tj->t", vectors, matrix, vectors), 0))


@cases(250)
@given(problems(max_log_scale=3, min_log_ridge=-3))
def test_conjugate_gradients_obey_their_rate_in_norm_and_prediction(problem):
    n, rng = problem.n, problem.rng
    matrix = problem.kernel + problem.ridge * np.eye(n)
    b = rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 2, n)
    kappa = float((problem.spectrum[0] + problem.ridge) / (problem.spectrum[-1] + problem.ridge))
    solution = resolvent(problem.kernel, problem.ridge) @ b
    queries = rng.standard_normal((4, n))
    query_norms = np.sqrt(np.einsum("qi,ij,qj->q", queries, resolvent(problem.kernel, problem.ridge), queries))
    start = np.sqrt(b @ solution)
    gaps = conjugate_gradients(matrix, b, n + 1) - solution
    for steps, (gap, error) in enumerate(zip(gaps, energy_norms(gaps, matrix), strict=True)):
        assert error <= (cg_error_factor(kappa, steps) + 1e-9) * start
        assert error <= (chebyshev_error_factor(kappa, steps) + 1e-9) * start
        bound = cg_prediction_bound(kappa, steps, query_norms, start)
        assert (np.abs(queries @ gap) <= bound + 1e-9 * query_norms * start).all()


@cases(120)
@given(st.integers(1, 8), st.floats(0.05, 3))
def test_conjugate_gradients_attain_the_chebyshev_factor(steps, log_kappa):
    """On the extrema of the Chebyshev polynomial, with the weights dual to the minimax problem."""
    kappa = 10.0**log_kappa
    nodes = (1 + kappa) / 2 + (kappa - 1) / 2 * np.cos(np.pi * np.arange(steps + 1) / steps)
    others = nodes[None, :] - nodes[:, None] + np.eye(steps + 1)
    weights = np.abs(np.prod(np.where(np.eye(steps + 1, dtype=bool), 1.0, nodes / others), axis=1))
    solution = np.sqrt(weights / nodes)
    gaps = conjugate_gradients(np.diag(nodes), nodes * solution, steps) - solution
    errors = energy_norms(gaps, np.diag(nodes)) / np.sqrt(weights.sum())
    assert errors[steps] == pytest.approx(chebyshev_error_factor(kappa, steps), rel=1e-6, abs=1e-10)
    assert errors[steps] >= cg_error_factor(kappa, steps) / 2 * (1 - 1e-6) - 1e-10
    query = nodes * gaps[steps]
    bound = float(cg_prediction_bound(kappa, steps, np.sqrt(query @ (query / nodes)), np.sqrt(weights.sum())))
    share = chebyshev_error_factor(kappa, steps) / cg_error_factor(kappa, steps)
    assert abs(query @ gaps[steps]) == pytest.approx(share * bound, rel=1e-6, abs=1e-10)


@cases(160)
@given(problems(max_log_scale=3, min_log_ridge=-3))
def test_iterations_with_fixed_coefficients_obey_their_rates(problem):
    n, steps = problem.n, 12
    matrix = problem.kernel + problem.ridge * np.eye(n)
    lowest, highest = problem.spectrum[-1] + problem.ridge, problem.spectrum[0] + problem.ridge
    kappa = float(highest / lowest)
    b = problem.rng.standard_normal(n) * 10.0 ** problem.rng.uniform(-2, 2, n)
    solution = resolvent(problem.kernel, problem.ridge) @ b
    for iterate, factor in STATIONARY:
        gaps = iterate(matrix, b, lowest, highest, steps) - solution
        factors = np.array([factor(kappa, t) for t in range(steps + 1)]) + 1e-9
        assert (np.linalg.norm(gaps, axis=1) <= factors * np.linalg.norm(solution)).all()
        assert (energy_norms(gaps, matrix) <= factors * np.sqrt(b @ solution)).all()


@cases(50)
@given(KAPPAS, st.sampled_from([0, 1]))
def test_chebyshev_and_richardson_attain_their_rates_at_both_ends(kappa, end):
    matrix, b = np.diag([1.0, kappa]), np.eye(2)[end] * [1.0, kappa]
    for iterate, factor in ((chebyshev, chebyshev_error_factor), (richardson, richardson_error_factor)):
        errors = np.linalg.norm(iterate(matrix, b, 1.0, kappa, 12) - np.eye(2)[end], axis=1)
        expected = [factor(kappa, t) for t in range(13)]
        assert errors == pytest.approx(expected, rel=1e-9, abs=1e-9)


@cases(50)
@given(KAPPAS)
def test_momentum_attains_its_rate_at_the_largest_and_nesterov_at_the_smallest_eigenvalue(kappa):
    matrix = np.diag([1.0, kappa])
    for iterate, factor, end in ((heavy_ball, heavy_ball_error_factor, 1), (nesterov, nesterov_error_factor, 0)):
        solution = np.eye(2)[end]
        errors = np.linalg.norm(iterate(matrix, matrix @ solution, 1.0, kappa, 12) - solution, axis=1)
        assert errors == pytest.approx([factor(kappa, t) for t in range(13)], rel=1e-7, abs=1e-9)


@cases(60)
@given(KAPPAS, st.integers(0, 12))
def test_factors_equal_their_formulas(kappa, steps):
    root = math.sqrt(kappa)
    assert cg_error_factor(kappa, steps) == pytest.approx(2 * ((root - 1) / (root + 1)) ** steps, rel=1e-8, abs=1e-12)
    assert richardson_error_factor(kappa, steps) == pytest.approx(((kappa - 1) / (kappa + 1)) ** steps, rel=1e-8)
    if kappa > 1.001:
        polynomial = np.polynomial.Chebyshev.basis(steps)((kappa + 1) / (kappa - 1))
        assert chebyshev_error_factor(kappa, steps) == pytest.approx(1 / polynomial, rel=1e-7)


@cases(60)
@given(KAPPAS, st.integers(0, 10**6))
def test_the_factors_are_ordered(kappa, steps):
    fast, slow = chebyshev_error_factor(kappa, steps), richardson_error_factor(kappa, steps)
    assert fast <= cg_error_factor(kappa, steps)
    assert fast <= slow * (1 + 1e-12)
    assert slow <= 1


@cases(120)
@given(st.floats(0, 16).map(lambda exponent: 10.0**exponent), st.floats(-12, 0.5).map(lambda exponent: 10.0**exponent))
def test_steps_are_the_fewest_that_suffice(kappa, eps):
    for steps_for, factor in (
        (cg_steps, cg_error_factor),
        (chebyshev_steps, chebyshev_error_factor),
        (richardson_steps, richardson_error_factor),
        (heavy_ball_steps, heavy_ball_error_factor),
        (nesterov_steps, nesterov_error_factor),
    ):
        steps = steps_for(kappa, eps)
        assert factor(kappa, steps) <= eps
        assert steps == 0 or factor(kappa, steps - 1) > eps or steps > 2**52


def test_steps_are_found_up_to_the_largest_condition_number():
    assert cg_steps(1e300, 1e-6) == pytest.approx(math.log(2e6) / 2 * 1e150, rel=1e-9)
    assert chebyshev_steps(1e300, 1e-6) == pytest.approx(math.log(2e6) / 2 * 1e150, rel=1e-9)
    assert richardson_steps(1e300, 1e-6) == pytest.approx(math.log(1e6) / 2 * 1e300, rel=1e-9)


def test_a_perfectly_conditioned_system_takes_one_step():
    assert [cg_error_factor(1.0, t) for t in (0, 1, 5)] == [2.0, 0.0, 0.0]
    assert [chebyshev_error_factor(1.0, t) for t in (0, 1, 5)] == [1.0, 0.0, 0.0]
    assert [richardson_error_factor(1.0, t) for t in (0, 1, 5)] == [1.0, 0.0, 0.0]
    assert [heavy_ball_error_factor(1.0, t) for t in (0, 1, 5)] == [1.0, 0.0, 0.0]
    assert [nesterov_error_factor(1.0, t) for t in (0, 1, 5)] == [1.0, 0.0, 0.0]
    assert cg_steps(1.0, 1e-9) == chebyshev_steps(1.0, 1e-9) == richardson_steps(1.0, 1e-9) == 1


def test_near_one_the_factors_keep_their_digits():
    assert cg_error_factor(1 + 2**-40, 1) == pytest.approx(2 * 2**-42, rel=1e-9)
    assert richardson_error_factor(1 + 2**-40, 1) == pytest.approx(2**-41, rel=1e-9)


MEASURED = {1e1: (63, 22, 22), 1e2: (632, 71, 66), 1e3: (6350, 225, 176), 1e4: (63790, 712, 439)}


def _fewest(error, limit):
    low, high = -1, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= 1e-6 else (middle, high)
    return high


@pytest.mark.parametrize("kappa", MEASURED)
def test_depths_on_a_log_spaced_spectrum(kappa):
    """n = 200, a right-hand side of ones in the eigenbasis, relative 2-norm error 1e-6."""
    spectrum = np.logspace(0, np.log10(kappa), 200)
    solution = 1 / spectrum
    size = np.linalg.norm(solution)
    richardson_depth, chebyshev_depth, cg_depth = MEASURED[kappa]

    step = 2 / (1 + kappa)
    assert _fewest(lambda t: np.linalg.norm((1 - step * spectrum) ** t * solution) / size, 10**6) == richardson_depth
    assert richardson_depth <= richardson_steps(kappa, 1e-6) < 1.12 * richardson_depth

    angle = np.arccos(np.clip((kappa + 1 - 2 * spectrum) / (kappa - 1), -1, 1))
    errors = [
        np.linalg.norm(np.cos(t * angle) * solution) * chebyshev_error_factor(kappa, t) / size for t in range(800)
    ]
    assert int(np.argmax(np.array(errors) <= 1e-6)) == chebyshev_depth
    assert chebyshev_depth <= chebyshev_steps(kappa, 1e-6) < 1.05 * chebyshev_depth

    found = _plain_cg_depth(spectrum, solution)
    assert found == pytest.approx(cg_depth, rel=0.03)
    assert found <= cg_steps(kappa, 1e-6)


def _plain_cg_depth(spectrum, solution):
    alpha, r = np.zeros_like(solution), spectrum * solution
    p, rho, steps = r.copy(), r @ r, 0
    while np.linalg.norm(alpha - solution) > 1e-6 * np.linalg.norm(solution):
        q = spectrum * p
        gamma = rho / (p @ q)
        alpha, r, steps = alpha + gamma * p, r - gamma * q, steps + 1
        rho, before = r @ r, rho
        p = r + rho / before * p
    return steps


def test_gradient_descent_depth_grows_like_kappa_and_chebyshev_like_its_root():
    assert richardson_steps(1e4, 1e-6) / richardson_steps(1e2, 1e-6) == pytest.approx(100, rel=0.01)
    assert chebyshev_steps(1e4, 1e-6) / chebyshev_steps(1e2, 1e-6) == pytest.approx(10, rel=0.02)


@cases(150)
@given(problems(max_log_scale=3, min_log_ridge=-1))
def test_the_neumann_series_errs_by_exactly_its_factor(problem):
    top = float(problem.spectrum[0])
    inverse = resolvent(problem.kernel, problem.ridge)
    partial, term = np.zeros((problem.n, problem.n)), np.eye(problem.n) / problem.ridge
    for terms in range(8):
        worst = np.linalg.norm(np.eye(problem.n) - np.linalg.solve(inverse, partial), 2)
        assert neumann_error_factor(top, problem.ridge, terms) == pytest.approx(worst, rel=1e-6, abs=1e-6)
        partial, term = partial + term, -problem.kernel @ term / problem.ridge


@cases(120)
@given(st.floats(0, 0.999), st.floats(-9, 0).map(lambda exponent: 10.0**exponent))
def test_neumann_terms_are_the_fewest_that_suffice(ratio, eps):
    terms = neumann_terms(ratio, 1.0, eps)
    assert neumann_error_factor(ratio, 1.0, terms) <= eps
    assert terms == 0 or neumann_error_factor(ratio, 1.0, terms - 1) > eps


def test_the_exponential_kernel_diverges_below_a_ridge_of_one():
    rows = np.random.default_rng(0).standard_normal((6, 3))
    top = float(np.linalg.eigvalsh(np.exp(rows @ rows.T))[-1])
    assert neumann_ratio(top, 0.99) > 1
    assert neumann_error_factor(top, 0.99, 10_000) == math.inf


@cases(60)
@given(problems(max_log_scale=3, min_log_ridge=-3))
def test_the_condition_number_is_bounded_by_the_norm(problem):
    for ridge in problem.ridge * np.array([0.3, 0.5, 1.0, 2.0, 5.0]):
        kappa = np.linalg.cond(problem.kernel + ridge * np.eye(problem.n))
        bound = condition_number_bound(problem.spectrum[0], ridge)
        assert kappa <= bound * (1 + 1e-9)
        if problem.spectrum[-1] == 0:
            assert kappa == pytest.approx(bound, rel=1e-8)


@pytest.mark.parametrize("kappa", [0.5, 0.0, -3.0, float("inf"), float("nan"), 1e301])
def test_kappa_must_be_a_condition_number(kappa):
    with pytest.raises(InputError, match="kappa is"):
        cg_error_factor(kappa, 1)


def test_errors_say_what_to_do():
    with pytest.raises(InputError, match=r"kappa is 0\.5; a condition number lies between 1 and .*smallest"):
        chebyshev_steps(0.5, 0.1)
    with pytest.raises(InputError, match="steps is -1; it must be an integer >= 0"):
        richardson_error_factor(2.0, -1)
    with pytest.raises(InputError, match="eps is 0; it must be a finite number > 0"):
        cg_steps(2.0, 0.0)
    with pytest.raises(InputError, match=r"norm\(K\)/ridge is 2; .* only below 1: raise the ridge, or use conjugate"):
        neumann_terms(2.0, 1.0, 0.1)
    with pytest.raises(InputError, match="kernel_norm is -1"):
        neumann_ratio(-1.0, 1.0)
    with pytest.raises(InputError, match="too small for this kernel"):
        neumann_ratio(1e300, 1e-300)
    with pytest.raises(InputError, match="query_norms holds -1"):
        cg_prediction_bound(2.0, 1, [-1.0], 1.0)
