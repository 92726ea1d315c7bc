"""The malleability study: what is measured is what the library measures, and the page says what the rows say."""

import pytest

from ridgeformer import datasets, errors
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Network, RawFeatures, UnitRows, network_malleability
from ridgeformer.influence.attacks import FGSM
from ridgeformer.studies.malleability import CENTRE, STUDY, measure

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
