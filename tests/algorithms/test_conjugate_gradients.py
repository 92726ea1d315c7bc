import numpy as np
import pytest
import scipy.sparse.linalg
import torch

from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.solving import Status, solve
from tests.solving.solver_case import IterativeCase, problem


class TestCG(IterativeCase):
    algorithm = ConjugateGradients()


class TestJacobi(IterativeCase):
    algorithm = ConjugateGradients(preconditioner="jacobi")


class TestIdentity(IterativeCase):
    algorithm = ConjugateGradients(preconditioner="identity")


class TestNystrom(IterativeCase):
    algorithm = ConjugateGradients(preconditioner="nystrom")


def test_iterates_are_scipys():
    X, y = problem()
    A = (Exponential(1.0)(X) + 0.5 * torch.eye(40, dtype=torch.float64)).numpy()
    theirs = []
    scipy.sparse.linalg.cg(A, y[:, 0].numpy(), rtol=0, atol=0, maxiter=8, callback=lambda a: theirs.append(a.copy()))
    algorithm = ConjugateGradients(steps=8)
    ours = solve(Exponential(1.0), X, y[:, 0], 0.5, algorithm=algorithm, tol=1e-15, keep_iterates=True).iterates
    np.testing.assert_allclose(ours[:8, :, 0].numpy(), np.array(theirs)[:8], rtol=1e-9, atol=1e-13)


def test_ends_in_as_many_steps_as_there_are_eigenvalues():
    """K = X X' with 4 features has 5 distinct eigenvalues with the ridge, whatever n."""
    X, y = problem(n=60, d=4)
    assert solve(DotProduct(), X, y, 0.3, algorithm="cg", tol=1e-11).steps <= 5


def test_float32_stops_at_its_floor_and_says_so():
    """Condition number 1e7 in float32: the recursion says 1e-6, the float64 residual does not."""
    generator = torch_generator(0, "floor")
    Q, _ = torch.linalg.qr(torch.randn(60, 60, generator=generator, dtype=torch.float64))
    X = (Q * torch.logspace(3.5, 0, 60, dtype=torch.float64)).float()
    y = torch.randn(60, generator=generator)
    fit = solve(DotProduct(), X, y, 1e-3, algorithm="cg", tol=1e-9)
    assert fit.status in (Status.BREAKDOWN, Status.MAX_STEPS)
    assert not fit.converged
    assert fit.relative_residual > 1e-9


def test_columns_that_are_done_idle_while_others_go_on():
    X, y = problem()
    values, vectors = torch.linalg.eigh(Exponential(1.0)(X))
    y = torch.stack([vectors[:, 0], y[:, 0]], dim=1)  # the first column is solved by one step
    fit = solve(Exponential(1.0), X, y, 1.0, algorithm="cg", tol=1e-14)
    assert fit.converged
    assert float(fit.residuals[1, 0]) < 1e-12
    torch.testing.assert_close(fit.alpha[:, 0], vectors[:, 0] / (values[0] + 1.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_going_on_for_200_steps_after_convergence_is_harmless(dtype):
    X, y = problem(dtype=dtype)
    count = []
    algorithm = ConjugateGradients(steps=250)
    fit = solve(Exponential(1.0), X, y, 1.0, algorithm=algorithm, tol=1e-300, callback=lambda s, a, r: count.append(s))
    assert len(count) == fit.steps
    assert bool(torch.isfinite(fit.alpha).all())
    assert fit.relative_residual < 1e4 * torch.finfo(dtype).eps
