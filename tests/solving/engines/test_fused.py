import pytest
import torch

from ridgeformer.core.compiled import compiled
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.solving.engines import fused

pytestmark = pytest.mark.skipif(not compiled(), reason="Numba is not there")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 3, 4, 70])
@pytest.mark.parametrize("kernel", [Exponential(0.5, log_scale=3.0), Gaussian(0.1)], ids=["exponential", "gaussian"])
def test_both_products_are_those_of_the_dense_matrix(kernel, rows, dtype, monkeypatch):
    monkeypatch.setattr(fused, "TASK", 30)
    draw = torch_generator(0, "fused")
    X, Z, P, y = (torch.randn(*shape, generator=draw).double() for shape in ((rows, 7), (600, 7), (600, 2), (rows, 2)))
    K = kernel(X, Z)
    u, back = fused.FusedRows(kernel, Z, dtype).multiply(X, P, None)
    left, pulled = fused.FusedRows(kernel, Z, dtype).multiply(X, P, y)
    logits = 2 * float(kernel.own_logits(torch.cat([X, Z])).max())  # an entry errs by the rounding of its logit
    eps = 4 * (10 + logits) * torch.finfo(dtype).eps
    size, floor = K.abs() @ P.abs(), 1e4 * torch.finfo(dtype).tiny  # entries below the normal range are lost
    assert bool(((u - K @ P).abs() <= eps * size + floor).all())
    assert bool(((left - (y - K @ P)).abs() <= eps * (size + y.abs()) + floor).all())
    assert bool(((back - K.T @ (K @ P)).abs() <= eps * (K.T @ size) + floor).all())
    assert bool(((pulled - K.T @ (y - K @ P)).abs() <= eps * (K.T @ (size + y.abs())) + floor).all())


def test_entries_far_below_the_range_are_zero():
    u, _ = fused.FusedRows(Gaussian(1e-4), torch.zeros(1, 1), torch.float32).multiply(
        torch.ones(1, 1), torch.ones(1, 1).double(), None
    )
    assert 0 <= float(u) < 1e-37
