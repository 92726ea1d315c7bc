from dataclasses import replace

import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import exact, fit, influence, leave_one_out
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.solving.ridge_path import leave_one_out_path
from tests.influence.influence_case import KERNELS, assert_equal, draw, problem, refit, without


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_leave_one_out_equals_real_refits(name, classes, ridge):
    X, y, Xq = problem(classes=classes)
    kernel = KERNELS[name](X)
    full = refit(kernel, X, y, Xq, ridge)
    expected = torch.stack([full - refit(kernel, X, y, Xq, ridge, without(len(X), i)) for i in range(len(X))])
    assert_equal(leave_one_out(kernel, X, y, Xq, ridge), expected)


@pytest.mark.parametrize("name", KERNELS)
def test_self_influence_and_leave_one_out_residual_equal_real_refits(name):
    X, y, Xq = problem()
    kernel, n = KERNELS[name](X), len(X)
    found = influence(kernel, X, y, Xq, 0.3)
    alone = torch.cat([refit(kernel, X, y, X[i : i + 1], 0.3, without(n, i)) for i in range(n)])
    assert_equal(found.residual, y - alone)
    assert_equal(found.self_influence, refit(kernel, X, y, X, 0.3) - alone)
    assert_equal(found.residual[:, None], leave_one_out_path(kernel(X), y[:, None], [0.3])[0])


def test_leverage_is_the_derivative_of_the_own_prediction_in_the_own_label():
    X, y, Xq = problem()
    kernel = Exponential(2.0)
    nudged = [y + torch.eye(len(y), dtype=torch.float64)[i] for i in range(len(y))]
    change = torch.stack(
        [(refit(kernel, X, new, X, 0.3) - refit(kernel, X, y, X, 0.3))[i] for i, new in enumerate(nudged)]
    )
    assert_equal(influence(kernel, X, y, Xq, 0.3).leverage, change)


def test_infinitesimal_influence_is_the_derivative_in_a_points_weight():
    """The fit that minimises sum_j w_j (y_j - f_j)^2 + ridge |f|^2 has ridge / w_j on the diagonal."""
    X, y, Xq = problem()
    kernel, ridge = Exponential(2.0), 0.3
    K, cross = kernel(X), kernel(Xq, X)

    def predict(weights):
        return cross @ torch.linalg.solve(K + torch.diag(ridge / weights), y)

    jacobian = torch.autograd.functional.jacobian(predict, torch.ones(len(X), dtype=torch.float64))
    found = influence(kernel, X, y, Xq, ridge)
    assert_equal(found.infinitesimal, jacobian.T)
    assert_equal(found.leave_one_out, found.infinitesimal / (1 - found.leverage)[:, None])


@pytest.mark.parametrize("panel", [1, 7, 30, 64])
def test_the_diagonal_by_panels_is_that_of_the_inverse(panel, monkeypatch):
    monkeypatch.setattr(exact, "PANEL", panel)
    B = draw(30, 30, purpose="matrix")
    A = B @ B.T + torch.eye(30, dtype=torch.float64)
    assert_equal(exact.inverse_diagonal(torch.linalg.cholesky(A)), torch.linalg.inv(A).diagonal(), 1e-12)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_a_solve_with_the_factor_is_one_with_the_matrix(columns):
    B, C = draw(30, 30, purpose="matrix"), draw(30, columns, purpose="columns")
    A = B @ B.T + torch.eye(30, dtype=torch.float64)
    torch.testing.assert_close(exact.solve_factored(torch.linalg.cholesky(A), C), torch.linalg.solve(A, C))


def test_the_kernel_matrix_is_left_as_it_was():
    X, y, _ = problem()
    assert torch.equal(fit(Exponential(2.0), X, y, 0.3).system.matrix, Exponential(2.0)(X))


def test_what_one_solve_does_not_reach_is_left_to_the_refining_solver(monkeypatch):
    X, y, Xq = problem()
    expected = leave_one_out(Exponential(2.0), X, y, Xq, 0.3)
    once = exact._solve_once
    monkeypatch.setattr(
        exact, "_solve_once", lambda *given: replace(once(*given), alpha=y[:, None], residual=y[:, None])
    )
    assert_equal(leave_one_out(Exponential(2.0), X, y, Xq, 0.3), expected)


def test_large_logits_are_rescaled_and_change_nothing():
    X, y, Xq = problem()
    X, Xq = 8 * torch.nn.functional.normalize(X), 8 * torch.nn.functional.normalize(Xq)
    hot = Exponential(temperature=0.15)
    scaled = Exponential(temperature=0.15, log_scale=64 / 0.15)
    ridge = 1e180
    expected = leave_one_out(scaled, X, y, Xq, ridge * torch.exp(torch.tensor(-64 / 0.15, dtype=torch.float64)))
    assert fit(hot, X, y, ridge).log_scale > 0
    assert_equal(leave_one_out(hot, X, y, Xq, ridge), expected, 1e-9)


def test_float32_in_float32_out():
    X, y, Xq = problem()
    found = leave_one_out(Exponential(2.0), X.float(), y, Xq, 0.3)
    assert found.dtype == torch.float32
    assert_equal(found.double(), leave_one_out(Exponential(2.0), X, y, Xq, 0.3), 1e-4)


def test_a_singular_system_is_refused():
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match=r"singular.*raise the ridge"):
        leave_one_out(DotProduct(), X, y, Xq, 1e-18)


def test_a_query_of_another_width_is_refused():
    X, y, _ = problem()
    with pytest.raises(errors.ShapeError, match="Xq has 2 features"):
        leave_one_out(DotProduct(), X, y, X[:, :2], 1.0)
