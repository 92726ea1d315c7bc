import json
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split, load
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import (
    Architecture,
    CustomArchitecture,
    Training,
    empirical_ntk,
    linearised_predictions,
    measure,
    train,
)

UNIT = Architecture("relu", scale=1.0)
DESCENT = Training("descent", rate=1.0, epochs=60, l2=0.0)


@pytest.fixture(scope="module")
def problem():
    return Split.for_networks(load("digits"), rows=40, test_rows=30, seed=0, classes=("3", "8"))


@pytest.fixture(scope="module")
def three():
    return Split.for_networks(load("digits"), rows=40, test_rows=30, seed=0, classes=("1", "3", "8"))


def test_wide_networks_are_kernel_machines(problem):
    """Distances to the limit at the same time, drift and movement fall about as 1/sqrt(m) at unit initialisation."""
    found = [[measure(problem, UNIT, DESCENT, width=width, seed=seed) for seed in range(3)] for width in (16, 1024)]
    for value in (
        lambda one: one.to_ntk.relative,
        lambda one: one.to_linearised.relative,
        lambda one: one.kernel_drift,
        lambda one: one.weight_movement,
        lambda one: one.kernel_start.frobenius,
    ):
        narrow, wide = (sum(value(one) for one in ones) / 3 for ones in found)
        assert 3 < narrow / wide < 24  # 8 is sqrt(1024/16)


def test_a_penalty_takes_every_width_out_of_the_kernel_regime(problem):
    """L2 forgets the initial weights as e^(-l2 t): after l2 t = 10 they are gone and the kernel has moved for good."""
    how = Training("descent", rate=2.0, epochs=250, l2=0.02)
    narrow, wide = (measure(problem, UNIT, how, width=m, seed=0, linearise=False) for m in (32, 2048))
    assert min(narrow.weight_movement, wide.weight_movement) > 0.99
    assert wide.kernel_drift > narrow.kernel_drift / 4 > 0.01
    assert wide.to_ntk.relative > 0.1
    assert wide.ridge == pytest.approx(0.02 * 40 / 2)


def test_with_a_short_penalty_the_kernel_predictor_still_holds(problem):
    how = Training("descent", rate=1.0, epochs=30, l2=0.002)
    narrow, wide = (measure(problem, UNIT, how, width=m, seed=0, linearise=False) for m in (32, 2048))
    assert wide.to_ntk.relative < 0.04 < narrow.to_ntk.relative


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
@pytest.mark.parametrize("method", ["descent", "flow"])
def test_kernel_predictor_at_the_same_time_follows_the_loss(three, method, loss):
    """A wide network is near its predictor at that time and far from where training ends."""
    how = Training(method, loss, rate=1.0, epochs=20, l2=0.0)
    wide = measure(three, UNIT, how, width=4096, seed=0, ridge=1e-3, linearise=False)
    assert wide.to_ntk.relative < 0.2 < wide.to_ridge.relative


def test_linearised_distance_is_against_the_expansion_trained_alike(problem):
    """Under descent the expansion has its closed form with the kernel at initialisation."""
    found = measure(problem, Architecture("mlp-attn", scale=1.0), DESCENT, width=64, seed=1)
    built = Architecture("mlp-attn", scale=1.0).build(problem.X, 64, 1, torch_generator(1, "regime.network", 64))
    rows = torch.cat([built.features(problem.X), built.features(problem.Xt)])
    K, start = empirical_ntk(built.model, rows), built.model(rows).detach()
    predictor = linearised_predictions(
        K[:40, :40], K[40:, :40], problem.y, start=start[:40], start_query=start[40:], time=60, rate=1.0, scale=2 / 40
    )
    train(built.model, rows[:40], problem.y, DESCENT, torch_generator(1, "regime.batches"))
    gap = float((built.model(rows[40:]).detach() - predictor).norm())
    assert found.to_linearised.absolute == pytest.approx(gap, rel=1e-6)
    assert found.kernel_start.frobenius == pytest.approx(
        float((K[:40, :40] - ReluNTK()(rows[:40])).norm() / ReluNTK()(rows[:40]).norm())
    )


def test_published_training_has_no_kernel_counterpart_but_a_linearised_one(three):
    how = Training(loss="cross_entropy", epochs=3, batch=16)
    found = measure(three, Architecture("mlp-attn"), how, width=32, seed=0)
    assert found.to_ntk is None
    assert found.to_linearised.absolute >= 0
    assert found.steps == 9
    assert found.output_norm > 0
    assert json.loads(json.dumps(asdict(found)))["kernel_start"]["frobenius"] == found.kernel_start.frobenius


def test_small_initialisation_moves_more(problem):
    small = measure(problem, Architecture("relu", scale=0.01), DESCENT, width=256, seed=0, linearise=False)
    unit = measure(problem, UNIT, DESCENT, width=256, seed=0, linearise=False)
    assert small.weight_movement > 10 * unit.weight_movement
    assert small.kernel_drift > unit.kernel_drift
    assert small.kernel_start == unit.kernel_start  # the kernel depends on directions only


def test_repeats_itself(problem):
    how = Training(epochs=2, batch=16)
    assert measure(problem, UNIT, how, width=16, seed=3) == measure(problem, UNIT, how, width=16, seed=3)
    assert measure(problem, UNIT, how, width=16, seed=3) != measure(problem, UNIT, how, width=16, seed=4)


@pytest.mark.parametrize("options", [{}, {"heads": 2, "tied": True, "layer_norm": True}, {"layers": 2}])
def test_trained_attention_is_measured_against_its_own_kernel(problem, options):
    how = Training("descent", rate=0.05, epochs=5, l2=0.0)
    found = measure(problem, Architecture("qkv", head_width=3, **options), how, width=16, seed=0)
    assert (found.kernel_start, found.to_ntk, found.dead_share) == (None, None, None)
    assert found.to_ridge.absolute > 0
    assert 0 < found.to_linearised.relative < 1
    assert 0 < found.kernel_drift < 1


def test_a_network_of_your_own(problem):
    mine = CustomArchitecture(lambda d, c, m: nn.Sequential(nn.Linear(d, m), nn.Tanh(), nn.Linear(m, c)))
    found = measure(problem, mine, Training("descent", rate=0.1, epochs=50), width=20, seed=0)
    assert found.train_error < 0.5
    flat = CustomArchitecture(lambda d, c, m: nn.Sequential(nn.Linear(d, c), nn.Flatten(0)))
    with pytest.raises(ShapeError, match=r"\(rows, outputs\) was expected"):
        measure(problem, flat, DESCENT, width=20, seed=0)


def test_dead_networks_are_reported():
    """Nearly parallel rows and one neuron: it is active on all of them or on none."""
    rows = torch.tensor([[1.0, 1e-3 * k] for k in range(4)], dtype=torch.float64)
    y = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]], dtype=torch.float64)
    split = Split.for_networks(load("digits"), rows=4, test_rows=4, classes=("3", "8"))
    problem = replace(split, X=rows, Xt=rows, y=y, yt=y)
    found = [measure(problem, UNIT, Training(epochs=2), width=1, seed=seed) for seed in range(12)]
    assert {one.dead for one in found} == {True, False}
    for one in found:
        assert one.dead == (one.dead_share == 1.0)
        assert (one.kernel_drift is None) == (one.dead and one.weight_movement is not None and one.output_norm == 0.0)


def test_divergence_is_reported_and_leaves_no_figures(problem):
    how = Training("flow", rate=1e4, epochs=400, l2=1.0)
    found = measure(problem, UNIT, how, width=8, seed=0)
    assert found.diverged
    assert (found.to_ridge, found.test_error, found.kernel_end) == (None, None, None)


def test_refuses_a_rate_at_which_the_limit_diverges(problem):
    with pytest.raises(InputError, match="take a rate below"):
        measure(problem, UNIT, Training("descent", rate=100.0, epochs=5), width=8, seed=0)


def test_says_how_much_memory_is_needed_before_starting(problem, monkeypatch):
    monkeypatch.setattr("ridgeformer.core.memory.free_bytes", lambda: 10**9)
    with pytest.raises(InputError, match=r"width 10,000,000 on 40 rows of 64 features needs about 40\.3 GB"):
        measure(problem, UNIT, DESCENT, width=10**7, seed=0)
    with pytest.raises(InputError, match=r"needs about 22\.7 GB"):
        measure(problem, UNIT, DESCENT, width=10**7, seed=0, dtype=torch.float32)
