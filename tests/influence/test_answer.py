from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from ridgeformer import datasets, errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Dataset, Split
from ridgeformer.influence import answer as answer_module
from ridgeformer.influence.answer import ask, ask_network
from ridgeformer.regime import Architecture, CustomArchitecture, OutputDistance, Training, empirical_ntk, train
from ridgeformer.solving import Status, solve
from ridgeformer.solving.tuning import choose_attention


@cache
def asked(name, row):
    """The answer for a row, made once for all tests that look at it."""
    return ask(datasets.load(name), row, max_rows=120, points=3)


@cache
def chosen_for(name, row):
    data = Split.of(datasets.load(name), held_out=row, max_rows=120)
    return data, *choose_attention(data)


@pytest.fixture
def without_attack(monkeypatch):
    """No search for a flipping eps, which is most of the time of an answer and has tests of its own."""
    monkeypatch.setattr(answer_module, "smallest_flipping_eps", lambda *given, **more: None)


def refitted(name, row, drop):
    """The outputs at the row of a real fit without the given rows of the dataset, targets' mean added."""
    data, kernel, ridge = chosen_for(name, row)
    keep = torch.from_numpy(~np.isin(data.rows, drop))
    again = solve(kernel, data.X[keep], data.y[keep], ridge)
    return (again.predict(data.Xt[-1:]) + data.mean)[0]


@pytest.mark.parametrize(("name", "row"), [("wine", 7), ("diabetes", 3)])
def test_scores_are_those_of_refits(name, row):
    dataset = datasets.load(name)
    answer = asked(name, row)
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
    answer = asked("wine", 7)
    data, kernel, ridge = chosen_for("wine", 7)
    K, wrong = kernel(data.X), 0
    for i in range(len(data.X)):
        keep = torch.arange(len(data.X)) != i
        A = K[keep][:, keep] + ridge * torch.eye(len(data.X) - 1, dtype=torch.float64)
        outputs = K[i, keep] @ torch.linalg.solve(A, data.y[keep])
        wrong += int((outputs + data.mean).argmax() != data.labels[i])
    assert answer.leave_one_out_error == pytest.approx(wrong / len(data.X))


def test_the_words_say_what_was_found():
    answer = asked("wine", 7)
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
    answer = ask(dataset, 7, preprocessing="unit_rows", max_rows=60)
    assert answer.unit == pytest.approx(np.linalg.norm(dataset.X[answer.strongest]))
    assert "in the units of the data" in answer.sentences[-1]
    assert asked("wine", 7).unit is None


def test_constant_targets_have_no_influence():
    flat = Dataset("flat", datasets.load("wine").X, np.ones(178))
    answer = ask(flat, 7)
    assert (answer.helpful, answer.harmful, answer.share, answer.together) == ((), (), 0.0, 0.0)
    assert answer.sentences[-1].endswith("there is no sign to keep.")
    assert not any("inf" in line.split() or "nan" in line for line in answer.sentences)


def test_what_was_not_searched_for_is_said():
    answer = replace(asked("wine", 7), flipping=None, warning="Beware.")
    assert answer.sentences[0] == "Beware."
    assert "not searched for" in answer.sentences[-1]


@pytest.mark.parametrize(("name", "row"), [("wine", 7), ("diabetes", 3)])
@pytest.mark.usefixtures("without_attack")
def test_the_rows_own_target_does_not_reach_its_prediction(name, row):
    dataset = datasets.load(name)
    y = dataset.y.copy()
    y[row] = (y[row] + 1) % 3 if dataset.classes else 1e6
    before, after = (ask(one, row, max_rows=100) for one in (dataset, replace(dataset, y=y)))
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


SMALL = {"max_rows": 40}
WINE = datasets.load("wine")
STILL = Training("descent", epochs=0, l2=0.0)


def tanh(d, c, m):
    return nn.Sequential(nn.Linear(d, m), nn.Tanh(), nn.Linear(m, c))


def oracle(architecture, training, row, ridge, drop):
    """The network, and the output at the row by a plain solve with its kernel, without some rows."""
    data = Split.of(WINE, held_out=row, max_rows=40)
    built = architecture.build(data.X, 16, data.y.shape[1], torch_generator(0, "regime.network", 16))
    seen = built.features(torch.cat([data.X, data.Xt[-1:]]))
    train(built.model, seen[:-1], data.y, training, torch_generator(0, "regime.batches"))
    K = empirical_ntk(built.model, seen)
    keep = torch.tensor([i for i, number in enumerate(data.rows) if number not in drop])
    A = K[keep][:, keep] + ridge * torch.eye(len(keep), dtype=torch.float64)
    return (K[-1, keep] @ torch.linalg.solve(A, data.y[keep]))[int(WINE.y[row])]


@pytest.mark.parametrize("architecture", [Architecture("mlp-attn", scale=1.0), CustomArchitecture(tanh)])
def test_scores_are_those_of_refits_with_the_trained_networks_own_kernel(architecture):
    training = Training("descent", rate=0.5, epochs=3, l2=0.0)
    answer = ask_network(WINE, 7, architecture, **SMALL, width=16, training=training, rate=0.5, points=2)
    full = oracle(architecture, training, 7, answer.ridge, [])
    for point in (answer.helpful[0], answer.harmful[0]):
        assert point.score == pytest.approx(float(full - oracle(architecture, training, 7, answer.ridge, [point.row])))


def test_a_network_that_is_no_kernel_machine_is_warned_about_first():
    found = ask_network(WINE, 7, Architecture("relu", scale=0.01), **SMALL, width=8)
    assert found.warning == found.sentences[0]
    assert found.warning.startswith("Warning: on these data the network is not the kernel machine")
    assert "the kernel moved" in found.warning
    assert "may not be of the network" in found.warning


def test_a_kernel_machine_is_not_warned_about(monkeypatch):
    near = {"kernel_drift": 0.01, "to_linearised": OutputDistance(0.0, 0.02), "to_ridge": OutputDistance(0.0, 0.03)}
    real = answer_module.measure
    monkeypatch.setattr(answer_module, "measure", lambda *given, **more: replace(real(*given, **more), **near))
    found = ask_network(WINE, 7, CustomArchitecture(tanh), **SMALL, width=8, training=STILL)
    assert found.warning is None
    assert found.sentences[0].startswith("Row 7 of wine is of class class_0; the tangent kernel of your network")


def test_only_networks_with_a_closed_form_have_a_robustness_line():
    plain = ask_network(WINE, 7, Architecture("relu", scale=1.0), **SMALL, width=16, training=STILL)
    own = ask_network(WINE, 7, CustomArchitecture(tanh), **SMALL, width=16, training=STILL)
    assert plain.flipping.certified is None
    assert plain.flipping.found > 0
    assert own.flipping is None
    assert any(note.startswith("The network itself says class_") for note in own.notes)


def test_regression():
    found = ask_network(datasets.load("diabetes"), 3, CustomArchitecture(tanh), **SMALL, width=16, training=STILL)
    assert found.task == "regression"
    assert found.sentences[-1].startswith("Robustness")


@pytest.mark.parametrize(
    ("architecture", "options", "words"),
    [
        (CustomArchitecture(lambda d, c, m: 3), {}, "a torch.nn.Module was expected"),
        (CustomArchitecture(lambda d, c, m: nn.Linear(d, c + 1)), {}, "outputs; the targets have"),
        (Architecture("relu", scale=1.0), {"rate": 1e9}, "rate 1e[+]09 diverges"),
        (Architecture("relu", scale=1.0), {"width": 0}, "width is 0"),
        (Architecture("relu", scale=1.0), {"points": 0}, "points is 0"),
    ],
)
def test_bad_input(architecture, options, words):
    with pytest.raises(errors.InputError, match=words):
        ask_network(WINE, 7, architecture, **SMALL, **({"width": 16} | options))


def test_a_dead_network_is_refused():
    def dead(d, c, m):
        network = nn.Sequential(nn.Linear(d, m), nn.ReLU(), nn.Linear(m, c))
        for parameter in network.parameters():
            parameter.data.zero_()
        network[0].bias.data.fill_(-1e6)
        network[2].bias.requires_grad_(False)
        return network

    with pytest.raises(errors.InputError, match="dead"):
        ask_network(WINE, 7, CustomArchitecture(dead), **SMALL, width=16, training=STILL)


def test_a_ridge_that_float64_does_not_carry_is_raised_and_that_is_said(monkeypatch):
    ridges = []

    def breaks_down_once(kernel, X, y, ridge, **options):
        fit = solve(kernel, X, y, ridge, **options)
        ridges.append(ridge)
        return fit if len(ridges) > 1 else replace(fit, status=Status.BREAKDOWN)

    monkeypatch.setattr(answer_module, "solve", breaks_down_once)
    found = ask_network(WINE, 7, Architecture("relu", scale=1.0), **SMALL, width=64, training=STILL)
    assert found.ridge == ridges[1] == 10 * ridges[0]
    assert any("float64 does not determine influences" in note for note in found.notes)
