import numpy as np
import pytest
import torch
from solver_case import problem

from ridgeformer import errors
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.seeds import torch_generator
from ridgeformer.solvers import Nystrom, solve


def log_spaced(kappa, n=200, seed=0):
    """Rows whose dot-product kernel plus a ridge of 1 has eigenvalues log-spaced from 1 to kappa."""
    Q, _ = torch.linalg.qr(torch.randn(n, n, generator=torch_generator(seed, "Q"), dtype=torch.float64))
    eigenvalues = torch.logspace(0, np.log10(kappa), n, dtype=torch.float64)
    X = Q * (eigenvalues - 1).clamp_min(0).sqrt()
    y = torch.randn(n, generator=torch_generator(seed, "y"), dtype=torch.float64)
    return X, Q @ ((Q.T @ y) / eigenvalues), y


def steps_to_error(method, kappa, error=1e-6):
    """Claim A5: iterations of `solve` until the relative 2-norm error is at most `error`."""
    X, exact, y = log_spaced(kappa)

    def near(step, alpha, residual):
        return float((alpha[:, 0] - exact).norm()) <= error * float(exact.norm())

    spectrum = None if method == "cg" else (1.0, float(kappa))
    return solve(DotProduct(), X, y, 1.0, method=method, spectrum=spectrum, tol=1e-15, callback=near).steps


@pytest.mark.parametrize(
    ("method", "kappa", "published"),
    [
        ("richardson", 1e1, 63), ("richardson", 1e2, 632), ("richardson", 1e3, 6350),
        ("chebyshev", 1e1, 22), ("chebyshev", 1e2, 71), ("chebyshev", 1e3, 225), ("chebyshev", 1e4, 712),
        ("cg", 1e1, 22), ("cg", 1e2, 66), ("cg", 1e3, 176), ("cg", 1e4, 439),
    ],
)  # fmt: skip
def test_iteration_counts_of_claim_a5(method, kappa, published):
    assert steps_to_error(method, kappa) == pytest.approx(published, rel=0.06)


@pytest.mark.slow
def test_richardson_at_condition_number_1e4():
    assert steps_to_error("richardson", 1e4) == pytest.approx(63790, rel=0.03)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "gc"}, "did you mean 'cg'"),
        ({"method": "pcg", "preconditioner": "nystrm"}, "did you mean 'nystrom'"),
        ({"method": "cg", "preconditioner": "jacobi"}, "use method='pcg'"),
        ({"method": "chebyshev", "spectrum": (2.0, 1.0)}, "low <= high"),
    ],
)
def test_names_and_pairs_that_do_not_exist(options, words):
    X, y = problem()
    with pytest.raises(errors.InputError, match=words):
        solve(Exponential(1.0), X, y, 1.0, **options)


def test_nystrom_needs_a_rank():
    with pytest.raises(errors.InputError, match="rank is 0"):
        Nystrom(rank=0)


def test_nystrom_makes_an_ill_conditioned_kernel_easy():
    X = torch.rand(300, 2, generator=torch_generator(0, "X"), dtype=torch.float64)
    y = X[:, 0].sin()
    plain = solve(Exponential(0.2), X, y, 1e-6, method="cg", tol=1e-8)
    helped = solve(Exponential(0.2), X, y, 1e-6, method="pcg", preconditioner=Nystrom(rank=60), tol=1e-8)
    assert helped.converged
    assert helped.steps < plain.steps / 5
    assert helped.spectrum.preconditioned


def test_a_seed_changes_the_sketch_but_not_the_answer():
    X, y = problem(n=200)
    first, second = (solve(Exponential(1.0), X, y, 1e-3, method="pcg", seed=seed) for seed in (0, 1))
    assert not torch.equal(first.alpha, second.alpha)
    torch.testing.assert_close(first.predict(X), second.predict(X), rtol=1e-6, atol=1e-6)
