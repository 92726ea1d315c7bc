from dataclasses import replace

import pytest
import torch

from ridgeformer.claims.leave_one_out._influence import Factors, factors, labelled_digits
from ridgeformer.claims.leave_one_out.i3_sign_flips import flips, one_factor_changed, rate_by_size
from ridgeformer.kernels import DotProduct


def test_closed_form_by_hand():
    """Dot products of 1 and 2, targets 1 and 3, ridge 1: f_{-1}(x) = 6x/5, f(x) = 7x/6."""
    X = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    y = torch.tensor([1.0, 3.0], dtype=torch.float64)
    found = factors(DotProduct(), X, y, torch.tensor([[1.0]], dtype=torch.float64), 1.0)
    assert found.leave_one_out[0].tolist() == pytest.approx([7 / 6 - 6 / 5, 7 / 6 - 1 / 2])


def test_flips_and_factors():
    one = torch.ones(2, dtype=torch.float64)
    before = Factors(torch.tensor([[1.0, 1.0], [1.0, 1.0]]).double(), one, one)
    after = Factors(torch.tensor([[-1.0, 1.0], [-1.0, 1.0]]).double(), torch.tensor([-1.0, 1.0]).double(), one)
    assert not flips(before, after).any()
    moved = replace(after, alpha=one)
    assert flips(before, moved).tolist() == [[True, False], [True, False]]
    assert one_factor_changed(before, moved).tolist() == flips(before, moved).tolist()


def test_rates_start_with_the_smallest():
    size = torch.arange(1.0, 21.0, dtype=torch.float64)
    before = Factors(size[None], torch.ones(20, dtype=torch.float64), torch.ones(20, dtype=torch.float64))
    assert rate_by_size(before, size[None] <= 2)[0] == 1.0
    assert rate_by_size(before, size[None] <= 2)[-1] == 0.0


def test_labelled_digits_are_disjoint_unit_rows():
    X, y, Z = labelled_digits(30, 7)
    assert (len(X), len(y), len(Z)) == (30, 30, 7)
    assert set(y.tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(torch.cat([X, Z]).norm(dim=1), torch.ones(37, dtype=torch.float64))
    assert float(torch.cdist(X, Z).min()) > 0
