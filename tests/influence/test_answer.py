from dataclasses import replace

import numpy as np
import pytest
import torch

from ridgeformer import datasets, errors
from ridgeformer.datasets import Dataset, Split
from ridgeformer.influence.answer import ask
from ridgeformer.solving import solve
from ridgeformer.solving.selection import choose_exponential


def refitted(name, row, drop):
    """The outputs at the row of a real fit without the given rows of the dataset, targets' mean added."""
    data = Split.of(datasets.load(name), held_out=row)
    kernel, chosen = choose_exponential(data.X, data.y, queries=data.Xt)
    keep = torch.from_numpy(~np.isin(data.rows, drop))
    again = solve(kernel, data.X[keep], data.y[keep], chosen.ridge)
    return (again.predict(data.Xt[-1:]) + data.mean)[0]


@pytest.mark.parametrize(("name", "row"), [("wine", 7), ("wine", 100), ("diabetes", 3)])
def test_scores_are_those_of_refits(name, row):
    dataset = datasets.load(name)
    answer = ask(dataset, row, points=3)
    output = int(dataset.y[row]) if dataset.classes else 0
    full = refitted(name, row, [])[output]
    assert answer.output == pytest.approx(float(full))
    towards = 1.0 if dataset.classes or dataset.y[row] >= float(full) else -1.0
    for point in (answer.helpful[0], answer.harmful[0]):
        assert point.score == pytest.approx(towards * float(full - refitted(name, row, [point.row])[output]), rel=1e-8)
    group = [point.row for point in answer.helpful]
    assert answer.together == pytest.approx(towards * float(full - refitted(name, row, group)[output]), rel=1e-8)
    scores = [point.score for point in answer.helpful + answer.harmful[::-1]]
    assert scores == sorted(scores, reverse=True)
    assert answer.strongest in {answer.helpful[0].row, answer.harmful[0].row}
    assert 0 < answer.flipping.certified <= answer.flipping.found


def test_leave_one_out_error_is_that_of_refits():
    dataset = datasets.load("wine")
    answer = ask(dataset, 7)
    data = Split.of(dataset, held_out=7)
    kernel, chosen = choose_exponential(data.X, data.y, queries=data.Xt)
    wrong = 0
    for i in range(len(data.X)):
        keep = torch.arange(len(data.X)) != i
        outputs = solve(kernel, data.X[keep], data.y[keep], chosen.ridge).predict(data.X[i : i + 1])
        wrong += int((outputs + data.mean).argmax() != data.labels[i])
    assert answer.leave_one_out_error == pytest.approx(wrong / len(data.X))


def test_the_words_say_what_was_found():
    answer = ask(datasets.load("wine"), 7)
    text = " ".join(answer.sentences)
    for part in (
        "Row 7 of wine is of class class_0",
        f"Most helpful is row {answer.helpful[0].row} ({answer.helpful[0].label})",
        f"Most harmful is row {answer.harmful[0].row}",
        "leave-one-out",
        f"eps = {answer.flipping.certified:.2g} at most",
        f"an attack changes it at eps = {answer.flipping.found:.2g}",
    ):
        assert part in text
    assert answer.as_dict()["helpful"][0]["row"] == answer.helpful[0].row


def test_the_unit_of_eps_is_known_where_rows_were_scaled_as_a_whole():
    dataset = datasets.load("wine")
    answer = ask(dataset, 7, preprocessing="unit_rows")
    assert answer.unit == pytest.approx(np.linalg.norm(dataset.X[answer.strongest]))
    assert "in the units of the data" in answer.sentences[-1]
    assert ask(dataset, 7).unit is None


def test_constant_targets_have_no_influence():
    flat = Dataset("flat", datasets.load("wine").X, np.ones(178))
    answer = ask(flat, 7)
    assert (answer.helpful, answer.harmful, answer.share, answer.together) == ((), (), 0.0, 0.0)
    assert answer.sentences[-1].endswith("there is no sign to keep.")
    assert not any("inf" in line.split() or "nan" in line for line in answer.sentences)


def test_what_was_not_searched_for_is_said():
    answer = replace(ask(datasets.load("wine"), 7), flipping=None, warning="Beware.")
    assert answer.sentences[0] == "Beware."
    assert "not searched for" in answer.sentences[-1]


@pytest.mark.parametrize(("name", "row"), [("wine", 7), ("diabetes", 3)])
def test_the_rows_own_target_does_not_reach_its_prediction(name, row):
    dataset = datasets.load(name)
    y = dataset.y.copy()
    y[row] = (y[row] + 1) % 3 if dataset.classes else 1e6
    before, after = ask(dataset, row), ask(replace(dataset, y=y), row)
    assert after.truth != before.truth
    assert after.predicted == before.predicted
    assert (after.temperature, after.ridge, after.leave_one_out_error) == (
        before.temperature, before.ridge, before.leave_one_out_error,
    )  # fmt: skip
    if not dataset.classes:
        assert after.output == before.output


def test_one_class_and_a_class_without_training_rows():
    wine = datasets.load("wine")
    with pytest.raises(errors.InputError, match="all of one class"):
        ask(wine.subset(wine.y == 0), 0)
    y = wine.y.copy()
    y[y == 2] = 1
    y[5] = 2
    with pytest.raises(errors.InputError, match="row 5 of wine is of class class_2, and no training row"):
        ask(replace(wine, y=y), 5)
