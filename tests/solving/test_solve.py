import re
from inspect import unwrap
from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch

from ridgeformer import errors
from ridgeformer.algorithms import Chebyshev, ConjugateGradients, Richardson
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, GramPower, Kernel, ReluNTK
from ridgeformer.solving import Nystrom, Status, solve
from ridgeformer.solving.engines import Tiles
from ridgeformer.solving.system import check_memory
from tests.solving.solver_case import problem


def log_spaced(kappa, n=200, seed=0):
    """Rows whose dot-product kernel plus a ridge of 1 has eigenvalues log-spaced from 1 to kappa."""
    Q, _ = torch.linalg.qr(torch.randn(n, n, generator=torch_generator(seed, "Q"), dtype=torch.float64))
    eigenvalues = torch.logspace(0, np.log10(kappa), n, dtype=torch.float64)
    X = Q * (eigenvalues - 1).clamp_min(0).sqrt()
    y = torch.randn(n, generator=torch_generator(seed, "y"), dtype=torch.float64)
    return X, Q @ ((Q.T @ y) / eigenvalues), y


ALGORITHM = {
    "cg": lambda kappa: ConjugateGradients(),
    "chebyshev": lambda kappa: Chebyshev(spectrum=(1.0, kappa)),
    "richardson": lambda kappa: Richardson(step_size=2 / (1.0 + kappa)),
}


def steps_to_error(name, kappa, error=1e-6):
    """Claim A5: iterations of `solve` until the relative 2-norm error is at most `error`."""
    X, exact, y = log_spaced(kappa)

    def near(step, alpha, residual):
        return float((alpha[:, 0] - exact).norm()) <= error * float(exact.norm())

    return solve(DotProduct(), X, y, 1.0, algorithm=ALGORITHM[name](kappa), tol=1e-15, callback=near).steps


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


def test_the_table_of_the_docs_is_what_solve_does():
    """All but Richardson at 1e3 and 1e4, which take long; the exact count may move by a step between machines."""
    text = (Path(__file__).parents[2] / "docs" / "solving.md").read_text()
    for method, columns in (("richardson", 2), ("chebyshev", 4), ("cg", 4)):
        row = re.search(rf"^\| {method} \| (\d.*) \|$", text, re.M).group(1).split(" | ")
        for column in range(columns):
            assert steps_to_error(method, 10.0 ** (column + 1)) == pytest.approx(int(row[column]), rel=0.02, abs=1)


@pytest.mark.slow
def test_richardson_at_condition_number_1e4():
    assert steps_to_error("richardson", 1e4) == pytest.approx(63790, rel=0.03)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": "gc"}, "did you mean 'cg'"),
        ({"algorithm": ConjugateGradients(preconditioner="nystrm")}, "did you mean 'nystrom'"),
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
    plain = solve(Exponential(0.2), X, y, 1e-4, algorithm="cg", tol=1e-6)
    helped = solve(Exponential(0.2), X, y, 1e-4, algorithm=ConjugateGradients(preconditioner=Nystrom(60)), tol=1e-6)
    assert helped.converged
    assert helped.steps < plain.steps / 5
    assert helped.spectrum.preconditioned


def test_a_seed_changes_the_sketch_but_not_the_answer():
    X, y = problem(n=200)
    first, second = (solve(Exponential(1.0), X, y, 1e-3, algorithm="pcg", seed=seed) for seed in (0, 1))
    assert not torch.equal(first.alpha, second.alpha)
    torch.testing.assert_close(first.predict(X), second.predict(X), rtol=1e-6, atol=1e-6)


class Spectrum(Kernel):
    """A kernel with a chosen Gram matrix, for rows that are the numbers 0 .. n - 1."""

    name = "spectrum"

    def __init__(self, matrix):
        self.matrix = matrix

    def dense(self, X, Z):
        return self.matrix[X[:, 0].long()][:, Z[:, 0].long()].to(X.dtype)


def hidden_negative(n=100, low=-0.9):
    Q, _ = torch.linalg.qr(torch.randn(n, n, generator=torch_generator(0, "Q"), dtype=torch.float64))
    values = torch.linspace(1, 10, n, dtype=torch.float64)
    values[0] = low
    return Spectrum(Q * values @ Q.T), torch.arange(n, dtype=torch.float64)[:, None], Q


@pytest.mark.parametrize("method", ["direct", "cg", "pcg", "chebyshev", "richardson", "neumann"])
def test_one_small_negative_eigenvalue_is_found_whatever_the_targets(method):
    kernel, X, Q = hidden_negative()
    y = Q[:, 1:] @ torch.ones(99, dtype=torch.float64) + 1e-3 * Q[:, 0]
    with pytest.raises(errors.NotPositiveSemidefiniteError, match=r"some v has v'Kv = -0\.9"):
        solve(kernel, X, y, 1.0, algorithm=method, tol=1e-3)


def test_a_kernel_that_is_not_symmetric_is_refused():
    kernel, X, _ = hidden_negative(low=0.5)
    kernel.matrix = kernel.matrix + torch.triu(kernel.matrix)
    with pytest.raises(errors.NotPositiveSemidefiniteError, match="not symmetric"):
        solve(kernel, X, X[:, 0], 1.0)


@pytest.mark.parametrize("kernel", [DotProduct(), ReluNTK(), GramPower(3, torch.eye(6).double())], ids=lambda k: k.name)
def test_rows_too_long_for_the_precision_are_refused(kernel):
    X, y = problem()
    for call in (lambda: solve(kernel, X * 1e200, y, 1.0), lambda: kernel(X * 1e200), lambda: kernel(X, X * 1e200)):
        with pytest.raises(errors.InputError, match="scale the rows"):
            call()


def test_numbers_that_float32_cannot_hold_are_refused():
    X, y = problem(dtype=torch.float32)
    fit = solve(DotProduct(), X, y, 1.0)
    for call in (
        lambda: fit.predict(torch.full((1, 6), 1e39, dtype=torch.float64)),
        lambda: DotProduct().matvec(X, None, torch.full((40,), 1e39, dtype=torch.float64)),
        lambda: solve(DotProduct(), X, y.double() * 1e39, 1.0),
    ):
        with pytest.raises(errors.InputError, match="float32"):
            call()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tol": "a"}, "tol"),
        ({"algorithm": ConjugateGradients(preconditioner=5)}, "preconditioner is 5"),
        ({"seed": 1.5}, "seed"),
        ({"ridge": "much"}, "ridge"),
    ],
)
def test_arguments_of_the_wrong_kind_are_input_errors(options, words):
    X, _ = problem()
    with pytest.raises(errors.InputError, match=words):
        unwrap(solve)(Exponential(1.0), X, X[:, 0], **{"ridge": 1.0, "algorithm": "cg", **options})


def test_a_direct_solve_that_does_not_fit_is_refused_with_the_numbers():
    with pytest.raises(errors.InputError, match="GiB are free: use algorithm='auto'"):
        check_memory(10_000_000, torch.float64)


def test_the_round_off_floor_is_a_breakdown_not_a_lack_of_steps():
    X, y = problem()
    fit = solve(Exponential(1.0), X, y, 1.0, algorithm="cg", tol=1e-300)
    assert fit.status is Status.BREAKDOWN
    assert fit.relative_residual < 1e-13


def test_a_projection_that_wants_a_gradient_does_not_disturb_a_solve():
    X, y = problem()
    U = torch.eye(6, dtype=torch.float64, requires_grad=True)
    assert solve(Exponential(1.0, projection=U), X, y, 1.0).converged


@pytest.mark.parametrize("engine", ["tils", 3])
def test_engines_that_do_not_exist(engine):
    X, y = problem()
    with pytest.raises(errors.InputError, match="engine"):
        unwrap(solve)(Exponential(1.0), X, y, 1.0, engine=engine)


@pytest.mark.parametrize("method", ["auto", "mixed_pcg", "cg", "richardson"])
def test_an_engine_of_ones_own_does_the_products(method):
    X, y = problem()

    class Counting(Tiles):
        name = "counting"
        products = 0

        def matmat(self, V):
            Counting.products += 1
            return super().matmat(V)

    engine = Counting(Exponential(1.0), X, X.dtype)
    fit = solve(Exponential(1.0), X, y, 1.0, algorithm=method, engine=engine)
    assert fit.plan.engine == "counting"
    assert fit.algorithm.name == ("mixed_pcg" if method == "auto" else method)
    assert Counting.products >= fit.steps
    torch.testing.assert_close(fit.alpha, solve(Exponential(1.0), X, y, 1.0).alpha, rtol=1e-6, atol=1e-8)


def test_a_factorisation_takes_no_engine_of_ones_own():
    X, y = problem()
    with pytest.raises(errors.InputError, match="takes no engine"):
        solve(Exponential(1.0), X, y, 1.0, algorithm="direct", engine=Tiles(Exponential(1.0), X, X.dtype))


def test_memory_mapped_rows_are_solved_where_they_are(tmp_path):
    X, y = problem(n=100)
    np.save(tmp_path / "X.npy", X.numpy())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    fit = solve(Exponential(1.0), mapped, y, 0.1, algorithm="mixed_pcg", engine="tiles")
    assert fit.X.data_ptr() == mapped.ctypes.data
    torch.testing.assert_close(fit.alpha, solve(Exponential(1.0), X, y, 0.1).alpha, rtol=1e-6, atol=1e-8)


def test_an_engine_of_other_rows_or_of_a_kernel_scaled_otherwise_is_refused():
    X, y = problem()
    with pytest.raises(errors.InputError, match="the engine holds 39 rows and X has 40"):
        solve(Exponential(1.0), X, y, 0.1, engine=Tiles(Exponential(1.0), X[:-1], X.dtype))
    with pytest.raises(errors.InputError, match=r"build the engine from these rows and from kernel\.within_range"):
        solve(Exponential(1.0), X, y, 0.1, engine=Tiles(Exponential(2.0), X, X.dtype))
    X = torch.nn.functional.normalize(X, dim=1)
    kernel = Exponential(1 / 400)  # its logits are too large for exp, so `solve` works with a scaled one
    with pytest.raises(errors.InputError, match=r"from kernel\.within_range"):
        solve(kernel, X, y, exp(400), engine=Tiles(kernel, X, X.dtype))
    assert solve(kernel, X, y, exp(400), engine=Tiles(kernel.within_range(X), X, X.dtype)).converged
