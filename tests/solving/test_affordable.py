import pytest

from ridgeformer import errors
from ridgeformer.kernels import Gaussian
from ridgeformer.solving import Status, plan, solve
from tests.solving.solver_case import problem


@pytest.fixture
def iterative(monkeypatch):
    """`auto` takes conjugate gradients from a few rows on."""
    for name in ("SMALL_ROWS", "DIRECT_ROWS"):
        monkeypatch.setattr(plan, name, 10)


@pytest.mark.usefixtures("iterative")
def test_what_the_budget_does_not_allow_is_a_fit_on_centres_that_says_so():
    X, y = problem(n=1200)
    fit = solve(Gaussian(1.0), X, y, 0.5, budget=1e-9)
    assert fit.status is Status.SUBSET
    assert fit.plan.rank == 256
    assert "so the fit is one on 256 centres" in fit.plan.reasons[-1]


@pytest.mark.usefixtures("iterative")
def test_what_it_allows_is_the_fit_of_all_rows():
    X, y = problem(n=1200)
    fit = solve(Gaussian(1.0), X, y, 0.5, budget=1e9)
    assert fit.converged
    assert "for all rows, timed on 1,200 of them" in fit.plan.reasons[-1]


@pytest.mark.usefixtures("iterative")
def test_few_rows_without_a_budget_are_not_timed():
    X, y = problem(n=1200)
    assert "timed" not in " ".join(solve(Gaussian(1.0), X, y, 0.5).plan.reasons)


def test_a_budget_is_positive():
    X, y = problem()
    with pytest.raises(errors.InputError, match="budget"):
        solve(Gaussian(1.0), X, y, 0.5, budget=0.0)
