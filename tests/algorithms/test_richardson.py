from ridgeformer.algorithms import Richardson
from ridgeformer.kernels import Exponential
from ridgeformer.solving import Status, solve
from tests.solving.solver_case import IterativeCase, problem


class TestRichardson(IterativeCase):
    algorithm = Richardson()


def test_a_step_size_given_too_large_diverges_and_says_so():
    X, y = problem()
    fit = solve(Exponential(1.0), X, y, 0.1, algorithm=Richardson(step_size=2 / 5.1))
    assert fit.status is Status.DIVERGED
    assert "algorithm='cg'" in fit.advice
