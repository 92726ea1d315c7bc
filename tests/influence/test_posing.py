from dataclasses import replace

import numpy as np
import pytest
import torch

from ridgeformer import datasets, errors
from ridgeformer.auditing import Settings
from ridgeformer.influence.posing import pose_row


@pytest.mark.parametrize("row", range(0, 178, 23))
def test_every_training_row_keeps_its_number_and_the_row_asked_is_held_out(row):
    dataset = datasets.load("wine")
    posed = pose_row(dataset, row, Settings(preprocessing="unit_rows"))
    assert row not in posed.numbers
    np.testing.assert_allclose(posed.data.X.numpy(), datasets.unit_rows(dataset.X[posed.numbers]))
    np.testing.assert_array_equal(posed.data.labels.numpy(), dataset.y[posed.numbers])
    query = posed.data.Xt[posed.place].numpy()
    np.testing.assert_allclose(query, datasets.unit_rows(dataset.X[row : row + 1])[0])
    assert int(posed.data.labels_t[posed.place]) == dataset.y[row]
    assert len(posed.data.X) + len(posed.data.Xt) == dataset.n


def test_a_large_dataset_is_sampled_around_the_row():
    dataset = datasets.load("digits")
    posed = pose_row(dataset, 1234, Settings(max_rows=100, preprocessing="unit_rows"))
    assert len(posed.data.X) + len(posed.data.Xt) == 100
    assert "100 of 1,797 rows" in " ".join(posed.data.notes)
    np.testing.assert_allclose(posed.data.X.numpy(), datasets.unit_rows(dataset.X[posed.numbers]))


def test_regression_has_no_labels():
    posed = pose_row(datasets.load("diabetes"), 3, Settings())
    assert posed.data.labels is None
    assert torch.isfinite(posed.data.yt[posed.place]).all()


@pytest.mark.parametrize("row", [-1, 178, 2.0, True, "3"])
def test_no_such_row(row):
    with pytest.raises(errors.InputError, match=r"wine has no row .*: it has rows 0 to 177"):
        pose_row(datasets.load("wine"), row, Settings())


def test_one_class_and_a_class_without_training_rows():
    wine = datasets.load("wine")
    with pytest.raises(errors.InputError, match="all of one class"):
        pose_row(wine.subset(wine.y == 0), 0, Settings())
    y = wine.y.copy()
    y[y == 2] = 1
    y[5] = 2
    with pytest.raises(errors.InputError, match="row 5 of wine is of class class_2, which no training row"):
        pose_row(replace(wine, y=y), 5, Settings())
