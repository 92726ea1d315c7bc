import pytest
import torch

from ridgeformer.algorithms import MixedDirect
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.solving import Status, direct, solve
from ridgeformer.solving.direct import factorise_in_place, inverse_diagonal, solve_with_factor
from tests.solving.solver_case import SolverCase, problem


class TestMixedDirect(SolverCase):
    algorithm = MixedDirect()


WAYS = pytest.mark.parametrize("ways", [(0, 0), (0, 16_000), (3_000, 0)], ids=["halves", "lapack", "copied"])


@WAYS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 50, 100])
def test_the_factor_is_the_same_either_way_and_only_the_lower_triangle_is_read(n, dtype, ways, monkeypatch):
    for name, rows in zip(("COPIED_ROWS", "LAPACK_ROWS"), ways, strict=True):
        monkeypatch.setattr(direct, name, rows)
    monkeypatch.setattr(direct, "LEAF", 8)
    monkeypatch.setattr(direct, "COLUMNS", 16)
    X, y = problem(n=n)
    K = Exponential(1.0)(X)
    A = K.to(dtype, copy=True)
    A[0, 1:] = torch.nan
    assert factorise_in_place(A, 0.5)
    exact, near = K + 0.5 * torch.eye(n), {} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(A.tril().double(), torch.linalg.cholesky(exact), **near)
    torch.testing.assert_close(solve_with_factor(A, y.to(dtype)).double(), torch.linalg.solve(exact, y), **near)


def test_float32_factors_of_large_matrices_are_as_accurate_as_lapacks():
    X, _ = problem(n=1500)
    K = Exponential(1.0)(X) + torch.eye(1500, dtype=torch.float64)
    ours, lapack = K.float(), K.float()
    assert direct._by_halves(ours)
    assert direct._by_lapack(lapack)
    errors = [float((L.tril().double() @ L.tril().double().T - K).norm()) for L in (ours, lapack)]
    assert errors[0] <= 4 * errors[1]


@WAYS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_that_is_not_definite_has_no_factor(ways, dtype, monkeypatch):
    for name, rows in zip(("COPIED_ROWS", "LAPACK_ROWS"), ways, strict=True):
        monkeypatch.setattr(direct, name, rows)
    assert not factorise_in_place(-torch.eye(3, dtype=dtype), 0.5)
    assert not factorise_in_place(torch.full((3, 3), torch.nan, dtype=dtype), 0.5)


def test_a_matrix_that_lapack_would_copy_is_factorised_in_place_all_the_same(monkeypatch):
    monkeypatch.setattr(direct, "COPIED_ROWS", 0)
    A = torch.tensor([[2.0, 9.0], [1.0, 2.0]]).T.contiguous().T
    assert factorise_in_place(A, 1.0)
    torch.testing.assert_close(A.tril(), torch.linalg.cholesky(torch.tensor([[3.0, 1.0], [1.0, 3.0]])))


def test_float32_is_refined_to_float64_accuracy():
    X, y = problem(n=200)
    fit = solve(Exponential(1.0), X, y, 0.1, algorithm="mixed_direct", tol=1e-12)
    assert fit.status is Status.CONVERGED
    assert fit.plan.working == "float32"
    assert fit.relative_residual <= 1e-12


def test_where_float32_does_not_serve_it_works_in_float64():
    X, y = problem(n=200)
    fit = solve(Exponential(1.0), X, y, 1e-9, algorithm="mixed_direct", tol=1e-8)
    assert fit.plan.working == "float64"
    assert fit.converged


def test_no_factor_is_a_breakdown_and_not_an_answer():
    X = torch.ones(30, 2, dtype=torch.float64)
    fit = solve(DotProduct(), X, torch.arange(30.0).double(), 1e-18, algorithm="mixed_direct")
    assert fit.status is Status.BREAKDOWN
    assert fit.relative_residual > 1e-10


def definite(n=30):
    B = torch.randn(n, n, generator=torch_generator(0, "matrix"), dtype=torch.float64)
    return B @ B.T + torch.eye(n, dtype=torch.float64)


@pytest.mark.parametrize("panel", [1, 7, 30, 64, None])
def test_the_diagonal_is_that_of_the_inverse(panel, monkeypatch):
    if panel is not None:  # by panels, as beyond what LAPACK is trusted with
        monkeypatch.setattr(direct, "LAPACK_ROWS", 0)
        monkeypatch.setattr(direct, "PANEL", panel)
    A = definite()
    L = torch.linalg.cholesky(A)
    before = L.clone()
    found = inverse_diagonal(L)
    assert torch.equal(L, before)
    torch.testing.assert_close(found, torch.linalg.inv(A).diagonal(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_a_solve_with_the_factor_is_one_with_the_matrix(columns):
    A, C = definite(), torch.randn(30, columns, generator=torch_generator(0, "columns"), dtype=torch.float64)
    torch.testing.assert_close(solve_with_factor(torch.linalg.cholesky(A), C), torch.linalg.solve(A, C))
