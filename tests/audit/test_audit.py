import json

import pytest

from ridgeformer import datasets
from ridgeformer.audit import Settings, audit


@pytest.fixture(scope="module")
def wine():
    return audit(datasets.load("wine"))


def test_the_answer_is_made_of_the_numbers(wine):
    text = " ".join(wine.sentences)
    for fit in wine.fits:
        assert f"{100 * fit.test_score:.1f} %" in text
    assert f"{wine.certified.worst_bound:.1e}" in text
    assert str(wine.convergence.curves[0].steps_to_target) in text
    for model in wine.compiled:
        assert f"{model.steps} steps, {model.budget.sublayers} layers" in text
        assert f"{model.agreement:.1e} of a typical output" in text


def test_same_seed_same_numbers_other_seed_other_split(wine):
    again = audit(datasets.load("wine"))
    assert [fit.test_score for fit in again.fits] == [fit.test_score for fit in wine.fits]
    assert again.certified.worst_bound == wine.certified.worst_bound
    other = audit(datasets.load("wine"), Settings(seed=1))
    assert other.certified.worst_bound != wine.certified.worst_bound


def test_as_dict_is_plain_json(wine):
    record = json.loads(json.dumps(wine.as_dict()))
    assert record["data"]["name"] == "wine"
    assert len(record["seconds"]) == 6
    assert record["versions"]["torch"]


def test_progress_names_every_stage_once():
    seen = []
    audit(datasets.load("wine"), progress=lambda done, total, what: seen.append((done, total)))
    assert seen == [(step, 6) for step in range(7)]


def test_being_behind_a_baseline_is_said(wine):
    own, best = wine.fits[0].test_score, max(fit.test_score for fit in wine.baselines)
    word = "beats" if own > best else "equals" if own == best else "is behind"
    assert word in wine.sentences[0]
