"""From a state to a regression: what is given to the transformer, and what is shown of it."""

import numpy as np
import pytest
import torch

from ridgeformer.core.errors import InputError
from ridgeformer.views.explorer.data import FUNCTIONS, HARMONICS, lift, pose
from ridgeformer.views.explorer.state import DRAWN, State


def test_features_of_a_line_are_a_fejer_kernel_of_the_distance():
    x = np.linspace(-1, 1, 15)
    phi = lift(x)
    gap = (x[:, None] - x[None, :]) * np.pi / 2
    n = HARMONICS + 1
    with np.errstate(invalid="ignore"):
        fejer = np.where(np.isclose(np.sin(gap / 2), 0), 1.0, (np.sin(n * gap / 2) / np.sin(gap / 2) / n) ** 2)
    assert np.allclose((phi @ phi.T).numpy(), fejer, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_toy_points_lie_near_their_function(name):
    task = pose(State(data=name, rows=100))
    assert task.X.shape == (100, 2 * HARMONICS + 1)
    assert (np.diff(task.x) >= 0).all()
    noise = task.targets - FUNCTIONS[name](task.x)
    assert 0.05 < noise.std() < 0.15
    assert abs(float(task.y.mean())) < 1e-12
    assert np.array_equal(task.truth, FUNCTIONS[name](task.grid))


def test_more_rows_keep_the_first_ones():
    few, many = pose(State(rows=10)), pose(State(rows=30))
    assert set(np.round(few.x, 12)) < set(np.round(many.x, 12))


def test_drawn_points_are_given_as_drawn():
    task = pose(State(data=DRAWN, points=((0.5, 2.0), (-3.0, 1.0), (0.0, 0.0))))
    assert task.x.tolist() == [-3.0, 0.0, 0.5]
    assert task.targets.tolist() == pytest.approx([1.0, 0.0, 2.0])
    assert task.grid[0] < -3.0 < 3.0 < task.grid[-1]
    assert task.truth is None


@pytest.mark.parametrize(("points", "said"), [((), "no points"), (((0.0, 0.0),), "is 1 point")])
def test_too_few_drawn_points_are_refused(points, said):
    with pytest.raises(InputError, match=said):
        pose(State(data=DRAWN, points=points))


@pytest.mark.parametrize(("name", "rows", "outputs"), [("digits", 200, 10), ("wine", 90, 3), ("diabetes", 50, 1)])
def test_embedded_data_are_one_output_of_held_out_rows(name, rows, outputs):
    task = pose(State(data=name, rows=rows))
    assert len(task.X) == len(task.labels) == rows
    assert len(task.Xq) == 50
    assert len(task.outputs) == outputs
    assert not task.line
    assert abs(float(task.y.mean())) < 1e-9
    assert task.truth.shape == (50,)
    if outputs > 1:
        assert set(task.truth) <= {-1.0, 1.0}
    if name == "digits":
        assert torch.allclose(task.X.square().sum(1), torch.ones(rows, dtype=torch.float64))


def test_every_class_can_be_asked_for_and_no_other():
    counts = [(pose(State(data="wine", output=j)).targets > 0).sum() for j in range(3)]
    assert sum(counts) == len(pose(State(data="wine")).X)
    with pytest.raises(InputError, match="no output 3"):
        pose(State(data="wine", output=3))
