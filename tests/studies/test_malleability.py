"""The malleability study: what is measured is what the library measures, and the page says what the rows say."""

import pytest

from ridgeformer import datasets, errors
from ridgeformer.core.statistics import proportion_interval
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Network, RawFeatures, UnitRows, network_malleability
from ridgeformer.influence.attacks import FGSM
from ridgeformer.studies.malleability import CENTRE, COLUMNS, STUDY, gap, make_cards, measure

SMALL = {"data": "digits", "classes": "all", "rows": 40, "test_rows": 10} | CENTRE | {"width": 64}


def test_both_models_see_the_same_draw_and_are_measured_by_the_library():
    relu, attention = measure(**SMALL, seed=5)
    p = Split.for_networks(datasets.load("digits"), rows=40, test_rows=10, seed=5, preprocessing="none")
    for row, features in ((relu, RawFeatures()), (attention, AttentionFeatures())):
        network = Network(64, relative_ridge=1e-3)
        found = network_malleability(
            network, p.X, p.y, p.Xt, p.yt, FGSM(0.3), 0.1, features=UnitRows(features), seed=5
        )  # fmt: skip
        assert row["attack_flips_top"] == found.attacked.flips_top
        assert row["redrawn_pair_flips_all"] == found.redrawn.pair_flips_all
        assert row["adaptive_spearman"] == found.adaptive.spearman
    assert relu["length"] == attention["length"] == pytest.approx(float(p.X.norm(dim=1).mean()))


@pytest.mark.parametrize(
    "change",
    [
        {"units": "rows"},
        {"clip": "range"},
        {"preprocessing": "both", "units": "rows"},
        {"preprocessing": "both"},
        {"rounds": 1},
        {"score": "loss"},
        {"context": "fixed"},
        {"classes": "3,8"},
    ],
)
def test_every_choice_changes_something(change):
    assert measure(**SMALL, seed=5) != measure(**(SMALL | change), seed=5)


def test_at_infinite_width_there_is_nothing_to_draw_again():
    rows = measure(**(SMALL | {"kernel": "infinite"}), seed=5)
    assert [row["redrawn_flips_top"] for row in rows] == [None, None]


@pytest.mark.parametrize("name", ["preprocessing", "kernel", "clip"])
def test_unknown_choices(name):
    with pytest.raises(errors.UnknownNameError, match=f"unknown {name}"):
        measure(**(SMALL | {name: "other"}), seed=5)


def test_clipping_holds_attacks_and_random_signs_in_the_range_of_the_data():
    relu, _ = measure(**(SMALL | {"clip": "range", "kernel": "infinite"}), seed=5)
    p = Split.for_networks(datasets.load("digits"), rows=40, test_rows=10, seed=5, preprocessing="none")
    clipped = FGSM(0.3, bounds=(float(p.X.min()), float(p.X.max())))
    found = network_malleability(
        Network(relative_ridge=1e-3), p.X, p.y, p.Xt, p.yt, clipped, 0.1, features=UnitRows(RawFeatures()), seed=5
    )
    assert (relu["attack_spearman"], relu["noise_spearman"]) == (found.attacked.spearman, found.noise.spearman)
    assert relu["attacked"] == len(found.top) == 4


@pytest.mark.parametrize("preset", STUDY.presets)
def test_presets_have_five_seeds_and_departures_of_one_choice(preset):
    chosen = STUDY.presets[preset]
    assert chosen.seeds >= 5
    assert len(STUDY.tasks(preset)) == len(chosen)
    assert {point["attack"] for point in chosen.points} == {"fgsm", "pgd", "mim"}
    assert {point["rounds"] for point in chosen.points} == {0, 1, 4}


def test_both_real_datasets_have_a_preset_with_two_five_and_ten_classes_and_a_trained_network():
    for name in ("mnist", "cifar10"):
        points = STUDY.presets[name].points
        assert {point["data"] for point in points} == {name}
        assert {point["classes"].count(",") for point in points if point["classes"] != "all"} == {1, 4}
        assert {"infinite", "initial", "trained"} == {point["kernel"] for point in points}


def test_more_rounds_of_adversarial_training_change_more():
    one, four = (measure(**(SMALL | {"rounds": rounds}), seed=5) for rounds in (1, 4))
    assert one != four


# -- cards and gaps ------------------------------------------------------------------------------------

CONTROLS = ("attack", "noise", "redrawn", "adaptive")
START = STUDY.presets["quick"].points[0]
SHIFT = (-0.02, 0.0, 0.02)


def rates(point, model):
    """Attention flips 40 % and ReLU 10 %; with eps in unit rows it is the other way round."""
    high = (model == "attention") != (point["units"] == "rows")
    return 0.4 if high else 0.1


def made_rows():
    found = []
    for point in STUDY.presets["quick"].points:
        for seed, shift in enumerate(SHIFT):
            for model in ("relu", "attention"):
                values = {f"{c}_{column}": rates(point, model) + shift for c in CONTROLS for column in COLUMNS}
                if point["kernel"] == "infinite":
                    values |= {f"redrawn_{column}": None for column in COLUMNS}
                found.append(point | {"seed": seed, "model": model, "length": 4.0, "attacked": 50} | values)
    return found


def made_means(rows):
    return [row for row in rows if row["seed"] == 1]  # the middle of three is their mean


def test_gaps_are_paired_by_seed():
    found = gap(made_rows(), START, "attack_flips_top")
    assert found == pytest.approx((30.0, 30.0, 30.0))
    assert found.sign == 1


def test_cards_compare_with_the_published_tables_and_name_the_data():
    cards = {(card.table, card.row): card for card in make_cards(made_rows(), START)}
    found = cards["flips, mnist, all classes, FGSM", "attention - relu"]
    assert (found.published, found.ours) == pytest.approx((30.5, 30.0))
    assert found.verdict == "reproduced"
    assert found.choices["data"] == "digits"
    relu = cards["flips, mnist, all classes, FGSM", "relu, %"]
    assert (relu.published, relu.ours) == pytest.approx((4.1, 10.0))
    assert relu.verdict == "not reproduced"
    assert ("flips, mnist, all classes, PGD, after adversarial training, rounds: 1", "attention, %") in cards
    assert len(cards) == 3 * 8


def test_no_flip_in_any_seed_is_not_certain_and_so_not_a_verdict():
    """Once 0 of 10 in every seed had the interval 0 to 0."""
    rows = [row | {"attacked": 10, "attack_flips_top": 0.0} for row in made_rows()]
    relu = next(card for card in make_cards(rows, START) if card.row == "relu, %")
    assert (relu.ours, relu.low, relu.verdict) == (0.0, 0.0, "inconclusive")
    assert relu.high == pytest.approx(100 * proportion_interval(0, 30)[1])
