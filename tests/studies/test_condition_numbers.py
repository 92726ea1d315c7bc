"""Condition numbers: each reading is what it says, on rows of the shapes of the published data."""

import numpy as np
import pytest

from ridgeformer import datasets
from ridgeformer.core.errors import UnknownNameError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets import Dataset
from ridgeformer.studies.condition_numbers import PREPARATIONS, PUBLISHED, make_cards, measure
from ridgeformer.studies.result_cards import CardVerdict
from ridgeformer.studies.study import load_once

SHAPES = {"mnist": (28, 28), "cifar10": (32, 32, 3)}
N = 60


@pytest.fixture
def images(monkeypatch):
    """Datasets of the published shapes, rows with a decaying spectrum and a constant pixel, in place of the real."""

    def load(name):
        draw = numpy_generator(0, "images", name)
        d = int(np.prod(SHAPES[name]))
        X = np.abs(draw.standard_normal((3 * N, 20)) @ (draw.standard_normal((20, d)) / np.arange(1, 21)[:, None]))
        X[:, 0] = 0
        return Dataset(
            name=name, X=X, y=np.arange(3 * N) % 3, task="classification", classes=("a", "b", "c"),
            image_shape=SHAPES[name],
        )  # fmt: skip

    monkeypatch.setattr(datasets, "load", load)
    load_once.cache_clear()
    yield load
    load_once.cache_clear()


@pytest.mark.parametrize("data", SHAPES)
@pytest.mark.parametrize("preparation", PREPARATIONS)
def test_readings_are_those_of_the_gram_matrix(images, data, preparation):
    X = images(data).sample(N, 3).X
    mean = X.mean(axis=0)
    prepared = {
        "raw": X,
        "unit": X / np.linalg.norm(X, axis=1)[:, None],
        "centred": X - mean,
        "centred, then unit": (X - mean) / np.linalg.norm(X - mean, axis=1)[:, None],
        "standardised": (X - mean) / np.where(X.std(axis=0) == 0, 1, X.std(axis=0)),
    }[preparation]
    values = np.linalg.eigvalsh(prepared @ prepared.T)[::-1]
    found = {row["truncation"]: row for row in measure(data, preparation, N, seed=3)}
    energy = np.cumsum(values) / values.sum()
    k = int(np.searchsorted(energy, 0.9)) + 1
    ninety = found["90.0% of the energy"]
    assert ninety["directions"] == k
    assert ninety["kappa"] == pytest.approx(values[0] / values[k - 1], rel=1e-9)
    assert ninety["kappa_of_rows"] == pytest.approx(ninety["kappa"] ** 0.5)
    centred = preparation not in ("raw", "unit")
    assert found["rank"]["directions"] == (N - 1 if centred else N)
    assert found["min(n, d)"]["directions"] == N


def rows_of(data, seeds=3):
    return [
        {"data": data, "preparation": preparation, "rows": N, "seed": seed} | row
        for preparation in PREPARATIONS
        for seed in range(seeds)
        for row in measure(data, preparation, N, seed)
    ]


@pytest.mark.parametrize("data", SHAPES)
def test_every_reading_has_its_card_and_a_published_number_is_recognised(images, data):
    rows = rows_of(data)
    cards = make_cards(rows)
    assert {card.published for card in cards} == {PUBLISHED[data]}
    assert len(cards) == 2 * len(PREPARATIONS) * 6
    rows[0]["kappa"] = rows[6]["kappa"] = rows[12]["kappa"] = PUBLISHED[data]  # raw, at the rank, all three samples
    first = make_cards(rows)[0]
    assert (first.verdict, first.choices["truncation"]) == (CardVerdict.REPRODUCED, "rank")


def test_other_data_stand_beside_the_number_of_mnist():
    rows = [{"data": "digits", "preparation": "unit", "rows": 50, "seed": 0} | row for row in
            measure("digits", "unit", 50, 0)]  # fmt: skip
    assert make_cards(rows)[0].published == PUBLISHED["mnist"]
    assert "beside" in make_cards(rows)[0].choices["data"]


def test_an_unknown_preparation_is_named():
    with pytest.raises(UnknownNameError, match="whitened"):
        measure("digits", "whitened", 50, 0)
