import numpy as np
import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.compiled import compiled
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, Gaussian
from ridgeformer.solving.engines import Fused, build_engine, fused
from tests.solving.engines.engine_case import EngineCase, columns, rows, small_tiles  # noqa: F401

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


def test_columns_beyond_float32_are_infinite_without_a_warning():
    u, _ = fused.FusedRows(Gaussian(1.0), torch.zeros(1, 1), torch.float32).multiply(
        torch.zeros(1, 1), torch.full((1, 1), 1e60, dtype=torch.float64), None
    )
    assert float(u) == float("inf")


class TestFused(EngineCase):
    @pytest.fixture(autouse=True)
    def few_at_a_time(self, monkeypatch):
        monkeypatch.setattr(fused, "STRETCH", 30)  # three tiles, the last cut off

    def build(self, X, working):
        return Fused(self.kernel, X, working)


class TestFusedOfAGaussianKernelWithAProjection(TestFused):
    kernel = Gaussian(0.7, projection=torch.eye(5)[:3].double())


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kernel", [Exponential(0.5), Gaussian(0.1)], ids=["exponential", "gaussian"])
def test_entries_in_float64_err_by_no_more_than_the_bounds_allow(kernel, size):
    """Against 64-bit significands: the bound of the kernel's own evaluation, and the engine's units beyond it."""
    X = size * torch.nn.functional.normalize(rows(40, 3), dim=1)
    kernel = kernel.within_range(X)
    engine = Fused(kernel, X, torch.float64)
    found = engine.matmat64(torch.eye(40, dtype=torch.float64)).numpy().astype(np.longdouble)
    wide, tau = X.numpy().astype(np.longdouble), np.longdouble(kernel.temperature)
    if isinstance(kernel, Gaussian):
        logits = -((wide[:, None] - wide[None]) ** 2).sum(-1) / (2 * tau)
    else:
        logits = wide @ wide.T / tau - np.longdouble(kernel.log_scale)
    exact = np.exp(logits)
    w, roots = kernel.entry_error(X).numpy(), kernel.roots(X).numpy()
    allowed = np.outer(w, w) + engine.rounding * 2.0**-53 * np.outer(roots, roots)
    assert bool((abs(found - exact) <= allowed).all())
    assert float((abs(found - exact) / allowed).max()) > 1e-3  # and the bound is not an idle one


def test_other_kernels_and_wide_rows_are_refused():
    with pytest.raises(errors.InputError, match="needs an exponential or Gaussian kernel"):
        build_engine("fused", DotProduct(), rows(), torch.float32)
    with pytest.raises(errors.InputError, match="at most 128 features; these 129"):
        Fused(Gaussian(1.0), torch.zeros(3, 129), torch.float32)


def test_rows_that_a_thread_takes_and_their_number_change_nothing():
    X, V = rows(200, 4), columns(200)
    engine, threads = Fused(Gaussian(0.7), X, torch.float32), torch.get_num_threads()
    try:
        found = []
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(engine.matmat(V))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)
