import pytest
import torch

from ridgeformer.algorithms import Neumann
from ridgeformer.kernels import Exponential
from ridgeformer.solving import Status, solve
from tests.solving.solver_case import IterativeCase, problem


class TestNeumann(IterativeCase):
    algorithm = Neumann()
    ridge = 200.0


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 0.99, 30.0])
def test_diverges_within_a_handful_of_steps_with_the_measured_norm(ridge):
    """Claim A3: the series needs ||K|| < ridge, and an exponential kernel on n rows has ||K|| >= 1."""
    X, y = problem()
    norm = float(torch.linalg.eigvalsh(Exponential(1.0)(X))[-1])
    assert norm > 31
    fit = solve(Exponential(1.0), X, y, ridge, algorithm="neumann")
    assert fit.status is Status.DIVERGED
    assert fit.steps <= 5
    assert fit.spectrum.high - ridge == pytest.approx(norm, rel=1e-6)
    assert f"{norm:.4g}" in fit.advice
    assert bool(torch.isfinite(fit.alpha).all())


def test_partial_sums_are_the_series():
    X, y = problem()
    K = Exponential(1.0)(X)
    algorithm = Neumann(steps=4)
    iterates = solve(Exponential(1.0), X, y, 200.0, algorithm=algorithm, tol=1e-15, keep_iterates=True).iterates
    term, total = y / 200.0, torch.zeros_like(y)
    for partial in iterates:
        total = total + term
        term = -K @ term / 200.0
        torch.testing.assert_close(partial, total, rtol=1e-11, atol=1e-14)
