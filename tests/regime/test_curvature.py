from itertools import pairwise

import pytest
import torch
from torch import nn

from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split, load
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import Architecture, Training, empirical_ntk, train
from ridgeformer.regime.curvature import stable_rate, tangent_norm


@pytest.mark.parametrize("name", ["relu", "mlp-attn", "qkv"])
def test_it_is_the_largest_eigenvalue_of_the_full_kernel(name):
    X = torch.randn(8, 5, generator=torch_generator(0, "rows"), dtype=torch.float64)
    built = Architecture(name, scale=1.0).build(X, 32, 3, torch_generator(0, "weights"))
    rows = built.features(X)
    K = empirical_ntk(built.model, rows, outputs="full").reshape(24, 24)
    found = tangent_norm(built.model, rows, torch_generator(0, "power"), steps=200)
    assert found == pytest.approx(float(torch.linalg.eigvalsh(K)[-1]), rel=1e-3)


def test_a_dead_network_has_none():
    silent = nn.Sequential(nn.Linear(2, 3), nn.Threshold(1e9, 0.0), nn.Linear(3, 1, bias=False)).double()
    assert tangent_norm(silent, torch.ones(2, 2, dtype=torch.float64), torch_generator(0, "power")) == 0.0


def test_the_rate_is_stable_and_close_to_where_it_is_not():
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0)
    largest = float(torch.linalg.eigvalsh(ReluNTK()(problem.X))[-1])
    rate = stable_rate(largest, problem.y, "mse")
    assert rate * 2 / problem.y.numel() * largest == pytest.approx(1)  # gradient descent diverges from 2 on
    assert stable_rate(0.0, problem.y, "mse") == 1.0


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_at_the_stable_rate_the_loss_of_a_wide_network_falls(loss):
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0)
    built = Architecture("relu", scale=1.0).build(problem.X, 512, 10, torch_generator(0, "weights"))
    rate = stable_rate(tangent_norm(built.model, problem.X, torch_generator(0, "power")), problem.y, loss)
    how = Training("descent", loss, rate=rate, epochs=20, l2=0.0)
    losses = train(built.model, problem.X, problem.y, how, torch_generator(0, "batches")).losses
    assert all(after < before for before, after in pairwise(losses))
