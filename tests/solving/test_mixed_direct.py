import pytest
import torch

from ridgeformer.algorithms import MixedDirect
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.solving import Status, mixed_direct, solve
from ridgeformer.solving.mixed_direct import factorise_in_place, solve_with_factor
from tests.solving.solver_case import SolverCase, problem


class TestMixedDirect(SolverCase):
    algorithm = MixedDirect()


@pytest.mark.parametrize("rows", [0, 16_000], ids=["panels", "lapack"])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 50])
def test_the_factor_is_the_same_either_way_and_only_the_lower_triangle_is_read(n, rows, monkeypatch):
    monkeypatch.setattr(mixed_direct, "PANEL", 8)
    monkeypatch.setattr(mixed_direct, "LAPACK_ROWS", rows)
    X, y = problem(n=n)
    K = Exponential(1.0)(X)
    A = K.clone()
    A[0, 1:] = torch.nan
    assert factorise_in_place(A, 0.5)
    exact = K + 0.5 * torch.eye(n)
    torch.testing.assert_close(A.tril(), torch.linalg.cholesky(exact))
    torch.testing.assert_close(solve_with_factor(A, y), torch.linalg.solve(exact, y))


@pytest.mark.parametrize("rows", [0, 16_000], ids=["panels", "lapack"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_that_is_not_definite_has_no_factor(rows, dtype, monkeypatch):
    monkeypatch.setattr(mixed_direct, "LAPACK_ROWS", rows)
    assert not factorise_in_place(-torch.eye(3, dtype=dtype), 0.5)
    assert not factorise_in_place(torch.full((3, 3), torch.nan, dtype=dtype), 0.5)


def test_a_matrix_that_lapack_would_copy_is_factorised_in_place_all_the_same():
    A = torch.tensor([[2.0, 9.0], [1.0, 2.0]]).T.contiguous().T
    assert factorise_in_place(A, 1.0)
    torch.testing.assert_close(A.tril(), torch.linalg.cholesky(torch.tensor([[3.0, 1.0], [1.0, 3.0]])))


def test_float32_is_refined_to_float64_accuracy():
    X, y = problem(n=200)
    solution = solve(Exponential(1.0), X, y, 0.1, algorithm="mixed_direct", tol=1e-12)
    assert solution.status is Status.CONVERGED
    assert solution.plan.working == "float32"
    assert solution.relative_residual <= 1e-12


def test_where_float32_does_not_serve_it_works_in_float64():
    X, y = problem(n=200)
    solution = solve(Exponential(1.0), X, y, 1e-9, algorithm="mixed_direct", tol=1e-8)
    assert solution.plan.working == "float64"
    assert solution.converged


def test_no_factor_is_a_breakdown_and_not_an_answer():
    X = torch.ones(30, 2, dtype=torch.float64)
    solution = solve(DotProduct(), X, torch.arange(30.0).double(), 1e-18, algorithm="mixed_direct")
    assert solution.status is Status.BREAKDOWN
    assert solution.relative_residual > 1e-10
