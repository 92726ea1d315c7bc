import math

import numpy as np
import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import ReluNTK
from tests.kernels.kernel_case import KernelCase


def angle(x, z):
    """Kahan's formula: accurate at every angle, where arccos of a cosine is not."""
    u, v = x / np.linalg.norm(x), z / np.linalg.norm(z)
    return 2 * math.atan2(np.linalg.norm(u - v), np.linalg.norm(u + v))


class TestFirstLayer(KernelCase):
    def kernel(self):
        return ReluNTK()

    def formula(self, x, z):
        return np.dot(x, z) * (math.pi - angle(x, z)) / (2 * math.pi)


class TestBothLayers(KernelCase):
    def kernel(self):
        return ReluNTK(both_layers=True)

    def formula(self, x, z):
        t, lengths = angle(x, z), np.linalg.norm(x) * np.linalg.norm(z)
        return lengths * (2 * math.cos(t) * (math.pi - t) + math.sin(t)) / (2 * math.pi)


@pytest.mark.parametrize("both", [False, True])
def test_is_the_limit_of_wide_networks(both):
    """The tangent kernel of a network of 2e6 neurons, from its own gradients, is within 3 sampling errors."""
    generator = torch_generator(0, "neurons")
    X = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    H = torch.randn(2_000_000, 3, generator=generator, dtype=torch.float64) @ X.T
    active, hidden = (H > 0).double(), H.clamp_min(0)
    finite = (X @ X.T) * (active.T @ active) / len(H) + (hidden.T @ hidden / len(H) if both else 0)
    assert float((finite - ReluNTK(both_layers=both)(X)).abs().max()) < 3e-3 * float(finite.max())


def test_equal_and_opposite_rows_are_exact():
    x = torch.randn(1, 300, generator=torch_generator(0, "row"), dtype=torch.float64)
    K = ReluNTK()(torch.cat([x, x, -x, 2 * x]))
    half = float(x.square().sum()) / 2
    expected = half * torch.tensor([[1, 1, 0, 2], [1, 1, 0, 2], [0, 0, 1, 0], [2, 2, 0, 4]], dtype=torch.float64)
    torch.testing.assert_close(K, expected, rtol=1e-14, atol=0.0)


def test_zero_rows_give_zero_with_finite_gradient():
    X = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    K = ReluNTK(both_layers=True)(X)
    assert K[0].abs().max() == 0
    (gradient,) = torch.autograd.grad(K.sum(), X)
    assert bool(torch.isfinite(gradient).all())


def test_float32_rows_keep_full_accuracy_at_small_angles():
    """arccos in float32 would be wrong by 3e-4 here."""
    X = torch.tensor([[1.0, 0.0], [1.0, 1e-4]], dtype=torch.float32)
    x, z = X.double().numpy()
    expected = np.dot(x, z) * (math.pi - angle(x, z)) / (2 * math.pi)
    assert abs(ReluNTK()(X)[0, 1].item() - expected) < 1e-7
