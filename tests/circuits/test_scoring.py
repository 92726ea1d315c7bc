import json
from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score, roc_auc_score
from typer.testing import CliRunner

from ridgeformer import errors
from ridgeformer.circuits import (
    METHODS,
    CircuitAnswer,
    load_answers,
    load_circuit,
    load_names,
    mean_score,
    probe_directions,
    save_answers,
    save_family,
    score,
)
from ridgeformer.cli.commands import app


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_family(tmp_path_factory.mktemp("known"), limit=6)


@pytest.fixture(scope="module")
def known(saved):
    return load_circuit(saved, "exponential-vanilla-4-hidden")


def test_scores_are_those_of_scikit_learn(known):
    answer = METHODS["weight norm"](known)
    found = score(known, replace(answer, threshold=float(np.median(list(answer.edges.values())))))
    keys = list(known.truth.edges)
    right = [known.truth.edges[key] for key in keys]
    given = np.array([answer.edges[key] for key in keys])
    chosen = given > np.median(given)
    assert found.edges.auc == roc_auc_score(right, given)
    assert found.edges.precision == precision_score(right, chosen)
    assert found.edges.recall == recall_score(right, chosen)


def test_the_truth_itself_is_a_perfect_answer_and_its_opposite_the_worst(known):
    nodes, edges = ({key: float(bool(v)) for key, v in part.items()} for part in (known.truth.nodes, known.truth.edges))
    best = score(known, CircuitAnswer(nodes, edges, threshold=0.5))
    assert (best.nodes.auc, best.edges.auc, best.edges.precision, best.edges.recall) == (1.0, 1.0, 1.0, 1.0)
    worst = score(known, CircuitAnswer(edges={key: -value for key, value in edges.items()}))
    assert worst.edges.auc == 0.0
    assert worst.nodes is None
    assert isnan(score(known, CircuitAnswer(nodes, threshold=2.0)).nodes.precision)


def test_patching_finds_a_hidden_circuit_and_weights_do_not_show_it(known):
    found = {name: score(known, method(known)) for name, method in METHODS.items()}
    assert found["activation patching"].edges.auc == pytest.approx(1.0)
    assert found["gradient attribution"].edges.auc == pytest.approx(1.0)
    assert found["activation patching"].edges.precision == 1.0
    for name in ("random", "weight norm", "activity", "composition"):
        assert max(found[name].nodes.auc, found[name].edges.auc) < 0.7, name


def test_probes_and_patches(known):
    question = known.truth.question
    exact = tuple(known.export.io.directions[question.channel].write[0].tolist())
    best = score(known, CircuitAnswer(probe=exact, patch=exact))
    assert best.probe == pytest.approx(1.0)
    assert best.patch == pytest.approx(1.0)
    directions = probe_directions(known)
    fitted = score(known, CircuitAnswer(probe=directions["least squares"], patch=directions["random"]))
    assert fitted.probe == pytest.approx(1.0)
    assert fitted.patch < 0.1
    assert mean_score([best, fitted])["probe"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (CircuitAnswer({"L9.H9": 1.0}), "has no 'L9.H9'"),
        (CircuitAnswer(edges={("L0.H0", "L0.H1"): 1.0}), "has no"),
        (CircuitAnswer({"L0.H0": float("nan")}), "give finite scores"),
        (CircuitAnswer(probe=(1.0, 2.0)), "was expected"),
        (CircuitAnswer(patch=(0.0,) * 128), "give a direction"),
    ],
)
def test_answers_to_another_question_are_refused(known, answer, message):
    with pytest.raises(errors.InputError, match=message):
        score(known, answer)


def test_what_was_saved_is_loaded(saved, known, tmp_path):
    assert load_names(saved)[5] == "exponential-vanilla-4-hidden"
    answer = METHODS["random"](known)
    path = save_answers(tmp_path / "answers.json", {known.recipe.name: replace(answer, probe=(1.0, 2.0))})
    again = load_answers(path)[known.recipe.name]
    assert again.edges == answer.edges
    assert again.nodes == answer.nodes
    assert again.probe == (1.0, 2.0)
    card = (saved / known.recipe.name / "README.md").read_text()
    assert "2 decoy heads beside every attention sublayer" in card
    assert "8 of 20 nodes and 28 of 191 pairs" in " ".join(card.split())


def test_damaged_edited_and_foreign_files_are_refused(saved, tmp_path):
    with pytest.raises(errors.DataFileError, match=r"has no index\.json"):
        load_names(tmp_path)
    (tmp_path / "index.json").write_text('{"format": "ridgeformer known circuits", "circuits": {"../x": "0"}}')
    with pytest.raises(errors.DataFileError, match="outside its directory"):
        load_names(tmp_path)
    (tmp_path / "index.json").write_text("[")
    with pytest.raises(errors.DataFileError, match="make the circuits again"):
        load_names(tmp_path)
    with pytest.raises(errors.DataFileError, match="has no circuit 'other'"):
        load_circuit(saved, "other")
    name = "exponential-vanilla-2"
    for file in ("truth.json", "ridgeformer.json", "config.json", "model.safetensors", "io.safetensors"):
        path = saved / name / file
        before = path.read_bytes()
        path.write_bytes(before[:-10] + b" " * 10)
        with pytest.raises(errors.DataFileError, match="damaged or edited"):
            load_circuit(saved, name)
        path.write_bytes(before)
    (tmp_path / "answers.json").write_text(
        json.dumps({"format": "ridgeformer circuit answers", "circuits": {"a": {"b": 1}}})
    )
    with pytest.raises(errors.DataFileError, match="nodes, edges, threshold, probe and patch were expected"):
        load_answers(tmp_path / "answers.json")
    (tmp_path / "answers.json").write_text("{}")
    with pytest.raises(errors.DataFileError, match="does not hold answers"):
        load_answers(tmp_path / "answers.json")


def test_the_commands(saved, tmp_path):
    run, answers = CliRunner(), str(tmp_path / "answers.json")
    made = run.invoke(app, ["circuits", "make", "--out", str(tmp_path / "known"), "--limit", "1"])
    assert "1 known circuits" in made.output
    found = run.invoke(app, ["circuits", "answer", str(saved), "--method", "gradient attribution", "--out", answers])
    assert "answers to 6 circuits" in found.output
    scored = run.invoke(app, ["circuits", "score", str(saved), answers, "--json"])
    means = json.loads(scored.output)["means"]
    assert means["rotated and distracted"]["edges auc"] == 1.0
    assert "edges auc" in run.invoke(app, ["circuits", "score", str(saved), answers]).output
    for wrong, message in (
        (["--method", "x"], "unknown method"),
        (["--method", "random", "--only", "none such"], "leave --only out"),
    ):
        refused = run.invoke(app, ["circuits", "answer", str(saved), "--out", answers, *wrong])
        assert message in str(refused.exception)
