import pytest
import torch

from ridgeformer.core import products
from ridgeformer.core.products import STRIP, THIN, add_product, product, thin_product, transposed_thin_product
from ridgeformer.core.seeds import torch_generator


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
    K = torch.randn(rows, products.WIDE + 5, generator=generator)
    V = torch.randn(rows, columns, generator=generator)
    expected = K.double().T @ V.double()
    found = products.transposed_thin_product(K, V)
    assert float((found.double() - expected).norm()) <= 1e-6 * float(expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", ["rows", "columns", "part"])
def test_products_are_right_in_any_order_of_memory(dtype, order):
    generator = torch_generator(0, "products")
    A, B = (torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((70, 90), (90, 60)))
    A, B = {"rows": (A, B), "columns": (A.T.contiguous().T, B.T.contiguous().T), "part": (A[5:, 3:50], B[3:50, 7:])}[
        order
    ]
    exact, scale = A.double() @ B.double(), float(A.double().norm() * B.double().norm())
    assert float((product(A, B) - exact).abs().max()) <= torch.finfo(dtype).eps * scale
    C = torch.randn(len(A), B.shape[1], generator=generator, dtype=dtype)
    added = C.clone()
    add_product(added, A, B, alpha=-2.0)
    assert float((added - (C - 2 * exact)).abs().max()) <= 4 * torch.finfo(dtype).eps * (1 + scale)


@pytest.mark.parametrize("held", [1, 3 * STRIP, 2**22])
@pytest.mark.parametrize("n", [1, STRIP, 2 * STRIP + 3])
def test_of_a_symmetric_product_the_lower_triangle_is_added(n, held, monkeypatch):
    monkeypatch.setattr(products, "HELD", held)
    A = torch.randn(n, 20, generator=torch_generator(0, "lower"))
    whole = torch.randn(2 * n, 2 * n, generator=torch_generator(1, "lower"))
    C, before = whole[:n, n:], whole.clone()
    add_product(C, A, A.T, alpha=0.5, lower=True)
    expected = before[:n, n:] + 0.5 * (A @ A.T)
    torch.testing.assert_close(C.tril(), expected.tril(), rtol=1e-4, atol=1e-4)
    assert torch.equal(whole[n:], before[n:])
    assert torch.equal(whole[:, :n], before[:, :n])


def test_products_without_rows_or_columns_are_empty_or_zero():
    empty = torch.zeros(0, 3)
    assert product(empty, torch.ones(3, 2)).shape == (0, 2)
    assert torch.equal(product(torch.ones(2, 0), torch.ones(0, 2)), torch.zeros(2, 2))
    C = torch.ones(2, 2)
    add_product(C, torch.ones(2, 0), torch.ones(0, 2))
    assert torch.equal(C, torch.ones(2, 2))
