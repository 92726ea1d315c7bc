"""The problems of the studies: the condition number asked for."""

import pytest
import torch

from ridgeformer.kernels import DotProduct
from ridgeformer.studies.compiled_problem import SOFTMAX, problem_with_condition_number


@pytest.mark.parametrize("decay", ["log", "linear", "power"])
@pytest.mark.parametrize("kappa", [1.9, 100.0, 1e4])
def test_linear_attention_has_the_condition_number_asked_for(decay, kappa):
    problem = problem_with_condition_number("linear", 30, 12, kappa, decay, seed=1)
    A = DotProduct()(problem.X) + problem.ridge * torch.eye(30, dtype=torch.float64)
    assert float(torch.linalg.cond(A, 2)) == pytest.approx(kappa, rel=1e-6)
    assert float(problem.X.norm(dim=1).max()) == pytest.approx(1)


def test_softmax_attention_stays_below_it():
    problem = problem_with_condition_number("softmax", 30, 12, 1e3, "log", seed=1)
    K = SOFTMAX(problem.X)
    values = torch.linalg.eigvalsh(K) + problem.ridge
    assert problem.extremes == pytest.approx((float(values[0]), float(values[-1])))
    assert problem.extremes[1] / problem.extremes[0] <= 1e3
    assert 1 + float(torch.linalg.matrix_norm(K, ord=2)) / problem.ridge == pytest.approx(1e3)
