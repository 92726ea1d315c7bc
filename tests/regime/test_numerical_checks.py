import pytest
import torch

from ridgeformer.core.errors import ShapeError
from ridgeformer.datasets import load, unit_rows
from ridgeformer.kernels import GramPower
from ridgeformer.regime import check_numerically


@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_the_published_third_check_is_out_of_reach(ridge):
    """L14: at large kappa the inverse misses 1e-12 by far, and is as good as eps kappa allows."""
    X = torch.from_numpy(unit_rows(load("digits").X[:200]))
    found = check_numerically(GramPower(3, X)(X), ridge=ridge)
    assert found.condition > 1e6
    assert found.inverse_error > 1e-12
    assert found.inverse_error_in_units < 200
    assert found.asymmetry < 1e-12 * 200**3
    assert found.as_dict()["smallest"] == found.smallest


def test_easy_kernels_pass_all_of_them():
    found = check_numerically(2 * torch.eye(3, dtype=torch.float64), ridge=1.0)
    assert (found.smallest, found.condition, found.asymmetry) == (2.0, 1.0, 0.0)
    assert found.inverse_error < 1e-12


def test_refuses_what_is_not_square():
    with pytest.raises(ShapeError, match=r"\(n, n\)"):
        check_numerically(torch.ones(2, 3), ridge=1.0)
