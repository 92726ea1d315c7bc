"""The loss surface: its centre is the loss of the trained network, its bends are those of the surface."""

import pytest
import torch

from ridgeformer import datasets, errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.regime import Architecture, Training, train
from ridgeformer.studies.loss_surface import STUDY, choose_directions, curvature, measure

POINT = {"data": "digits", "rows": 30, "width": 8, "loss": "mse", "epochs": 20, "side": 3}


def test_the_centre_is_the_trained_network():
    found = measure(**POINT, directions="random", reach=0.5, seed=2)
    p = Split.for_networks(datasets.load("digits"), rows=30, test_rows=10, seed=2)
    built = Architecture("mlp-attn").build(p.X, 8, p.y.shape[1], torch_generator(2, "network"))
    history = train(
        built.model, built.features(p.X), p.y, Training(epochs=20), torch_generator(2, "batches"), record_every=20
    )
    centre = next(row for row in found if (row["model"], row["a"], row["b"]) == ("attention", 0, 0))
    assert centre["height"] == pytest.approx(history.curve[-1][1])


def test_the_bends_are_second_differences_of_the_surface():
    step = 1e-3
    for directions in ("random", "hessian"):
        rows = {
            (row["a"], row["b"]): row
            for row in measure(**POINT, directions=directions, reach=step, seed=2)
            if row["model"] == "relu"
        }
        for name, ends in (("bend_a", ((step, 0.0), (-step, 0.0))), ("bend_b", ((0.0, step), (0.0, -step)))):
            second = sum(rows[end]["height"] for end in ends) - 2 * rows[0.0, 0.0]["height"]
            assert rows[0.0, 0.0][name] == pytest.approx(second / step**2, rel=0.05)


@pytest.mark.parametrize("preset", STUDY.presets)
def test_presets(preset):
    assert len(STUDY.tasks(preset)) == len(STUDY.presets[preset])


START = torch.randn(4, 3, generator=torch_generator(0, "start"), dtype=torch.float64)


def height(weights):
    return weights.pow(4).sum() + (weights[0] * weights[1]).sum()


@pytest.mark.parametrize("name", ["random", "hessian"])
def test_they_are_orthonormal_and_the_same_again(name):
    u, v = choose_directions(height, START, name, seed=4)
    gram = torch.stack([u.flatten(), v.flatten()]) @ torch.stack([u.flatten(), v.flatten()]).T
    torch.testing.assert_close(gram, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(choose_directions(height, START, name, seed=4)[1], v)


def test_the_steepest_are_the_eigenvectors_of_the_hessian():
    H = torch.autograd.functional.hessian(height, START).reshape(12, 12)
    values = torch.linalg.eigvalsh(H)
    u, v = choose_directions(height, START, "hessian", seed=4)
    assert curvature(height, START, u) == pytest.approx(float(values[-1]))
    assert curvature(height, START, v) == pytest.approx(float(values[-2]))
    torch.testing.assert_close(H @ u.flatten(), values[-1] * u.flatten())


def test_an_unknown_name():
    with pytest.raises(errors.UnknownNameError, match="unknown directions"):
        choose_directions(height, START, "steepest", seed=0)
