"""Searches find violations and tight cases, the same ones every time; trials count what fails."""

from math import inf, isinf, nan

import pytest
import torch

from ridgeformer.claims import Inequality, search, stated
from ridgeformer.claims.checks import ROUND_OFF, Numbers


def means(take):
    t = take.vector(2).exp()
    return t.prod(1).sqrt(), t.mean(1)


MEANS = Inequality("means", "geometric mean <= arithmetic mean", means)


def test_a_false_inequality_is_broken_though_random_cases_obey_it():
    """|x - 7| >= 1 fails in one small place that random starts rarely meet, and ascent walks to."""

    def sides(take):
        x = take.vector(1)[:, 0]
        return torch.ones_like(x), 0.2 + (x - 2.5).square()

    found = search(Inequality("hole", "1 <= 0.2 + (x - 2.5)^2", sides), 400)
    assert found.ratio > 4.9
    assert found.violations > 0


def test_a_tight_inequality_is_approached_and_never_broken():
    def sides(take):
        left, right = take.vector(3), take.vector(3)
        return (left * right).sum(1).abs(), left.norm(dim=1) * right.norm(dim=1)

    trial = stated.search(Inequality("Cauchy-Schwarz", "|<a, b>| <= |a| |b|", sides), 2000)
    assert trial.holds
    assert 0.999 < trial.worst <= 1 + ROUND_OFF


def test_what_cannot_be_evaluated_counts_as_broken():
    nothing = Inequality("nothing", "NaN <= 1", lambda take: (take.positive() * torch.nan, torch.ones(1).double()))
    assert search(nothing, 40).violations == 40


def test_the_case_found_gives_its_ratio_again():
    found, again = search(MEANS, 100), search(MEANS, 100)
    left, right = MEANS.sides(Numbers(found.theta[None]))
    assert float(left / right) == found.ratio == again.ratio
    assert search(MEANS, 100, seed=1).ratio != found.ratio


def test_at_least_as_many_cases_as_asked_for():
    assert [search(MEANS, cases).cases for cases in (1, 20, 2001)] == [20, 20, 2020]


def test_the_free_numbers_of_a_case_are_counted():
    assert MEANS.size == 2
    with pytest.raises(ValueError, match="2 were asked for"):
        means(Numbers(torch.zeros(1, 1)))


def test_conditions_are_counted_and_none_is_no_evidence():
    assert stated.holds("all", [True, False, nan > 0]).violations == 2
    assert not stated.holds("none", []).holds


def test_counts_what_lies_outside():
    trial = stated.within("small", [0.5, 1.0, 2.0], tolerance=1.0)
    assert (trial.cases, trial.violations, trial.worst) == (3, 1, 2.0)


def test_an_error_that_cannot_be_evaluated_is_a_violation():
    trial = stated.within("small", [0.0, nan, inf], tolerance=1.0)
    assert trial.violations == 2
    assert isinf(trial.worst)


def test_no_errors_is_no_evidence():
    assert not stated.within("small", [], tolerance=1.0).holds
