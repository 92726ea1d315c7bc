"""Grids that grow while the choice is on their edge, up to a limit that is reported."""

import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.solving import solve
from ridgeformer.solving.selection import (
    LEAST_RIDGE,
    WIDENINGS,
    choose_kernel,
    choose_ridge,
    choose_ridge_of_matrix,
    largest_good,
    least,
    ridge_limits,
    search_grid,
)


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


def test_the_largest_ridge_within_one_standard_error():
    residuals = torch.ones(4, 100, dtype=torch.float64)
    residuals[:, ::2] = 2.0  # the squares have standard error 0.15
    scale = torch.tensor([1.1, 1.0, 1.02, 1.5], dtype=torch.float64)
    assert largest_good((residuals * scale[:, None]).square()) == 2
    assert least(torch.tensor([[1.0], [0.5], [0.5], [2.0]])) == 2


def smooth(n=60):
    X = torch.randn(n, 2, generator=torch_generator(0, "X"), dtype=torch.float64)
    return X, X[:, 0].sin() + 0.1 * torch.randn(n, generator=torch_generator(0, "y"), dtype=torch.float64)


def test_the_error_of_a_choice_is_that_of_real_refits():
    X, y = smooth(20)
    chosen = choose_ridge(Gaussian(1.0), X, y, [1e-3, 1e-2, 1e-1], rule=least)
    squares = []
    for i in range(20):
        rest = torch.arange(20) != i
        squares.append((y[i] - solve(Gaussian(1.0), X[rest], y[rest], chosen.ridge).predict(X[i : i + 1])[0]) ** 2)
    assert chosen.error == pytest.approx(float(torch.stack(squares).mean()), rel=1e-8)


def test_temperature_and_ridge_are_found_outside_their_grids():
    X, y = smooth()
    wide = choose_kernel(Gaussian, X, y, [2.0**k for k in range(-6, 9)], [10.0**k for k in range(-6, 3)], rule=least)
    narrow = choose_kernel(Gaussian, X, y, [0.5, 1.0, 2.0, 4.0], [1.0, 10.0, 100.0, 1000.0], rule=least)
    assert not narrow.on_edge
    assert narrow.error == pytest.approx(wide.error, rel=0.1)
    assert narrow.kernel.temperature > 2.0**-4


def test_one_reduction_of_the_kernel_serves_every_widening(monkeypatch):
    X, y = smooth()
    count, original = [], torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda A: count.append(1) or original(A))
    chosen = choose_ridge(Gaussian(1.0), X, y, [1e-7, 1e-6])
    assert len(chosen.path.ridges) > 4
    assert count == [1]


def test_temperatures_beyond_the_range_are_passed_over():
    X, y = smooth()
    X[0] *= 100
    with pytest.raises(errors.LogitRangeError):
        choose_kernel(lambda tau: Exponential(tau).within_range(X), X, y, [1e-9])
    chosen = choose_kernel(lambda tau: Exponential(tau).within_range(X), X, y, [1e-9, 1e5])
    assert chosen.kernel.temperature >= 1.0


def test_a_matrix_and_its_kernel_agree():
    X, y = smooth()
    by_kernel = choose_ridge(Gaussian(1.0), X, y, [1e-3, 1e-2, 1e-1])
    by_matrix = choose_ridge_of_matrix(Gaussian(1.0)(X), y[:, None], [1e-3, 1e-2, 1e-1])
    assert by_matrix.ridge == pytest.approx(by_kernel.ridge)
    assert by_matrix.error == pytest.approx(by_kernel.error)
