"""The curve of the examples: unit rows whose kernel depends on the distance alone."""

import pytest
import torch

from ridgeformer.core.errors import InputError
from ridgeformer.views.viewer import curve_task


def test_rows_have_length_one_and_places_are_sorted():
    task = curve_task(supports=20, queries=7)
    assert torch.allclose(task.X.norm(dim=1), torch.ones(20, dtype=torch.float64))
    assert bool((task.at[0].diff() > 0).all())
    assert (task.Xq.shape, task.at[1].shape) == ((7, 2), (7,))


def test_products_depend_on_the_distance_alone():
    task = curve_task(queries=5)
    products = task.Xq @ task.Xq.T
    for offset in range(5):
        diagonal = products.diagonal(offset)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal))


def test_a_seed_is_one_task():
    assert torch.equal(curve_task(seed=3).y, curve_task(seed=3).y)
    assert not torch.equal(curve_task(seed=3).y, curve_task(seed=4).y)


def test_one_support_is_no_curve():
    with pytest.raises(InputError, match="supports"):
        curve_task(supports=1)
