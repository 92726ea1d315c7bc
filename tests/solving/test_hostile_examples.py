"""Cases in which a promise of the solver was once broken; each is judged by exact arithmetic where it can be."""

import math

import pytest
import torch
from flint import arb

from hostile.exact import ExactRegression, exceeds
from ridgeformer import errors
from ridgeformer.algorithms import Centres, resolve
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, Kernel, ReluNTK
from ridgeformer.solving import ExtremeEigenvalues, RidgeSystem, UnansweredWarning, solve
from ridgeformer.solving.engines import Tiles, Triangle
from ridgeformer.solving.run import Run
from tests.solving.solver_case import plan


def judged(kernel, X, y, ridge, queries=None, **options):
    """Solve, and require that every bound holds against exact arithmetic."""
    fit = solve(kernel, X, y, ridge, **options)
    exact, scale = ExactRegression(kernel, X, y, ridge), arb(fit.log_scale).exp()
    for error, bound in zip(exact.coefficient_errors(fit.alpha, scale), fit.alpha_bound.tolist(), strict=True):
        assert not exceeds(error, bound)
    queries = X if queries is None else queries
    values, bounds = fit.predict(queries).double(), fit.prediction_bound(queries)
    truth = exact.predictions(queries)
    for q, row in enumerate(truth):
        for c, f in enumerate(row):
            value, bound = (t.reshape(len(queries), -1)[q, c].item() for t in (values, bounds))
            assert not exceeds(abs(arb(value) - f), bound)
    residual = max(float(r / s) for r, s in zip(exact.residuals(fit.alpha, scale), exact.target_norms(), strict=True))
    return fit, residual


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("dtype", "size", "method"),
    [(torch.float64, 1e-3, "auto"), (torch.float32, 1e-2, "auto"), (torch.float32, 1e-2, "mixed_pcg")],
)
def test_a_kernel_that_is_semidefinite_by_theory_is_never_refused(seed, dtype, size, method):
    X = torch.randn(20, 3, generator=torch_generator(seed, "X"), dtype=torch.float64).mul(size).to(dtype)
    assert solve(DotProduct(), X, torch.ones(20), 1.0, algorithm=method).converged


class Minus(Kernel):
    """-x'z, which is not positive semidefinite."""

    name = "minus"

    def dense(self, X, Z):
        return -X @ Z.T


def test_a_kernel_nobody_vouches_for_still_is():
    X = torch.randn(20, 3, generator=torch_generator(0, "X"), dtype=torch.float64) * 1e-3
    with pytest.raises(errors.NotPositiveSemidefiniteError):
        solve(Minus(), X, torch.ones(20), 1.0)


def test_coefficients_on_centres_are_rounded_before_they_are_judged():
    angles = torch.linspace(0, 3, 9, dtype=torch.float64)
    X = torch.stack([angles.cos(), angles.sin()], 1).float()
    y = torch.randn(9, generator=torch_generator(0, "y"))
    fit, residual = judged(Exponential(1 / 28), X, y, 10.0, algorithm=Centres(count=9))
    assert not fit.converged or residual <= 1e-5
    assert residual == pytest.approx(fit.relative_residual, rel=1e-3)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("method", ["mixed_pcg", "auto", "pcg", "mixed_direct"])
def test_a_ridge_beyond_float32_ends(method):
    fit, _ = judged(DotProduct(), torch.eye(2, dtype=torch.float64), torch.ones(2), 1e39, algorithm=method)
    assert fit.converged


@pytest.mark.parametrize("method", ["auto", "cg", "direct", "mixed_pcg"])
def test_coefficients_that_underflow_are_not_called_converged(method):
    """The first case is right to six digits only, which its bound must say; the second to none."""
    eye, y = torch.eye(2), torch.full((2,), 1e-35, dtype=torch.float64)
    fit, residual = judged(DotProduct(), eye, y, 1e5, algorithm=method)
    assert fit.relative_residual == pytest.approx(residual, rel=1e-3)
    fit, residual = judged(DotProduct(), eye, 1e-3 * y, 1e5, algorithm=method)
    assert not fit.converged
    assert residual > 1e-6
    assert "underflow" in fit.advice


def test_coefficients_on_centres_are_float64_and_do_not_underflow():
    eye, y = torch.eye(2), torch.full((2,), 1e-38, dtype=torch.float64)
    fit, residual = judged(DotProduct(), eye, y, 1e5, algorithm="nystrom")
    assert fit.alpha.dtype == torch.float64
    assert fit.converged
    assert residual <= 1e-5


def test_targets_too_small_for_any_coefficient_are_not_called_solved_by_zero():
    fit, residual = judged(DotProduct(), torch.eye(2), torch.full((2,), 1e-43, dtype=torch.float64), 1e5)
    assert fit.alpha.tolist() == [0.0, 0.0]
    assert residual == 1.0
    assert not fit.converged


def test_a_query_whose_own_kernel_underflows_has_a_bound_that_holds():
    X = torch.tensor([[math.sqrt(120), 0.0], [math.sqrt(119), 0.3]])
    query = torch.tensor([[math.sqrt(15), 0.0]])
    fit, _ = judged(Exponential(1.0), X, torch.tensor([1e30, -5e29]), 1e32, query)
    assert float(fit.prediction_bound(query)[0]) > 0


def test_the_rounding_of_a_projection_counts_both_of_its_axes():
    """Many projected coordinates and one feature: the sum over coordinates is what rounds."""
    p = 4096
    U = (1 + torch.rand(p, 1, generator=torch_generator(0, "U"), dtype=torch.float64)).float()
    kernel, X = Exponential(p / 64.0, U), torch.tensor([[1.0], [0.9]])
    exact = ((U.double() @ X.double().T).T @ (U.double() @ X.double().T)) / (p / 64.0)
    naive = torch.zeros(2, 2)
    for row in (U @ X.T) / math.sqrt(p / 64.0):  # one after the other, the worst order
        naive += row[:, None] * row
    gap = (naive.double() - exact).abs()
    error = kernel.logit_error(X)
    assert bool((gap <= (error[:, None] * error).sqrt()).all())
    assert float(gap.max()) > 6 * 2.0**-24 * float(exact.max())  # what counting the wrong axis allows


def test_an_engine_given_by_hand_is_held_to_the_range_in_which_it_is_right():
    X = torch.randn(6, 2, generator=torch_generator(0, "X"), dtype=torch.float64) * 1e-24
    engine = Triangle(DotProduct(), X, torch.float32)
    with pytest.raises(errors.InputError, match="is right from"):
        solve(DotProduct(), X, torch.ones(6), 1e-48, engine=engine, algorithm="cg")


def test_an_engine_that_multiplies_by_another_matrix_is_refused():
    class Wrong(Tiles):
        def matmat64(self, V):
            return 2 * super().matmat64(V)

    X = torch.randn(6, 2, generator=torch_generator(0, "X"), dtype=torch.float64)
    with pytest.raises(errors.InputError, match="another matrix"):
        solve(DotProduct(), X, torch.ones(6), 1.0, engine=Wrong(DotProduct(), X, X.dtype), algorithm="cg")


def test_advice_on_an_infinite_condition_number_is_a_sentence():
    X = torch.eye(3, dtype=torch.float64)
    for method in ("chebyshev", "cg", "richardson"):
        run = Run(RidgeSystem(DotProduct(), X, 1e-300, targets=X), plan(resolve(method)))
        run.steps, run.spectrum = 3, ExtremeEigenvalues(0.0, math.inf, math.inf)
        assert "raise the ridge" in run.advice(subnormal=False)


@pytest.mark.parametrize("method", ["auto", "direct", "cg", "pcg", "mixed_pcg", "mixed_direct", "nystrom", "chebyshev"])
@pytest.mark.parametrize("both", [False, True])
def test_rows_of_zeros_are_solved(method, both):
    X = torch.zeros(5, 2, dtype=torch.float64)
    fit, _ = judged(ReluNTK(both_layers=both), X, torch.arange(5.0), 0.5, algorithm=method)
    assert bool(torch.isfinite(fit.alpha).all())


@pytest.mark.parametrize("ridge", [1e-30, 1e-100, 1e-300])
@pytest.mark.parametrize("method", ["pcg", "mixed_pcg", "direct", "cg", "nystrom"])
def test_a_hopeless_ridge_is_a_status_and_not_a_foreign_exception(ridge, method):
    X = torch.ones(6, 2, dtype=torch.float64)
    fit, _ = judged(Exponential(1.0), X, torch.arange(6.0), ridge, algorithm=method)
    assert bool(torch.isfinite(fit.predict(X)).all())
    assert not bool(torch.isnan(fit.prediction_bound(X)).any())


def test_a_refused_engine_names_the_reason_and_not_the_memory():
    X = torch.randn(50, 3, generator=torch_generator(0, "X"), dtype=torch.float64)
    with pytest.raises(errors.InputError, match="multiplies in float32") as caught:
        solve(Exponential(1.0), X, torch.ones(50), 1e-14, algorithm="mixed_pcg", engine="triangle")
    assert "GiB" not in str(caught.value)


@pytest.mark.parametrize("outputs", [1, 2])
def test_one_query_out_of_range_does_not_refuse_the_others(outputs):
    X = torch.randn(10, 2, generator=torch_generator(0, "X"), dtype=torch.float64)
    y = torch.randn(10, outputs, generator=torch_generator(0, "y"), dtype=torch.float64).squeeze(1)
    fit = solve(Exponential(1.0), X, y, 0.1)
    queries = torch.cat([X[:1], 1e6 * X[1:2], X[2:3]])
    with pytest.warns(UnansweredWarning, match="Rows 1 have no prediction"):
        values = fit.predict(queries)
    assert torch.isnan(values).reshape(3, -1).all(1).tolist() == [False, True, False]
    torch.testing.assert_close(values[[0, 2]], fit.predict(X[[0, 2]]))
    bounds = fit.prediction_bound(queries)
    assert torch.isinf(bounds).reshape(3, -1).all(1).tolist() == [False, True, False]
    answer = fit.answer(queries)
    assert answer.answered.tolist() == [True, False, True]
    assert answer.extrapolated.tolist() == [False, True, False]
    assert "2 of 3 queries answered" in str(answer)
    assert "outside the training rows" in str(answer)


@pytest.mark.parametrize("n", [30, 400])
def test_fresh_rows_of_the_same_distribution_are_seldom_called_extrapolation(n):
    """By exchangeability at most 1 % of them, or 1/(n + 1); and a row three times as long is."""
    flagged, far, draws = 0, 0, 400
    for seed in range(4):
        X = torch.randn(n, 3, generator=torch_generator(seed, "X"), dtype=torch.float64)
        fresh = torch.randn(draws, 3, generator=torch_generator(seed, "fresh"), dtype=torch.float64)
        fit = solve(DotProduct(), X, X[:, 0], 1.0)
        flagged += int(fit.extrapolates(fresh).sum())
        far += int(fit.extrapolates(10 * fresh / fresh.norm(dim=1, keepdim=True)).sum())
    assert flagged <= 3 * 4 * draws * max(0.01, 1 / (n + 1))
    assert far == 4 * draws
