import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.solving.engines import Attention
from ridgeformer.solving.engines.attention import attention_product
from tests.solving.engines.engine_case import EngineCase, columns, rows, small_tiles  # noqa: F401


class TestAttention(EngineCase):
    def build(self, X, working):
        return Attention(self.kernel, X, working)


class TestAttentionOfTheGaussianKernel(TestAttention):
    kernel = Gaussian(0.7)


@pytest.mark.parametrize("count", [1, 15, 16, 40])
@pytest.mark.parametrize("log_scale", [0.0, -2.0, 3.0])
def test_any_number_of_columns_and_any_scale(count, log_scale):
    X, V, kernel = rows(), columns(count=count), Exponential(0.5, log_scale=log_scale)
    torch.testing.assert_close(attention_product(kernel, X, V), kernel(X) @ V)


def test_a_projection_is_applied():
    X, V = rows(), columns()
    kernel = Exponential(0.5, projection=torch.randn(2, 5, generator=torch_generator(0, "U"), dtype=torch.float64))
    torch.testing.assert_close(attention_product(kernel, X, V), kernel(X) @ V)


def test_logits_far_beyond_the_range_of_exp_need_only_be_near_the_scale():
    """exp(400) overflows float32; the sink has the logit of the scale, so that the row sum stays of order one."""
    X = 20 * torch.nn.functional.normalize(rows(dtype=torch.float32), dim=1)
    kernel = Exponential(1.0, log_scale=400.0)
    exact = kernel(X.double()) @ columns()
    found = attention_product(kernel, X, columns().float())
    assert float((found.double() - exact).norm() / exact.norm()) < 1e-3
