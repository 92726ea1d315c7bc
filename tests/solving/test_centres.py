import pytest
import torch

from ridgeformer import errors
from ridgeformer.algorithms import Centres, resolve
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving import RidgeSystem, Status, centres, solve
from ridgeformer.solving.engines import Tiles
from ridgeformer.solving.run import Run
from tests.solving.solver_case import oracle, plan, problem


def fit(X, y, ridge, count, seed=0):
    """The run of a fit on centres; coefficients and errors in the units of y."""
    system = RidgeSystem(Exponential(0.5), X, ridge, Tiles(Exponential(0.5), X, X.dtype), targets=y)
    run = Run(system, plan(Centres()))
    centres.fit_on_centres(run, count, torch_generator(seed, "centres"))
    run.alpha, run.fit_error = run.alpha * system.unit, run.fit_error * system.unit
    return run


def test_coefficients_minimise_the_penalised_error_on_the_centres():
    """The naive oracle: the normal equations of subset regression."""
    X, y = problem(n=120)
    found = fit(X, y, 0.1, 15)
    K = Exponential(0.5)(X)
    chosen = found.alpha.any(dim=1).nonzero()[:, 0]
    K_c, K_cc = K[:, chosen], K[chosen][:, chosen]
    expected = torch.linalg.solve(K_c.T @ K_c + 0.1 * K_cc, K_c.T @ y)
    torch.testing.assert_close(found.alpha[chosen], expected, rtol=1e-6, atol=1e-8)
    assert int(found.alpha.any(dim=1).sum()) == 15


@pytest.mark.parametrize("count", [5, 20, 60])
def test_with_every_row_sampled_the_error_is_a_bound(count):
    X, y = problem(n=150)
    found = fit(X, y, 0.1, count)
    K = Exponential(0.5)(X)
    error = (K @ (found.alpha - oracle(Exponential(0.5), X, y, 0.1))).square().mean(0).sqrt()
    assert bool((error <= found.fit_error * (1 + 1e-9)).all())
    assert bool((found.fit_error < 40 * error + 1e-6).all())


def test_a_sample_of_rows_estimates_the_error_from_above(monkeypatch):
    monkeypatch.setattr(centres, "SAMPLED_ROWS", 40)
    X, y = problem(n=300)
    K, exact = Exponential(0.5)(X), oracle(Exponential(0.5), X, y, 0.1)
    held = [
        bool(((K @ (found.alpha - exact)).square().mean(0).sqrt() <= found.fit_error).all())
        for found in (fit(X, y, 0.1, 30, seed) for seed in range(20))
    ]
    assert sum(held) >= 18


def test_more_centres_are_nearer():
    X, y = problem(n=300)
    errors_ = [float(fit(X, y, 0.1, count).fit_error.max()) for count in (10, 40, 160)]
    assert errors_[0] > errors_[1] > errors_[2]


def test_solve_on_centres_says_that_it_is_one():
    X, y = problem(n=200)
    fit = solve(Exponential(0.5), X, y, 0.1, algorithm=Centres(count=30))
    assert fit.status is Status.SUBSET
    assert not fit.converged
    assert fit.plan.rank == 30
    assert fit.fit_error.shape == (3,)
    assert "Fitted on centres only" in fit.advice
    exact = oracle(Exponential(0.5), X, y, 0.1)
    assert bool(((fit.alpha - exact).norm(dim=0) <= fit.alpha_bound).all())
    torch.testing.assert_close(fit.predict(X[:9]), Exponential(0.5)(X[:9], X) @ fit.alpha)


def test_as_many_centres_as_rows_is_the_full_solution():
    X, y = problem(n=60)
    fit = solve(Exponential(0.5), X, y, 0.1, algorithm=Centres(count=60))
    full = solve(Exponential(0.5), X, y, 0.1)
    torch.testing.assert_close(fit.predict(X), full.predict(X), rtol=1e-4, atol=1e-5)


def test_centres_belong_to_nystrom():
    with pytest.raises(errors.InputError, match="algorithm 'cg' has no option 'count'"):
        resolve("cg", count=3)
    with pytest.raises(errors.InputError, match="count is 0"):
        Centres(count=0)
