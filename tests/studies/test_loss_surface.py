"""The loss surface: its centre is the loss of the trained network, its bends are those of the surface."""

import pytest

from ridgeformer import datasets
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.regime import Architecture, Training, train
from ridgeformer.studies.loss_surface import STUDY, make_page, measure

POINT = {"data": "digits", "rows": 30, "width": 8, "loss": "mse", "epochs": 20, "side": 3}


def test_the_centre_is_the_trained_network():
    found = measure(**POINT, directions="random", reach=0.5, seed=2)
    p = Split.for_networks(datasets.load("digits"), rows=30, test_rows=10, seed=2)
    built = Architecture("mlp-attn").build(p.X, 8, p.y.shape[1], torch_generator(2, "network"))
    history = train(
        built.model, built.features(p.X), p.y, Training(epochs=20), torch_generator(2, "batches"), record_every=20
    )
    centre = next(row for row in found if (row["model"], row["a"], row["b"]) == ("attention", 0, 0))
    assert centre["height"] == pytest.approx(history.losses[-1])


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


def test_the_page_says_how_far_the_loss_rises():
    rows = [
        POINT | {"directions": kind, "reach": 0.5, "seed": 0} | row
        for kind in ("random", "hessian") for row in measure(**POINT, directions=kind, reach=0.5, seed=2)
    ]  # fmt: skip
    page = make_page(rows, rows)
    surface = [row["height"] for row in rows if (row["directions"], row["model"]) == ("hessian", "relu")]
    assert f"{surface[4]:.3g} at the trained weights to {max(surface):.3g}" in page.answer[0]
    assert [len(picture.figure["data"][0]["z"]) for picture in page.sections[0].pictures] == [3] * 4


@pytest.mark.parametrize("preset", STUDY.presets)
def test_presets(preset):
    assert len(STUDY.tasks(preset)) == len(STUDY.presets[preset])
