"""Grids that grow while the choice is on their edge, up to a limit that is reported."""

import pytest
import torch

from ridgeformer.grid_search import LEAST_RIDGE, WIDENINGS, ridge_limits, search_grid


def away_from(best):
    return lambda values: torch.tensor([abs(torch.tensor(value / best).log()) for value in values])


@pytest.mark.parametrize("best", [2.0**-9, 2.0**-3, 1.0, 2.0**11])
def test_the_best_value_is_found_wherever_it_is(best):
    found = search_grid([1.0, 0.5, 0.25, 0.125, 0.0625], away_from(best))
    assert found.value == pytest.approx(best) or found.on_edge
    assert found.on_edge is (best == 2.0**11)  # four times two values end at 2^8
    assert list(found.values) == sorted(set(found.values))
    assert torch.equal(found.judged, away_from(best)(found.values))


def test_a_choice_inside_costs_nothing_more():
    calls = []

    def judge(values):
        calls.append(list(values))
        return away_from(2.0)(values)

    assert search_grid([1.0, 2.0, 4.0], judge).value == 2.0
    assert calls == [[1.0, 2.0, 4.0]]


def test_widening_ends_and_says_so():
    found = search_grid([1.0, 10.0, 100.0, 1000.0], lambda values: torch.tensor(values))
    assert len(found.values) == 4 + 2 * WIDENINGS
    assert (found.place, found.on_edge) == (0, True)
    limited = search_grid([1.0, 10.0], lambda values: torch.tensor(values), limits=(0.05, 100.0))
    assert limited.values == pytest.approx((0.1, 1.0, 10.0))
    assert limited.on_edge


def test_one_value_is_a_choice():
    found = search_grid([3.0], lambda values: torch.tensor(values))
    assert (found.values, found.value, found.on_edge) == ((3.0,), 3.0, False)


def test_a_rule_other_than_the_least_and_entries_of_many_numbers():
    found = search_grid(
        [1.0, 2.0], lambda values: torch.stack([torch.full((3,), value) for value in values]),
        lambda rows: int((rows.mean(1) <= 9.0).nonzero().max()),
    )  # fmt: skip
    assert (found.value, found.values[-1], found.judged.shape[1]) == (8.0, 16.0, 3)


def test_limits_of_a_ridge():
    assert ridge_limits(50, 2.0) == (2 * LEAST_RIDGE, 1000.0)
