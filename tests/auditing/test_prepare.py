import numpy as np
import pytest
import torch

from ridgeformer import datasets, errors
from ridgeformer.auditing import Settings
from ridgeformer.auditing.prepare import prepare
from ridgeformer.datasets import Dataset


def test_statistics_come_from_the_training_rows_only():
    data = prepare(datasets.load("diabetes"), Settings())
    assert float(data.X.mean(0).abs().max()) < 1e-12
    assert float(data.y.mean().abs()) < 1e-10
    assert float(data.Xt.mean(0).abs().max()) > 1e-3


def test_images_get_unit_rows():
    data = prepare(datasets.load("digits"), Settings())
    torch.testing.assert_close(data.X.norm(dim=1), torch.ones(len(data.X), dtype=torch.float64))


def test_a_large_dataset_is_sampled_and_that_is_said():
    data = prepare(datasets.load("digits"), Settings(max_rows=200))
    assert len(data.X) + len(data.Xt) == 200
    assert any("Only 200 of 1,797 rows" in note for note in data.notes)


def test_rows_keep_their_numbers():
    digits = datasets.load("digits")
    data = prepare(digits, Settings(max_rows=200, preprocessing="standardise"))
    assert len(set(data.rows) | set(data.rows_t)) == 200
    assert digits.y[data.rows].tolist() == data.labels.tolist()
    assert digits.y[data.rows_t].tolist() == data.labels_t.tolist()
    whole = prepare(datasets.load("diabetes"), Settings())
    torch.testing.assert_close(whole.yt[:, 0] + whole.mean, torch.from_numpy(datasets.load("diabetes").y[whole.rows_t]))


def test_scores_are_scikit_learns():
    from sklearn.metrics import accuracy_score, r2_score

    digits, diabetes = (prepare(datasets.load(name), Settings()) for name in ("digits", "diabetes"))
    outputs = torch.randn(digits.yt.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = accuracy_score(digits.labels_t, (outputs + digits.mean).argmax(1))
    assert digits.score(outputs) == pytest.approx(expected)
    guess = 0.5 * diabetes.yt + 3
    assert diabetes.score(guess) == pytest.approx(r2_score(diabetes.yt, guess))


def test_too_few_rows_are_refused():
    with pytest.raises(errors.InputError, match="needs at least 10"):
        prepare(Dataset("tiny", np.eye(3), np.arange(3.0)), Settings())


def test_unknown_preprocessing():
    with pytest.raises(errors.UnknownNameError, match="did you mean 'standardise'"):
        prepare(datasets.load("wine"), Settings(preprocessing="standardize"))
