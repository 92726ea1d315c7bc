from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import inexact_cg_residual_bound, residual_gap_bound
from ridgeformer.core.errors import InputError, ShapeError

from .spectra import cases, problems


@dataclass
class Run:
    alpha: np.ndarray
    residual: np.ndarray
    step_lengths: np.ndarray
    direction_norms: np.ndarray
    errors: np.ndarray


def inexact_cg(matrix, b, steps, perturb):
    """Conjugate gradients whose product A p_j is off by perturb(j, p_j)."""
    alpha, r = np.zeros_like(b), b.copy()
    p, lengths, norms, errors = r.copy(), [], [], []
    for j in range(steps):
        rho = r @ r
        error = perturb(j, p)
        q = matrix @ p + error
        gamma = rho / (p @ q)
        lengths, norms, errors = [*lengths, gamma], [*norms, np.linalg.norm(p)], [*errors, error]
        alpha, r = alpha + gamma * p, r - gamma * q
        if r @ r <= 1e-24 * (b @ b):
            break
        p = r + (r @ r) / rho * p
    return Run(alpha, r, np.array(lengths), np.array(norms), np.array(errors))


def _system(problem):
    matrix = problem.kernel + problem.ridge * np.eye(problem.n)
    return matrix, float(problem.spectrum[0] + problem.ridge), problem.rng.standard_normal(problem.n)


@cases(340)
@given(problems(max_log_scale=20, min_log_ridge=-3), st.floats(-8, -1.5), st.integers(1, 12))
def test_the_true_residual_stays_below_the_bound(problem, log_eps, steps):
    matrix, size, b = _system(problem)
    eps, n = 10.0**log_eps, problem.n

    def random(j, p):
        direction = problem.rng.standard_normal(n)
        return eps * size * np.linalg.norm(p) * direction / np.linalg.norm(direction)

    def operator(j, p):
        return -eps * size * p

    for perturb in (random, operator, random, operator, random, random):
        run = inexact_cg(matrix, b, steps, perturb)
        true = b - matrix @ run.alpha
        slack = 1e-11 * (np.linalg.norm(b) + size * np.sum(np.abs(run.step_lengths) * run.direction_norms))
        identity = run.residual + run.step_lengths @ run.errors
        assert np.linalg.norm(true - identity) <= slack
        gap = residual_gap_bound(eps, size, run.step_lengths, run.direction_norms)
        assert np.linalg.norm(true - run.residual) <= gap + slack
        carried = np.linalg.norm(run.residual)
        assert np.linalg.norm(true) <= (
            inexact_cg_residual_bound(carried, eps, size, run.step_lengths, run.direction_norms) + slack
        )


@cases(60)
@given(problems(max_log_scale=20, min_log_ridge=-2), st.floats(-4, -2.5), st.integers(1, 5))
def test_the_gap_bound_is_attained_by_errors_that_all_push_one_way(problem, log_eps, steps):
    """kappa eps < 1 keeps every p_j'q_j, and so every gamma_j, above zero."""
    matrix, size, b = _system(problem)
    eps, push = 10.0**log_eps, problem.basis[:, 0]
    run = inexact_cg(matrix, b, steps, lambda j, p: eps * size * np.linalg.norm(p) * push)
    assert (run.step_lengths > 0).all()
    gap = np.linalg.norm(b - matrix @ run.alpha - run.residual)
    bound = float(residual_gap_bound(eps, size, run.step_lengths, run.direction_norms))
    assert gap == pytest.approx(bound, rel=1e-6)


@cases(60)
@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3).filter(lambda b: abs(b) > 1e-3), st.floats(0, 0.5))
def test_the_residual_bound_is_attained_in_one_dimension(entry, b, eps):
    run = inexact_cg(np.array([[entry]]), np.array([b]), 1, lambda j, p: eps * entry * p)
    true = abs(b - entry * float(run.alpha[0]))
    carried = float(np.abs(run.residual[0]))
    bound = float(inexact_cg_residual_bound(carried, eps, entry, run.step_lengths, run.direction_norms))
    assert bound == pytest.approx(true, rel=1e-9, abs=1e-12 * abs(b))


def _floor(kappa, eps, n, seed):
    """The relative error where inexact conjugate gradients stop improving, in units of kappa eps."""
    rng = np.random.default_rng(seed)
    spectrum = np.logspace(-np.log10(kappa), 0, n)
    b = rng.standard_normal(n)

    def random(j, p):
        direction = rng.standard_normal(n)
        return eps * np.linalg.norm(p) * direction / np.linalg.norm(direction)

    run = inexact_cg(np.diag(spectrum), b, 600, random)
    return np.linalg.norm(run.alpha - b / spectrum) / np.linalg.norm(b / spectrum) / (kappa * eps)


@pytest.mark.parametrize("eps", [1e-8, 1e-6])
@pytest.mark.parametrize("n", [50, 100])
def test_the_error_floor_grows_like_kappa_eps(n, eps):
    middle = [_floor(1e2, eps, n, seed) for seed in range(5)]
    assert 0.07 < min(middle) <= max(middle) < 0.28
    every = [_floor(kappa, eps, n, seed) for kappa in (1e1, 1e3) for seed in range(3)]
    assert 0.02 < min(every) <= max(every) < 0.5


def test_one_bound_per_output():
    lengths, norms = np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([[3.0, 1.0], [2.0, 4.0]])
    both = inexact_cg_residual_bound([0.5, 1.0], 0.1, 10.0, lengths, norms)
    assert both.tolist() == [5.5, 5.0]
    for column in range(2):
        alone = residual_gap_bound(0.1, 10.0, lengths[:, column], norms[:, column])
        assert alone.shape == ()
        assert float(alone) == float(residual_gap_bound(0.1, 10.0, lengths, norms)[column])


def test_before_the_first_step_there_is_no_gap():
    assert float(residual_gap_bound(0.1, 10.0, [], [])) == 0.0
    assert inexact_cg_residual_bound([3.0, 4.0], 0.1, 10.0, np.zeros((0, 2)), np.zeros((0, 2))).tolist() == [3.0, 4.0]


def test_exact_products_leave_no_gap():
    assert float(residual_gap_bound(0.0, 10.0, [1.0, 2.0], [1.0, 1.0])) == 0.0


def test_errors_say_what_to_do():
    with pytest.raises(ShapeError, match=r"\(2,\) and direction_norms \(1,\): give one direction norm"):
        residual_gap_bound(0.1, 1.0, [1.0, 2.0], [1.0])
    with pytest.raises(ShapeError, match=r"step_lengths has shape \(\); \(steps,\)"):
        residual_gap_bound(0.1, 1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="direction_norms holds -1; numbers >= 0"):
        residual_gap_bound(0.1, 1.0, [1.0], [-1.0])
    with pytest.raises(InputError, match=r"eps is -0\.1; a number >= 0"):
        residual_gap_bound(-0.1, 1.0, [1.0], [1.0])
    with pytest.raises(InputError, match="operator_norm is -1"):
        residual_gap_bound(0.1, -1.0, [1.0], [1.0])
    with pytest.raises(ShapeError, match="give one residual norm per output"):
        inexact_cg_residual_bound([1.0, 2.0], 0.1, 1.0, [1.0], [1.0])
