import torch

from ridgeformer.algorithms import Chebyshev
from ridgeformer.kernels import Exponential
from ridgeformer.solving import Status, solve
from tests.solving.solver_case import IterativeCase, problem


class TestChebyshev(IterativeCase):
    algorithm = Chebyshev()


def test_error_polynomial_is_chebyshevs():
    """After t steps the error is T_t((c - A)/h)/T_t(c/h) times the first."""
    X, y = problem()
    A = Exponential(1.0)(X) + torch.eye(40, dtype=torch.float64)
    values, Q = torch.linalg.eigh(A)
    low, high = float(values[0]), float(values[-1])
    fit = solve(
        Exponential(1.0),
        X,
        y,
        1.0,
        algorithm=Chebyshev(steps=6, spectrum=(low, high)),
        tol=1e-15,
        keep_iterates=True,
    )
    centre, half = (high + low) / 2, (high - low) / 2
    exact = torch.linalg.solve(A, y)
    point = torch.tensor(centre / half, dtype=torch.float64)
    for t, alpha in enumerate(fit.iterates, start=1):
        factor = torch.special.chebyshev_polynomial_t((centre - values) / half, t)
        factor = factor / torch.special.chebyshev_polynomial_t(point, t)
        torch.testing.assert_close(exact - alpha, Q @ (factor[:, None] * (Q.T @ exact)), rtol=1e-8, atol=1e-10)


def test_a_spectrum_given_too_short_diverges_and_says_so():
    X, y = problem()
    fit = solve(Exponential(1.0), X, y, 0.1, algorithm=Chebyshev(spectrum=(0.1, 5.0)))
    assert fit.status is Status.DIVERGED
