from ridgeformer.kernels import Exponential
from ridgeformer.solving import Status, solve
from tests.solving.solver_case import IterativeCase, problem


class TestRichardson(IterativeCase):
    method = "richardson"


def test_a_spectrum_given_too_short_diverges_and_says_so():
    X, y = problem()
    solution = solve(Exponential(1.0), X, y, 0.1, method="richardson", spectrum=(0.1, 5.0))
    assert solution.status is Status.DIVERGED
    assert "method='cg'" in solution.advice
