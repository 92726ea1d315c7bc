import linear_operator
import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from sklearn.kernel_ridge import KernelRidge

from ridgeformer import errors
from ridgeformer.algorithms import Direct
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, Kernel
from ridgeformer.solving import Status, solve
from ridgeformer.solving.direct import solve_with_factor
from tests.solving.solver_case import SolverCase, problem, relative


class TestDirect(SolverCase):
    algorithm = Direct()


class Indefinite(Kernel):
    name = "indefinite"

    def dense(self, X, Z):
        return -torch.exp(X @ Z.T)


def test_equals_scikit_learns_kernel_ridge():
    X, y = problem(n=120)
    K = Exponential(0.7)(X)
    rival = KernelRidge(alpha=0.05, kernel="precomputed").fit(K.numpy(), y.numpy())
    assert relative(solve(Exponential(0.7), X, y, 0.05).alpha, torch.from_numpy(rival.dual_coef_)) < 1e-10


def test_equals_scipys_and_linear_operators_conjugate_gradients():
    X, y = problem(n=120)
    A = Exponential(0.7)(X) + 0.5 * torch.eye(120, dtype=torch.float64)
    direct = solve(Exponential(0.7), X, y, 0.5)
    theirs, info = scipy.sparse.linalg.cg(A.numpy(), y[:, 0].numpy(), rtol=1e-14, maxiter=1000)
    assert info == 0
    assert relative(direct.alpha[:, 0], torch.from_numpy(theirs)) < 1e-10
    # its own stops (residual 1e-10, eps 1e-10) are set too: left alone they end the iteration early
    iterated = linear_operator.utils.linear_cg(
        lambda V: A @ V, y, tolerance=1e-14, eps=1e-30, stop_updating_after=1e-15, max_iter=500, max_tridiag_iter=0
    )
    assert relative(direct.alpha, iterated) < 1e-10


@pytest.mark.parametrize("method", ["direct", "cg", "pcg", "chebyshev", "richardson"])
def test_a_kernel_that_is_not_semidefinite_is_refused(method):
    X, y = problem()
    with pytest.raises(errors.NotPositiveSemidefiniteError, match=r"'indefinite' is not positive semidefinite: some v"):
        solve(Indefinite(), X, y, 0.1, algorithm=method)


def test_a_ridge_below_round_off_is_a_breakdown_with_numbers_not_a_wrong_answer():
    X = torch.ones(30, 2, dtype=torch.float64)
    y = torch.arange(30.0).double()
    fit = solve(DotProduct(), X, y, 1e-18)
    assert fit.status is Status.BREAKDOWN
    assert "below the round-off" in fit.advice
    assert bool(torch.isfinite(fit.alpha).all())


def test_a_huge_ridge_gives_nearly_zero_predictions():
    X, y = problem()
    fit = solve(Exponential(1.0), X, y, 1e12)
    torch.testing.assert_close(fit.alpha, y / 1e12, rtol=1e-9, atol=0.0)


def test_large_logits_are_rescaled_and_predictions_agree_with_extended_range():
    """Logits to 400 in float64: the same predictions as arithmetic carried out in mpmath."""
    import mpmath

    mpmath.mp.dps = 400
    x = np.array([[20.0, 0.0], [0.0, 19.0], [14.0, 14.0]])
    y, q = np.array([1.0, -1.0, 2.0]), np.array([[19.0, 1.0]])
    fit = solve(Exponential(1.0), x, y, 1e-2)
    assert fit.log_scale == pytest.approx(400.0)
    gram = mpmath.matrix([[mpmath.exp(mpmath.mpf(float(a @ b))) for b in x] for a in x])
    alpha = mpmath.lu_solve(gram + mpmath.mpf("0.01") * mpmath.eye(3), mpmath.matrix(y.tolist()))
    exact = sum(mpmath.exp(mpmath.mpf(float(q[0] @ a))) * alpha[j] for j, a in enumerate(x))
    assert float(abs(fit.predict(q)[0].item() - exact) / abs(exact)) < 1e-10


@pytest.mark.parametrize(("dtype", "length"), [(torch.float32, 6.0), (torch.float32, 9.0), (torch.float64, 20.0)])
def test_long_rows_are_rescaled(dtype, length):
    X = length * torch.nn.functional.normalize(torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    X = X.to(dtype)
    fit = solve(Exponential(1.0), X, X[:, 0], 1e-2)
    assert bool(torch.isfinite(fit.alpha).all())
    assert bool(torch.isfinite(fit.predict(X)).all())
    assert bool(torch.isfinite(fit.prediction_bound(X)).all())
    assert fit.log_scale > 0


@pytest.mark.parametrize("rows", [[[40.0], [1.0], [2.0]], [[30.0], [29.9]]])
def test_what_cannot_be_rescaled_is_refused(rows):
    """A row, or the ridge, that would vanish beside the largest logit: no answer rather than another problem's."""
    with pytest.raises(errors.LogitRangeError, match="temperature"):
        solve(Exponential(1.0), rows, [1.0] * len(rows), 1e-2)


def test_the_factor_sharpens_the_bound():
    X, y = problem()
    direct = solve(Exponential(1.0), X, y, 0.1)
    cg = solve(Exponential(1.0), X, y, 0.1, algorithm="cg", tol=1e-12)
    assert direct.direct_factor is not None
    assert cg.direct_factor is None
    size = direct.prediction_bound(X) / (direct.residual_norm + direct.roundoff)
    assert float(size.max()) < float((cg.prediction_bound(X) / (cg.residual_norm + cg.roundoff)).max()) * 1.01


def test_many_rows_have_their_extreme_eigenvalues_from_a_few_products_and_solves(monkeypatch):
    monkeypatch.setattr("ridgeformer.solving.solver.SMALL", 50)
    X = torch.randn(200, 3, generator=torch_generator(0, "extreme"), dtype=torch.float64)
    kernel = Gaussian(temperature=1.0)
    fit = solve(kernel, X, X[:, 0], 0.01, algorithm="direct")
    values = torch.linalg.eigvalsh(kernel(X)) + 0.01
    assert float(values[0]) <= fit.spectrum.low * (1 + 1e-9)
    assert fit.spectrum.low < 1.5 * float(values[0])
    assert fit.spectrum.high == pytest.approx(float(values[-1]), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_right_hand_sides_are_solved_in_place_of_a_copy_and_left_as_they_were(dtype):
    generator = torch_generator(0, "many columns")
    factor = torch.randn(3010, 3010, generator=generator, dtype=dtype).tril_(-1).div_(3010)
    factor.diagonal().fill_(1.0)
    factor = factor + 7 * torch.ones_like(factor).triu_(1)  # what is above the diagonal is not read
    b = torch.randn(3010, 64, generator=generator, dtype=dtype)
    given, found = b.clone(), solve_with_factor(factor, b)
    L = factor.tril()
    assert torch.equal(b, given)
    assert found.shape == b.shape
    assert (L @ (L.mT @ found) - b).norm() <= 20 * torch.finfo(dtype).eps * b.norm()
    one = solve_with_factor(factor, b[:, :1])  # too few for BLAS
    assert (found[:, :1] - one).norm() <= 20 * torch.finfo(dtype).eps * one.norm()
