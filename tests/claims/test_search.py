"""The search finds what is there: a violation, a tight case, and the same one every time."""

import torch

from ridgeformer.claims import Inequality, search, try_to_break
from ridgeformer.claims.search import ROUND_OFF


def test_a_false_inequality_is_broken_though_random_cases_obey_it():
    """|x - 7| >= 1 fails in one small place that random starts rarely meet, and ascent walks to."""

    def sides(theta):
        return torch.ones_like(theta[:, 0]), 0.2 + (theta[:, 0] - 2.5).square()

    found = search(Inequality("hole", 1, sides, "1 <= 0.2 + (x - 2.5)^2"), 400)
    assert found.ratio > 4.9
    assert found.violations > 0


def test_a_tight_inequality_is_approached_and_never_broken():
    def sides(theta):
        left, right = theta[:, :3], theta[:, 3:]
        return (left * right).sum(1).abs(), left.norm(dim=1) * right.norm(dim=1)

    trial = try_to_break(Inequality("Cauchy-Schwarz", 6, sides, "|<a, b>| <= |a| |b|"), 2000)
    assert trial.holds
    assert 0.999 < trial.worst <= 1 + ROUND_OFF


def test_what_cannot_be_evaluated_counts_as_broken():
    nothing = Inequality("nothing", 1, lambda t: (t[:, 0] * torch.nan, torch.ones_like(t[:, 0])), "NaN <= 1")
    assert search(nothing, 40).violations == 40


def test_the_case_found_gives_its_ratio_again():
    inequality = Inequality("means", 2, lambda t: (t.exp().prod(1).sqrt(), t.exp().mean(1)), "means")
    found, again = search(inequality, 100), search(inequality, 100)
    left, right = inequality.sides(found.case[None])
    assert float(left / right) == found.ratio == again.ratio
    assert search(inequality, 100, seed=1).ratio != found.ratio


def test_at_least_as_many_cases_as_asked_for():
    inequality = Inequality("means", 2, lambda t: (t.exp().prod(1).sqrt(), t.exp().mean(1)), "means")
    assert [search(inequality, cases).cases for cases in (1, 20, 2001)] == [20, 20, 2020]
