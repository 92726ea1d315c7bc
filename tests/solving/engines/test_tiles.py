import pytest
import torch

from ridgeformer.kernels import Exponential, Gaussian, Kernel, ReluNTK
from ridgeformer.solving.engines import Tiles
from ridgeformer.solving.engines.tiles import for_each_tile, prepared, symmetric_product
from tests.solving.engines.engine_case import EngineCase, columns, rows, small_tiles  # noqa: F401


class TestTiles(EngineCase):
    def build(self, X, working):
        return Tiles(self.kernel, X, working)


class TestTilesOfTheGaussianKernel(TestTiles):
    kernel = Gaussian(0.7)


class TestTilesOfTheTangentKernel(TestTiles):
    kernel = ReluNTK()


class Counting(Kernel):
    """Counts the entries it is asked for."""

    name = "counting"

    def __init__(self):
        self.entries = 0

    def dense(self, X, Z):
        self.entries += len(X) * len(Z)
        return torch.exp(X @ Z.T)


@pytest.mark.usefixtures("small_tiles")
def test_hardly_more_than_half_the_entries_are_evaluated():
    kernel, X, V = Counting(), rows(n=160), columns(n=160)
    found = symmetric_product(kernel, X, V, torch.float64)
    assert kernel.entries == 160 * (160 + 16) // 2
    torch.testing.assert_close(found, torch.exp(X @ X.T) @ V)


def collected(kernel, X, dtype, size):
    found = {}
    for_each_tile(
        kernel, X, dtype, size, lambda rows, columns, tile: found.update({(rows.start, columns.start): tile.clone()})
    )
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", [Exponential(0.5), ReluNTK()], ids=["side by side", "in turn"])
def test_every_tile_comes_once_and_is_what_the_kernel_says(kernel, dtype):
    kernel, X = prepared(kernel, rows(n=50))
    found = collected(kernel, X, dtype, 16)
    assert found.keys() == {(a, b) for a in range(0, 50, 16) for b in range(0, a + 1, 16)}
    K = kernel.dense(X, X)
    for (a, b), tile in found.items():
        torch.testing.assert_close(tile, K[a : a + 16, b : b + 16].to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", [Exponential(0.5), ReluNTK()], ids=["side by side", "in turn"])
@pytest.mark.usefixtures("small_tiles")
def test_the_number_of_threads_changes_no_bit_of_a_product(kernel, dtype):
    kernel, X = prepared(kernel, rows(n=300))
    before = torch.get_num_threads()
    try:
        several = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            several.append(symmetric_product(kernel, X, columns(n=300), dtype))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*several)


def test_the_number_of_threads_changes_no_bit_of_a_tile():
    kernel, X = prepared(Exponential(0.5), rows(n=300))
    assert kernel.entrywise(X) is not None
    before = torch.get_num_threads()
    try:
        several = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            several.append(collected(kernel, X, torch.float64, 64))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(tile, several[1][place]) for place, tile in several[0].items())


def test_what_goes_wrong_in_a_thread_is_not_lost():
    kernel, X = prepared(Exponential(0.5), rows(n=50))

    def refuse(rows, columns, tile):
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        for_each_tile(kernel, X, torch.float64, 16, refuse)


def test_tiles_are_formed_in_inference_mode_too():
    kernel, X = prepared(Exponential(0.5), rows(n=50))
    with torch.inference_mode():
        place = torch.empty(50, 50, dtype=torch.float64)
        for_each_tile(kernel, X, torch.float64, 16, lambda rows, columns, tile: place[rows, columns].copy_(tile))
    torch.testing.assert_close(place.tril(), kernel.dense(X, X).tril())
