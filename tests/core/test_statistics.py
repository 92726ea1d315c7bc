"""Intervals hold as often as they say, on simulated data; paired tests are scipy's."""

import numpy as np
import pytest
import scipy.stats

from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.core.statistics import (
    compare_by_class,
    compare_paired,
    mean_interval,
    proportion_interval,
    rate_interval,
)

SAMPLES = 4000
SEEDS = (3, 5, 8, 10)


def covers(interval, truth):
    return interval[0] <= truth <= interval[1]


@pytest.mark.parametrize("n", SEEDS)
def test_the_interval_of_a_mean_covers_normal_data_as_often_as_it_says(n):
    """The percentile bootstrap, used before, covers 75, 84, 89 and 90 %."""
    drawn = numpy_generator(0, "normal", n).normal(3.0, 2.0, size=(SAMPLES, n))
    assert np.mean([covers(mean_interval(values), 3.0) for values in drawn]) == pytest.approx(0.95, abs=0.012)
    assert np.mean([covers(mean_interval(values, level=0.8), 3.0) for values in drawn]) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize(
    ("name", "mean", "stated"),
    [("exponential", 1.0, (0.886, 0.883, 0.895, 0.897)), ("lognormal", np.exp(0.5), (0.840, 0.819, 0.837, 0.835))],
)
def test_the_coverage_of_skewed_data_is_the_one_that_the_documentation_states(n, name, mean, stated):
    drawn = getattr(numpy_generator(0, name, n), name)(size=(SAMPLES, n))
    assert np.mean([covers(mean_interval(v), mean) for v in drawn]) == pytest.approx(stated[SEEDS.index(n)], abs=0.018)


def test_means_without_an_interval():
    assert mean_interval([]) == mean_interval([1.0]) == mean_interval([1.0, np.inf]) == (None, None)
    assert mean_interval([0.1, 0.1, 0.1]) == (0.1, 0.1)
    with pytest.raises(InputError, match="between 0 and 1"):
        mean_interval([1.0, 2.0], level=95.0)


@pytest.mark.parametrize("trials", [1, 3, 10, 40])
def test_the_interval_of_a_proportion_covers_every_probability(trials):
    ends = [proportion_interval(count, trials) for count in range(trials + 1)]
    for p in np.linspace(0.0, 1.0, 101):
        chances = scipy.stats.binom.pmf(np.arange(trials + 1), trials, p)
        assert sum(chance for chance, end in zip(chances, ends, strict=True) if covers(end, p)) >= 0.95


def test_the_interval_of_a_proportion_is_scipys():
    for count in (0, 3, 10):
        theirs = scipy.stats.binomtest(count, 10).proportion_ci(method="exact")
        assert proportion_interval(count, 10) == pytest.approx(tuple(theirs))
    with pytest.raises(InputError, match="no more successes"):
        proportion_interval(4, 3)


@pytest.mark.parametrize(("spread", "least"), [(5.0, 0.92), (50.0, 0.97)])
@pytest.mark.parametrize("rate", [0.03, 0.1, 0.3])
def test_the_interval_of_a_rate_covers_beta_binomial_counts(rate, spread, least):
    """Either of its two parts alone falls below: Student's t to 56 %, Clopper-Pearson of all cases to 81 %."""
    generator = numpy_generator(0, "rates", int(10 * spread))
    chances = generator.beta(rate * spread, (1 - rate) * spread, size=(1000, 5))
    rates = generator.binomial(10, chances) / 10
    assert np.mean([covers(rate_interval(row, 10), rate) for row in rates]) >= least


def test_a_rate_of_nothing_is_not_certain():
    assert rate_interval([0.0, 0.0, 0.0], 10) == proportion_interval(0, 30)
    assert rate_interval([1.0, 1.0], 4) == proportion_interval(8, 8)
    assert rate_interval([0.5], 10) == (None, None)
    low, high = rate_interval([0.0, 1.0], 10)
    assert (low, high) == (0.0, 1.0)


@pytest.mark.parametrize(("wins", "losses", "better"), [(4, 0, False), (5, 0, False), (6, 0, True), (9, 3, False)])
def test_right_and_wrong_are_compared_by_mcnemars_exact_test(wins, losses, better):
    own = np.array([1] * wins + [0] * losses + [1] * 50 + [0] * 7)
    other = np.array([0] * wins + [1] * losses + [1] * 50 + [0] * 7)
    found = compare_paired(own, other)
    assert (found.wins, found.losses, found.significant) == (wins, losses, better)
    assert found.p == pytest.approx(scipy.stats.binomtest(wins, wins + losses).pvalue)
    assert found.lead == pytest.approx((wins - losses) / len(own))
    assert (found.low > 0) is better
    assert compare_paired(other, own).high == pytest.approx(-found.low)


def test_the_interval_of_a_lead_allows_for_the_cases_that_happened_to_differ():
    """With 1 case of 300 in which methods differ, the true difference may well be that of 4 or of none."""
    own, other = np.ones(300), np.ones(300)
    other[0] = 0
    found = compare_paired(own, other)
    assert found.high == pytest.approx(proportion_interval(1, 300)[1])
    assert found.high > 5 / 300
    generator = numpy_generator(0, "few differ")
    held = 0
    for wins in generator.binomial(300, 0.01, 200).tolist():
        scores = np.r_[np.zeros(wins), np.ones(300 - wins)]
        found = compare_paired(np.ones(300), scores)
        held += found.low <= 0.01 <= found.high
    assert held >= 188  # 95 % of 200 would be 190


def test_rare_classes_count_like_frequent_ones():
    classes = np.array(["rare"] * 10 + ["frequent"] * 400)
    own, other = np.ones(410, dtype=bool), np.ones(410, dtype=bool)
    other[:6], own[10:30] = False, False  # the first wins 6 of 10 rare cases and loses 20 of 400
    found = compare_by_class(own, other, classes)
    assert found.lead == pytest.approx((6 / 10 - 20 / 400) / 2)
    assert (found.wins, found.losses) == (6, 20)
    assert found.significant is (found.low > 0)
    at = compare_by_class(own, other, classes, level=1 - found.p)
    assert at.low == pytest.approx(0, abs=1e-6)
    back = compare_by_class(other, own, classes)
    assert (back.lead, back.low, back.p) == pytest.approx((-found.lead, -found.high, found.p))
    assert compare_paired(own, other).lead < 0
    assert compare_by_class(own, other, np.zeros(410)).lead == pytest.approx(compare_paired(own, other).lead)
    assert compare_by_class(own, own, classes).p == 1.0
    with pytest.raises(InputError, match="one value a case"):
        compare_by_class(own, other, classes[:5])


def test_methods_that_never_differ():
    found = compare_paired([1, 0, 1], [1, 0, 1])
    most = proportion_interval(0, 3)[1]  # three equal cases do not show that all are
    assert (found.lead, found.low, found.high, found.p) == (0.0, -most, most, 1.0)


def test_the_exact_test_is_wrong_at_most_once_in_twenty():
    generator = numpy_generator(0, "no difference")
    own, other = (generator.random((2000, 60)) < 0.9 for _ in range(2))
    wrong = np.mean([compare_paired(a, b).significant for a, b in zip(own, other, strict=True)])
    assert 0.005 < wrong <= 0.05


def test_other_scores_are_compared_by_students_t():
    own, other = numpy_generator(0, "scores").normal(size=(2, 30))
    found = compare_paired(own, other)
    assert found.p == pytest.approx(scipy.stats.ttest_rel(own, other).pvalue)
    assert (found.low, found.high) == mean_interval(own - other)
    assert compare_paired([0.5], [0.2]).p == 1.0
    with pytest.raises(InputError, match="one score a case"):
        compare_paired([1.0, 0.0], [1.0])
