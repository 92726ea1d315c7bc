import pytest
import torch
from solver_case import problem

from ridgeformer import errors
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import solve
from ridgeformer.solvers.ridge_path import leave_one_out_path


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_equals_real_refits(ridge):
    """Claim I1, row by row."""
    X, y = problem(n=25)
    kernel = Exponential(1.0)
    residuals = leave_one_out_path(kernel(X), y, [0.5, ridge])[1]
    for i in range(25):
        rest = torch.arange(25) != i
        refit = solve(kernel, X[rest], y[rest], ridge)
        torch.testing.assert_close(residuals[i], y[i] - refit.predict(X[i : i + 1])[0], rtol=1e-9, atol=1e-10)


def test_a_ridge_of_zero_is_refused():
    with pytest.raises(errors.InputError, match="ridge is 0"):
        leave_one_out_path(torch.eye(2).double(), torch.ones(2, 1).double(), [0.0])
