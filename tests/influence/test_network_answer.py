"""A network's answer is that of ridge regression with the kernel of the very network, and says what it is worth."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ridgeformer import datasets, errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.influence import network_answer
from ridgeformer.influence.network_answer import ask_network
from ridgeformer.regime import Architecture, CustomArchitecture, OutputDistance, Training, empirical_ntk, train

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
    real = network_answer.measure
    monkeypatch.setattr(network_answer, "measure", lambda *given, **more: replace(real(*given, **more), **near))
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
