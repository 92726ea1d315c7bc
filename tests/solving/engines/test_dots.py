import numpy as np
import pytest
import torch

from ridgeformer.core.compiled import compiled
from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving.engines import dots as dots_module
from ridgeformer.solving.engines.dots import COMPILED_PRICE, PANEL_PRICE, PRICE, WORTH, Dots, add_sparse
from tests.solving.engines.engine_case import rows

N, SIZE = 100, 30


@pytest.fixture(params=["libraries", "compiled", "packed"], autouse=True)
def way(request, monkeypatch):
    """Every way to a product, whatever the size and the processor."""
    monkeypatch.setattr(dots_module, "worthwhile", lambda n: request.param != "libraries")
    monkeypatch.setattr(dots_module, "uses_wide_vectors", lambda: request.param == "packed")
    if request.param != "libraries" and not compiled():
        pytest.skip("Numba is not there")
    return request.param


def with_sparse(count, share, dtype=torch.float64):
    """Twenty dense features, then `count` features that are nonzero in a fraction `share` of the rows."""
    there = torch.rand(N, count, generator=torch_generator(0, "there")) < share
    values = torch.randn(N, count, generator=torch_generator(0, "values"), dtype=torch.float64)
    return torch.cat([rows(n=N, d=20), values * there], dim=1).to(dtype)


def filled(X):
    dots, tiles = Dots(X, SIZE), {}
    for start in range(0, N, SIZE):
        for begin in range(0, N, SIZE):
            tile = np.full((min(SIZE, N - start), min(SIZE, N - begin)), np.nan, dtype=X.numpy().dtype)
            dots.fill(tile, start, begin)
            tiles[start, begin] = torch.from_numpy(tile)
    return dots, torch.cat([torch.cat([tiles[a, b] for b in range(0, N, SIZE)], 1) for a in range(0, N, SIZE)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 1.0], ids=["zero", "sparse", "less sparse", "dense"])
def test_every_tile_holds_the_dot_products_of_its_rows(share, dtype):
    X = with_sparse(200, share, dtype)
    _, found = filled(X)
    expected = X.double() @ X.double().T
    assert float((found - expected).abs().max()) <= 220 * torch.finfo(dtype).eps * float(expected.max())


def test_features_that_few_rows_have_are_multiplied_as_sparse_ones_and_no_others(way):
    price = {"libraries": PRICE, "compiled": COMPILED_PRICE, "packed": PANEL_PRICE}[way]
    X = with_sparse(200, 0.02)
    share = (X != 0).double().mean(0)
    dots, _ = filled(X)
    assert dots.sparse == int((share <= 1 / price).sum()) > WORTH
    kept = {panels.shape[1] for panels in dots.panels} if way == "packed" else {dots.dense.shape[1]}
    assert kept == {220 - dots.sparse}


@pytest.mark.parametrize(("count", "share"), [(WORTH // 2, 0.02), (200, 0.5)], ids=["too few of them", "none"])
def test_rows_are_not_copied_where_it_would_not_pay(count, share, way):
    X = with_sparse(count, share)
    dots, _ = filled(X)
    assert dots.sparse == 0
    assert way == "packed" or np.shares_memory(dots.dense, X.numpy())


def test_rows_are_not_looked_through_where_they_are_not_to_be(way):
    X = with_sparse(200, 0.02)
    dots = Dots(X, SIZE, sparse=False)
    assert dots.sparse == 0
    assert way == "packed" or np.shares_memory(dots.dense, X.numpy())


def test_rows_that_take_much_memory_are_not_packed(monkeypatch):
    X = with_sparse(200, 0.02)
    monkeypatch.setattr(dots_module, "PACKED_BYTES", X.nbytes - 1)
    assert np.shares_memory(Dots(X, SIZE, sparse=False).dense, X.numpy())


def test_what_is_not_a_number_is_not_hidden_by_being_sparse():
    X = with_sparse(200, 0.0)
    X[7, 100] = float("nan")
    _, found = filled(X)
    assert bool(found[7].isnan().all())
    assert not bool(found[8, :7].isnan().any())


def test_rows_are_left_as_they_are():
    X = with_sparse(200, 0.02)
    before = X.clone()
    filled(X)
    assert torch.equal(X, before)


def test_the_function_that_is_compiled_in_plain_python():
    from scipy.sparse import csr_array

    left, right = with_sparse(30, 0.3)[:7].numpy(), np.random.default_rng(0).standard_normal((50, 4))
    sparse, out = csr_array(left), np.ones((7, 4))
    add_sparse(sparse.indptr, sparse.indices, sparse.data, right, out)
    np.testing.assert_allclose(out, 1 + left @ right)
