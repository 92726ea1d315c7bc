from dataclasses import replace

import pytest
import torch

from ridgeformer.claims.leave_one_out import flips, labelled_digits, one_factor_changed, rate_by_size
from ridgeformer.influence import Influence, leave_one_out
from ridgeformer.kernels import DotProduct
from ridgeformer.solving import solve


def made_of(weights, alpha):
    """An influence of these factors, with R_ii = 1."""
    weights, alpha = torch.tensor(weights).double(), torch.tensor(alpha).double()[:, None]
    return Influence(
        alpha, weights, torch.ones(len(alpha)).double(), torch.zeros(weights.shape[1], 1), 1.0, vector=True
    )


def test_closed_form_by_hand():
    """Dot products of 1 and 2, targets 1 and 3, ridge 1: f_{-1}(x) = 6x/5, f(x) = 7x/6."""
    fit = solve(DotProduct(), [[1.0], [2.0]], [1.0, 3.0], 1.0, algorithm="direct")
    found = leave_one_out(fit, [[1.0]])
    assert found[:, 0].tolist() == pytest.approx([7 / 6 - 6 / 5, 7 / 6 - 1 / 2])


def test_flips_and_factors():
    before = made_of([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0])
    after = made_of([[-1.0, -1.0], [1.0, 1.0]], [-1.0, 1.0])
    assert not flips(before, after).any()
    moved = replace(after, alpha=before.alpha)
    assert flips(before, moved).tolist() == [[True, True], [False, False]]
    assert one_factor_changed(before, moved).tolist() == flips(before, moved).tolist()


def test_rates_start_with_the_smallest():
    size = torch.arange(1.0, 21.0, dtype=torch.float64)
    before = made_of(size[:, None].tolist(), [1.0] * 20)
    assert rate_by_size(before, size[:, None] <= 2)[0] == 1.0
    assert rate_by_size(before, size[:, None] <= 2)[-1] == 0.0


def test_labelled_digits_are_disjoint_unit_rows():
    X, y, Z = labelled_digits(30, 7, 0)
    assert (len(X), len(y), len(Z)) == (30, 30, 7)
    assert set(y.tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(torch.cat([X, Z]).norm(dim=1), torch.ones(37, dtype=torch.float64))
    assert float(torch.cdist(X, Z).min()) > 0
