import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving.engines import thin
from ridgeformer.solving.engines.thin import THIN, thin_product, transposed_thin_product


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 2, 10, THIN, THIN + 1])
def test_thin_products_are_products(dtype, count):
    generator = torch_generator(0, "thin")
    K = torch.randn(37, 53, generator=generator, dtype=dtype)
    V, W = (
        torch.randn(53, count, generator=generator, dtype=dtype),
        torch.randn(37, count, generator=generator, dtype=dtype),
    )
    torch.testing.assert_close(thin_product(K, V), K @ V, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(transposed_thin_product(K, W), K.T @ W, rtol=1e-4, atol=1e-4)


def test_without_onednn_the_product_is_the_same(monkeypatch):
    K, V = torch.rand(20, 30, generator=torch_generator(0, "K")), torch.rand(30, 4, generator=torch_generator(0, "V"))
    with_it = thin_product(K, V)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    torch.testing.assert_close(thin_product(K, V), with_it)


def test_views_that_are_not_contiguous():
    K = torch.rand(40, 40, generator=torch_generator(0, "K"))
    V = torch.rand(3, 20, generator=torch_generator(0, "V")).T
    part = K[5:25, 10:30]
    torch.testing.assert_close(thin_product(part, V), part @ V)
    torch.testing.assert_close(transposed_thin_product(part, V), part.T @ V)


@pytest.mark.parametrize("rows", [7, 256, 600])
@pytest.mark.parametrize("columns", [1, 10, 100])
def test_a_wide_matrix_used_transposed_by_strips_gives_the_same(rows, columns):
    generator = torch.Generator().manual_seed(0)
    K = torch.randn(rows, thin.WIDE + 5, generator=generator)
    V = torch.randn(rows, columns, generator=generator)
    expected = K.double().T @ V.double()
    found = thin.transposed_thin_product(K, V)
    assert float((found.double() - expected).norm()) <= 1e-6 * float(expected.norm())
