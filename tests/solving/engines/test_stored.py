import pytest
import torch

from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.solving.engines import Stored
from ridgeformer.solving.engines.stored import assemble
from tests.solving.engines.engine_case import EngineCase, columns, rows, small_tiles  # noqa: F401


class TestStored(EngineCase):
    def build(self, X, working):
        return Stored(self.kernel, X, working)


class TestStoredOfTheGaussianKernel(TestStored):
    kernel = Gaussian(0.7)


class TestStoredWithTheFloat64Matrix(EngineCase):
    def build(self, X, working):
        return Stored(self.kernel, X, working, exact=True)


@pytest.mark.usefixtures("small_tiles")
def test_the_assembled_matrix_is_symmetric_and_each_entry_rounded_once():
    X = rows()
    K = assemble(Exponential(0.7), X, torch.float64, torch.float32)
    assert torch.equal(K, K.T)
    torch.testing.assert_close(K, Exponential(0.7)(X).float(), rtol=6e-8, atol=0.0)


def test_entries_rounded_from_float64_shift_a_product_less_than_float32_entries_do():
    X, V = 2 * rows(n=400, d=200), columns(n=400)
    exact = Exponential(0.7)(X) @ V
    rounded = Stored(Exponential(0.7), X, torch.float32).accurate(V)
    coarse = Exponential(0.7)(X.float()).double() @ V
    assert float((rounded - exact).norm()) < float((coarse - exact).norm()) / 2


def test_the_float64_matrix_is_held_only_on_request():
    assert Stored(Exponential(0.7), rows(), torch.float32).exact is None
    assert Stored(Exponential(0.7), rows(), torch.float32, exact=True).exact.dtype == torch.float64
    engine = Stored(Exponential(0.7), rows(), torch.float64)
    assert engine.exact is engine.K
