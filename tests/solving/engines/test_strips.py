import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving.engines import strips
from ridgeformer.solving.engines.strips import UNIT, symmetric_rows

SIZE, COUNT = UNIT, 3


@pytest.fixture(params=["compiled", "torch"], autouse=True)
def way(request, monkeypatch):
    """Both ways to a product, whatever the size of the matrix."""
    monkeypatch.setattr(strips, "worthwhile", lambda n: request.param == "compiled")
    if request.param == "torch":
        monkeypatch.setattr(strips, "compile_it", lambda _: pytest.fail("compiled where it was not to be"))
    return request.param


def matrix(dtype=torch.float32):
    n = SIZE * COUNT
    K = torch.randn(n, n, generator=torch_generator(0, "K"), dtype=torch.float64).to(dtype)
    return K + K.T


def by_rows(K):
    tiles = K.unflatten(0, (COUNT, SIZE)).unflatten(2, (COUNT, SIZE)).transpose(1, 2)
    return [tiles[i, : i + 1].contiguous() for i in range(COUNT)]


def by_tiles(V):
    return V.unflatten(0, (COUNT, SIZE)).transpose(1, 2).contiguous()


def columns(count, dtype=torch.float32):
    V = torch.randn(SIZE * COUNT, count, generator=torch_generator(1, "V"), dtype=torch.float64)
    return V.to(dtype)


def joined(result):
    return result.transpose(1, 2).flatten(0, 1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_it_is_the_product_with_the_whole_matrix(count, dtype, error):
    K, V = matrix(), columns(count, dtype)
    found = joined(symmetric_rows(by_rows(K), by_tiles(V)))
    expected = K.double() @ V.double()
    assert found.dtype == torch.float64
    assert float((found - expected).norm()) <= error * float(expected.norm())


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32])
def test_tiles_of_whole_numbers_are_multiplied_in_the_precision_of_the_columns(dtype):
    K, V = (1000 * matrix()).to(dtype), columns(3, torch.float64)
    found = joined(symmetric_rows(by_rows(K), by_tiles(V)))
    expected = K.double() @ V
    assert float((found - expected).norm()) <= 1e-14 * float(expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiles_are_left_as_they_are(dtype):
    tiles = by_rows(matrix())
    before = [row.clone() for row in tiles]
    symmetric_rows(tiles, by_tiles(columns(3, dtype)))
    assert all(torch.equal(a, b) for a, b in zip(tiles, before, strict=True))


@pytest.mark.parametrize("way", ["compiled"], indirect=True)
def test_the_number_of_threads_changes_no_bit():
    rows, V = by_rows(matrix()), by_tiles(columns(7))
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            found.append(symmetric_rows(rows, V))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("way", ["torch", "compiled"], indirect=True)
@pytest.mark.parametrize("size", [5, 15, 90])
def test_tiles_of_any_size_are_multiplied(size):
    K = matrix()[: 2 * size, : 2 * size]
    tiles = K.unflatten(0, (2, size)).unflatten(2, (2, size)).transpose(1, 2)
    V = columns(3)[: 2 * size]
    found = symmetric_rows([tiles[i, : i + 1].contiguous() for i in range(2)], V.view(2, size, 3).mT.contiguous())
    assert float((joined(found) - K.double() @ V.double()).norm()) <= 1e-5 * float(V.norm() * K.norm())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_so(bad):
    V = columns(3)
    V[17, 1] = bad
    found = joined(symmetric_rows(by_rows(matrix()), by_tiles(V)))
    assert not bool(torch.isfinite(found[:, 1]).any())
    assert bool(torch.isfinite(found[:, [0, 2]]).all())


@pytest.mark.parametrize("way", ["torch"], indirect=True)
def test_the_plan_says_what_is_missing_and_what_is_not(monkeypatch):
    assert "pip install 'ridgeformer[fast]'" in strips.describe(20_000, torch.device("cpu"))[0]
    monkeypatch.setattr(strips, "worthwhile", lambda n: True)
    assert "compiled by Numba" in strips.describe(20_000, torch.device("cpu"))[0]
    assert strips.describe(20_000, torch.device("cuda")) == ()
