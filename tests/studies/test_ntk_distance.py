"""The width study: its numbers are those of `regime.measure`, its cards compare directions by the rule."""

from math import log

import pytest

from ridgeformer.datasets import Split, load
from ridgeformer.regime import Architecture, Training
from ridgeformer.regime import measure as measure_network
from ridgeformer.studies.ntk_distance import PUBLISHED, SETTINGS, make_cards, measure
from ridgeformer.studies.result_cards import CardVerdict

POINT = {"data": "digits", "rows": 40, "test_rows": 20, "epochs": 10, "dtype": "float64"}


def test_the_numbers_are_the_measurement_s():
    row = measure(**POINT, model="mlp-attn", setting="published", width=32, seed=5)
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=5)
    how = Training(loss="cross_entropy", epochs=10)
    direct = measure_network(problem, Architecture("mlp-attn"), how, width=32, seed=5, linearise=False)
    assert (row["distance"], row["to_ntk"]) == (direct.to_ridge.absolute, None)
    assert row["whitened_start"] == direct.kernel_start.whitened
    assert row["kernel_drift"] == direct.kernel_drift


def test_seeds_draw_rows_and_not_the_network_alone():
    """Ridge regression with the limit kernel depends on the rows alone; once all seeds had the same."""
    rows = [measure(**POINT, model="relu", setting="published", width=8, seed=seed) for seed in range(4)]
    assert len({row["ridge_test_error"] for row in rows}) > 1


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_runs_and_has_its_distance(setting):
    row = measure(**POINT, model="relu", setting=setting, width=64, seed=1)
    assert row["distance"] == row[SETTINGS[setting].compared_with] > 0
    assert not row["diverged"]


def rows(distance, data="digits", widths=(16, 4096), settings=SETTINGS):
    """Rows with the distances of a function of network, width and seed."""
    base = measure(**POINT, model="relu", setting="descent-unit", width=8, seed=0)
    return [
        POINT
        | {"data": data, "model": model, "setting": setting, "width": width, "seed": seed}
        | base
        | {"distance": distance(model, width, seed)}
        for model in ("relu", "mlp-attn")
        for setting in settings
        for width in widths
        for seed in range(3)
    ]  # fmt: skip


def test_cards_of_the_published_table_itself_are_reproduced():
    made = rows(
        lambda model, width, seed: PUBLISHED["mnist", model][width] * (1 + seed / 1000), "mnist", (16, 1024, 4096)
    )
    cards = make_cards(made)
    assert {card.verdict for card in cards} == {CardVerdict.REPRODUCED}
    assert len(cards) == 2 * (len(SETTINGS) + 3)


def test_a_distance_that_falls_is_opposite_for_attention_only():
    cards = make_cards(rows(lambda model, width, seed: 100 / width + seed / 1e6))
    assert [card.verdict for card in cards if "MLP-Attn" in card.row] == [CardVerdict.OPPOSITE] * len(SETTINGS)
    assert [card.verdict for card in cards if "ReLU" in card.row] == [CardVerdict.SAME_DIRECTION] * len(SETTINGS)
    assert cards[0].published == pytest.approx(log(39.2 / 45.1))
    assert "in place of MNIST" in cards[0].choices["data"]


def test_lost_networks_leave_no_number():
    (card, *_) = make_cards(rows(lambda model, width, seed: None if seed else 1.0 + width))
    assert (card.low, card.ours) == (None, pytest.approx(log(4097 / 17)))
