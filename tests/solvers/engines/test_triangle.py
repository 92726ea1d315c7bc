import pytest
import torch
from engine_case import EngineCase, columns, rows, small_tiles  # noqa: F401

from ridgeformer.kernels import Exponential
from ridgeformer.solvers import RidgeSystem
from ridgeformer.solvers.engines import Tiles, Triangle, strips
from ridgeformer.solvers.engines.strips import STRIP
from ridgeformer.solvers.engines.triangle import tile_size


class TestTriangle(EngineCase):
    def build(self, X, working):
        return Triangle(self.kernel, X, working)


class TestCompiledTriangle(EngineCase):
    @pytest.fixture(autouse=True)
    def _compiled(self, monkeypatch):
        monkeypatch.setattr(strips, "LARGE", 0)

    def build(self, X, working):
        return Triangle(self.kernel, X, working)


@pytest.mark.usefixtures("small_tiles")
def test_two_parts_hold_48_bits_of_every_entry_in_the_room_of_one_float32_matrix():
    X = rows()
    engine = Triangle(Exponential(0.7), X)
    K = Exponential(0.7)(X)
    for place in engine._places():
        high, low = engine._place(engine.high, *place), engine._place(engine.low, *place)
        assert high.dtype == low.dtype == torch.float32
        torch.testing.assert_close(high.double() + low.double(), K[place], rtol=2.0**-47, atol=0.0)
    entries = sum(row.numel() for row in engine.high)
    assert entries == sum(row.numel() for row in engine.low) == engine.count * (engine.count + 1) / 2 * engine.size**2


@pytest.mark.parametrize("n", [1, 799, 1000, 1025, 20_000, 60_000, 100_000, 123_457])
def test_tiles_cover_all_rows_with_little_to_fill_up(n):
    size = tile_size(n)
    count = -(-n // size)
    assert size % STRIP == 0
    assert (count - 1) * size < n <= count * size
    if n >= 20_000:
        assert size % 32 == 0
        assert size * 4 % 4096 != 0
        assert count * (count + 1) * size**2 <= 1.07 * n**2


@pytest.mark.usefixtures("small_tiles")
def test_the_high_part_as_one_matrix():
    X = rows()
    found = Triangle(Exponential(0.7), X).lower().tril()
    assert torch.equal(found, Exponential(0.7)(X).float().tril())


def test_what_the_two_parts_lose_is_within_the_round_off_that_is_reported():
    """Coefficients of one sign and of the size that adds up: every lost bit counts in the same direction."""
    X, alpha = rows(n=300), torch.ones(300, 1, dtype=torch.float64)
    kernel, y = Exponential(0.7), torch.zeros(300, 1, dtype=torch.float64)
    held, formed = (RidgeSystem(kernel, X, 0.1, engine(kernel, X, torch.float32)) for engine in (Triangle, Tiles))
    gap = (held.residual(alpha, y) - formed.residual(alpha, y)).norm(dim=0)
    assert 0 < float(gap) <= float(held.residual_roundoff(alpha, y))
    assert float(held.residual_roundoff(alpha, y)) > float(formed.residual_roundoff(alpha, y))
