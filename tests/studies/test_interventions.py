"""The interventions study: its rows are the library's, and its page says what the rows say."""

import pytest

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Network, UnitRows, intervene
from ridgeformer.influence.attacks import FGSM
from ridgeformer.kernels import ReluNTK
from ridgeformer.studies.interventions import STUDY, measure

POINT = {"data": "digits", "rows": 40, "test_rows": 20, "attack": "fgsm", "eps": 0.3, "rounds": 2, "ridge": 1e-2}


def test_rows_are_those_of_the_library():
    found = {(row["model"], row["intervention"]): row for row in measure(**POINT, seed=3)}
    assert len(found) == 8
    p, features = Split.for_networks(datasets.load("digits"), rows=40, test_rows=20, seed=3, preprocessing="none"), None
    features = UnitRows(AttentionFeatures())
    fit = Network(relative_ridge=1e-2).fit(ReluNTK(), features(p.X, p.Xt)[0], p.y)
    made = intervene(fit, p.Xt, p.yt, FGSM(0.3), X=p.X, features=features, rounds=2, seed=3)
    assert found["attention", "adversarial"]["accuracy"] == made.adversarial.accuracy
    assert found["attention", "transformed"]["flips"] == made.transformed.changed.flips_top
    assert found["attention", "untouched"]["flips"] is None


@pytest.mark.parametrize("preset", STUDY.presets)
def test_presets(preset):
    assert STUDY.presets[preset].seeds >= 5
    assert len(STUDY.tasks(preset)) == len(STUDY.presets[preset])
