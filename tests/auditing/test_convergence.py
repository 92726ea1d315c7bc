import numpy as np
import torch

from ridgeformer import datasets, kernels, solve
from ridgeformer.auditing import Settings
from ridgeformer.auditing.convergence import StepErrors, examine_convergence
from ridgeformer.datasets import Split


def examine(ends_factor=1.0):
    data = Split.of(datasets.load("wine"))
    exact = solve(kernels.Exponential(5.0), data.X, data.y, 1.0, algorithm="direct")
    exact.__dict__["eigenvalues"] = exact.eigenvalues * torch.tensor([ends_factor] + [1.0] * (len(data.X) - 1))
    return examine_convergence(exact, Settings(steps=60))


def test_the_bound_holds_and_conjugate_gradients_is_fastest_of_the_plain_methods():
    result = examine()
    assert result.bound_holds
    cg, _, chebyshev, richardson = (curve.errors for curve in result.curves)
    assert cg[10] < chebyshev[10] < richardson[10]


def test_a_wrong_condition_number_is_noticed():
    """The check can fail: with a spectrum claimed 1000 times shorter the rate is too fast to hold."""
    assert not examine(ends_factor=1e-3).bound_holds


def test_steps_to_target():
    assert StepErrors("a", np.array([1.0, 1e-2, 1e-4])).steps_to_target == 2
    assert StepErrors("a", np.array([1.0, 1e-2])).steps_to_target is None
