import pytest
import torch
from torch import nn

from ridgeformer.regime import Architecture, empirical_ntk
from ridgeformer.regime.curvature import tangent_norm
from ridgeformer.seeds import torch_generator


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
