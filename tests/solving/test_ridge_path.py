from inspect import unwrap
from math import exp

import pytest
import torch

from hostile.exact import ExactRegression
from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve
from ridgeformer.solving.ridge_path import ReducedKernel, leave_one_out_path, ridge_path
from tests.solving.solver_case import problem


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


GRID = (1e-2, 1e-1, 1.0)


def classes(n):
    """Unit rows and three +1/-1 columns."""
    X = torch.nn.functional.normalize(torch.randn(n, 8, generator=torch_generator(0, "rows"), dtype=torch.float64))
    codes = X[:, :3].argmax(1)
    return X, 2.0 * torch.nn.functional.one_hot(codes, 3).double() - 1


def test_the_path_equals_refits_at_every_ridge():
    X, y = classes(20)
    path = ridge_path(Exponential(0.5), X, y, GRID)
    for ridge, found in zip(GRID, path.residuals, strict=True):
        for i in range(20):
            rest = torch.arange(20) != i
            refit = solve(Exponential(0.5), X[rest], y[rest], ridge)
            torch.testing.assert_close(found[i], y[i] - refit.predict(X[i : i + 1])[0], rtol=1e-10, atol=1e-10)


def test_many_rows_go_by_bands_and_are_checked(monkeypatch):
    X, y = classes(300)
    exact = ridge_path(Exponential(0.5), X, y, GRID)
    monkeypatch.setattr("ridgeformer.solving.ridge_path.EXACT_ROWS", 100)
    found = ridge_path(Exponential(0.5), X, y, GRID)
    assert 1e-9 < float(found.error.max()) < 1e-4  # float32, and it knows
    assert found.residual_bound is None
    assert found.unsolved <= 1e-5  # a hundredth of tol
    torch.testing.assert_close(found.mean_squared, exact.mean_squared, rtol=1e-5, atol=0)
    torch.testing.assert_close(found.misclassified, exact.misclassified)
    error = (found.residuals / exact.residuals - 1).abs().median()
    assert error < 10 * float(found.error.max())


@pytest.mark.parametrize("why", ["tolerance", "ridge", "logits"])
def test_what_float32_cannot_hold_is_done_in_float64(why, monkeypatch):
    monkeypatch.setattr("ridgeformer.solving.ridge_path.EXACT_ROWS", 50)
    X, y = classes(120)
    kernel = Exponential(0.01 if why == "logits" else 0.5)
    grid = [1e-7] if why == "ridge" else [0.1 * float(kernel.diag(X)[0])]
    found = ridge_path(kernel, X, y, grid, tol=1e-10 if why == "tolerance" else 1e-6)
    torch.testing.assert_close(found.residuals, leave_one_out_path(kernel(X), y, grid), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("small", [2, 6])
def test_only_ridges_that_float32_does_not_serve_are_done_in_float64(small, monkeypatch):
    monkeypatch.setattr("ridgeformer.solving.ridge_path.EXACT_ROWS", 50)
    X, y = classes(200)
    kernel = Exponential(2.0)
    grid = [0.1, 1e-6 * 2, 10.0, *(1e-6 * 3**-k for k in range(small - 1)), 1.0]
    reduced = ReducedKernel(kernel, X, y, tol=1e-4)
    found = reduced.path(grid)
    exact = leave_one_out_path(kernel(X), y, grid)
    served = torch.tensor(grid) > 1e-3
    assert bool((found.error[served] > 1e-9).all())  # float32, and it knows
    assert bool((found.error[~served] < 1e-9).all())
    assert (torch.float64 in reduced._forms) == (small > 4)  # few are factorised, many share a reduction
    torch.testing.assert_close(found.residuals[served], exact[served], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(found.residuals[~served], exact[~served], rtol=1e-5, atol=1e-8)
    assert found.unsolved <= 1e-6  # a hundredth of tol


def test_errors_of_classes():
    """Counted by hand from the predictions left out."""
    X, y = classes(40)
    path = ridge_path(Exponential(0.5), X, y, [1.0])
    wrong = sum(int((y - path.residuals[0])[i].argmax() != y[i].argmax()) for i in range(40))
    assert float(path.misclassified[0]) == wrong / 40
    two = ridge_path(Exponential(0.5), X, y[:, 0], [1.0])
    signs = (y[:, 0] - two.residuals[0, :, 0]).sign()
    assert float(two.misclassified[0]) == float((signs != y[:, 0]).double().mean()) > 0


def test_large_logits_do_not_matter():
    X, y = classes(30)
    X = 20 * X
    scaled = Exponential(1.0).within_range(X)
    exact = leave_one_out_path(scaled(X), y, [1.0])
    found = ridge_path(Exponential(1.0), X, y, [exp(scaled.log_scale)])
    torch.testing.assert_close(found.residuals, exact)


@pytest.mark.parametrize(("grid", "says"), [([], "empty"), (1.0, "a sequence"), ([1.0, -1.0], "ridge is -1")])
def test_a_bad_grid(grid, says):
    with pytest.raises(errors.InputError, match=says):
        unwrap(ridge_path)(Exponential(1.0), [[1.0], [2.0]], [1.0, 2.0], grid)


def test_below_2000_rows_the_error_is_bounded_not_assumed_to_be_zero():
    """16 points on [-1, 1] at ridge 1e-16: leave-one-out is off by more than a half, and the bound says so."""
    X = torch.linspace(-1, 1, 16, dtype=torch.float64)[:, None]
    y = torch.sin(3 * X) + torch.cos(7 * X)
    path = ridge_path(Exponential(1.0), X, y, [1e-16, 1e-2])
    assert path.residual_bound is not None
    for g, ridge in enumerate([1e-16, 1e-2]):
        truth = ExactRegression(Exponential(1.0), X, y, ridge).leave_one_out()
        exact = torch.tensor([[float(value) for value in row] for row in truth], dtype=torch.float64)
        gap = (path.residuals[g] - exact).abs()
        assert bool((gap <= path.residual_bound[g]).all())
        if ridge == 1e-16:
            assert float((gap / exact.abs()).max()) > 0.1  # it is bad ...
            assert float(path.error[g]) > 0.1  # ... and it says so
        else:
            assert float(path.error[g]) < 1e-9
