"""Networks followed along their training: the fast path against `train`, and distances against `measure`."""

import pytest
import torch

from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split, load
from ridgeformer.regime import Architecture, ReluNetwork, Training, descend, follow_training, train
from ridgeformer.regime import along as module


@pytest.fixture(scope="module")
def problem():
    return Split.for_networks(load("digits"), rows=30, test_rows=20, seed=0, classes=("3", "8"))


@pytest.fixture(scope="module")
def ten_classes():
    return Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0)


def network(problem, width=37):
    return ReluNetwork(problem.X.shape[1], width, torch_generator(0, "weights"), outputs=problem.y.shape[1], scale=1.0)


@pytest.mark.parametrize("which", ["problem", "ten_classes"])
@pytest.mark.parametrize("block", [8, 2048])
def test_descent_in_the_span_is_training(which, block, request, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    task = request.getfixturevalue(which)
    stages = list(descend(network(task), task.X, task.y, task.Xt, [1, 7, 50], 2.0))
    assert [stage.steps for stage in stages] == [0, 1, 7, 50]
    for stage in stages:
        slow = network(task)
        how = Training("descent", rate=2.0, epochs=stage.steps, l2=0.0)
        train(slow, task.X, task.y, how, torch_generator(0, "batches"))
        with torch.no_grad():
            torch.testing.assert_close(stage.fitted, slow(task.X))
            torch.testing.assert_close(stage.outputs, slow(task.Xt))
            assert torch.equal(stage.active, (slow.weights @ task.X.T > 0).to(stage.active))


def test_the_network_given_is_left_alone(problem):
    start = network(problem)
    before = start.weights.detach().clone()
    list(descend(start, problem.X, problem.y, problem.Xt, [5], 1.0))
    assert torch.equal(start.weights, before)


@pytest.mark.parametrize("name", ["relu", "mlp-attn"])
def test_wide_networks_follow_their_kernel_for_a_short_time(problem, name):
    narrow, wide = (
        follow_training(problem, Architecture(name, scale=1.0), width=m, seed=0, lengths=[1, 10]) for m in (32, 30_000)
    )
    assert [one.steps for one in wide] == [1, 10]
    assert wide[1].relative < narrow[1].relative / 3
    assert wide[1].rms < narrow[1].rms / 3
    assert wide[1].kernel_drift < narrow[1].kernel_drift
    assert wide[1].kernel_start < narrow[1].kernel_start
    assert wide[1].train_loss == pytest.approx(wide[1].limit_train_loss, rel=0.05)


def test_the_two_normalisations_and_the_errors_fit_together(problem):
    (found,) = follow_training(problem, Architecture("relu", scale=1.0), width=512, seed=0, lengths=[300])
    assert found.train_error == 0
    assert found.limit_train_loss < found.train_loss < 0.05
    assert 0.5 < found.rms / found.relative < 1.5  # targets and predictions are of size one


def test_float32_follows_the_same_path(problem):
    single, double = (
        follow_training(problem, Architecture("mlp-attn", scale=1.0), width=256, seed=1, lengths=[200], dtype=dtype)[0]
        for dtype in (torch.float32, torch.float64)
    )
    assert single.relative == pytest.approx(double.relative, rel=1e-3)


@pytest.mark.parametrize("lengths", [[], [5, 5], [7, 3]])
def test_lengths_rise(problem, lengths):
    with pytest.raises(InputError, match="rising numbers were expected"):
        list(descend(network(problem), problem.X, problem.y, problem.Xt, lengths, 1.0))


def test_refuses_what_has_no_limit(problem):
    with pytest.raises(InputError, match="no limit in closed form"):
        follow_training(problem, Architecture("qkv"), width=8, seed=0, lengths=[1])
