import pytest
import torch
from engine_case import EngineCase, columns, rows, small_tiles  # noqa: F401

from ridgeformer.kernels import Exponential, Kernel, ReluNTK
from ridgeformer.solvers.engines import Tiles
from ridgeformer.solvers.engines.tiles import kernel_tiles, symmetric_product


class TestTiles(EngineCase):
    def build(self, X, working):
        return Tiles(self.kernel, X, working)


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


@pytest.mark.usefixtures("small_tiles")
def test_every_entry_on_or_below_the_diagonal_tiles_appears_once():
    X = rows(n=37)
    seen = torch.zeros(37, 37)
    for some, others, tile in kernel_tiles(Exponential(1.0), X, torch.float64):
        seen[some, others] += 1
        torch.testing.assert_close(tile, torch.exp(X @ X.T)[some, others])
    assert torch.equal(torch.maximum(seen, seen.T), torch.ones(37, 37))
    assert torch.equal(seen.tril(), torch.ones(37, 37).tril())
