"""The batched methods of the searches are those of the solvers."""

from itertools import islice

import pytest
import torch

from ridgeformer.algorithms import Chebyshev, ConjugateGradients, Richardson
from ridgeformer.claims import batched
from ridgeformer.claims.checks import Numbers
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct
from ridgeformer.solving import PRECONDITIONERS, RidgeSystem

SIZE, STEPS = 5, 4


def problems(count=6):
    theta = torch.randn(count, 2 * SIZE, generator=torch_generator(0, "descent"), dtype=torch.float64)
    take = Numbers(theta)
    A, kappa = batched.eigenvalues_and_kappa(take, SIZE)
    return A, kappa, take.vector(SIZE)


def textbook(method, A, b):
    """One case by the solver: features whose kernel, with a ridge of half the least eigenvalue, is diag(A)."""
    ridge = float(A.min()) / 2
    system = RidgeSystem(DotProduct(), torch.diag((A - ridge).sqrt()), ridge)
    identity = PRECONDITIONERS["identity"].build(system, torch.Generator())
    spectrum = (float(A.min()), float(A.max()))
    states = method.iterate(system, b[:, None], spectrum=spectrum, precondition=identity)
    return list(islice(states, STEPS))[-1]


def test_the_spectrum_has_the_condition_number_that_is_said():
    A, kappa, _ = problems()
    torch.testing.assert_close(A[:, 0] / A[:, -1], kappa)
    assert bool((A.diff(dim=-1) <= 0).all())
    assert float(kappa.min()) > batched.LEAST_KAPPA


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(batched.richardson, Richardson()), (batched.chebyshev, Chebyshev())],
    ids=["richardson", "chebyshev"],
)
def test_fixed_coefficients(ours, theirs):
    A, _, b = problems()
    for a, right, alpha in zip(A, b, ours(A, b, STEPS), strict=True):
        torch.testing.assert_close(alpha, textbook(theirs, a, right).alpha[:, 0], rtol=1e-8, atol=1e-10)


def test_conjugate_gradients():
    A, _, b = problems()
    found = batched.conjugate_gradients(A, b, STEPS)
    for case in range(len(A)):
        state = textbook(ConjugateGradients(), A[case], b[case])
        torch.testing.assert_close(found.alpha[case], state.alpha[:, 0], rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(found.residual, b - A * found.alpha, rtol=1e-6, atol=1e-8)
    exact = b / A
    energy = (exact * A * exact).sum(-1).sqrt()
    torch.testing.assert_close(batched.a_norm(A, exact), energy)


def test_the_length_is_that_of_the_path_if_it_never_turns_back():
    A, b = torch.tensor([[2.0, 2.0]], dtype=torch.float64), torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    assert float(batched.conjugate_gradients(A, b, 1).length) == pytest.approx(2.5)  # |alpha| = |b| / 2


def test_products_that_are_off_make_the_residuals_drift_apart():
    A, _, b = problems()
    run = batched.conjugate_gradients(A, b, 3, lambda j, p: 0.01 * (j + 1) * p.flip(-1))
    gap = b - A * run.alpha - run.residual
    assert float(gap.norm()) > 1e-3
    torch.testing.assert_close(gap, run.drift, rtol=1e-8, atol=1e-8)
