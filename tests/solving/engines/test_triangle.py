import pytest
import torch

from ridgeformer.core import compiled
from ridgeformer.kernels import DotProduct, Exponential, Gaussian
from ridgeformer.solving import RidgeSystem
from ridgeformer.solving.engines import Tiles, Triangle
from ridgeformer.solving.engines.strips import UNIT
from ridgeformer.solving.engines.triangle import KEPT, lost, tile_size
from tests.solving.engines.engine_case import EngineCase, columns, rows, small_tiles  # noqa: F401


class TestTriangle(EngineCase):
    def build(self, X, working):
        return Triangle(self.kernel, X, working)


class TestTriangleOfTheGaussianKernel(TestTriangle):
    kernel = Gaussian(0.7)


class TestCompiledTriangle(EngineCase):
    @pytest.fixture(autouse=True)
    def _compiled(self, monkeypatch):
        monkeypatch.setattr(compiled, "LARGE", 0)

    def build(self, X, working):
        return Triangle(self.kernel, X, working)


def of_all_lengths():
    """Rows whose k(x, x) differ by ten orders of magnitude, one of them zero."""
    X = rows(n=200) * torch.logspace(-2.5, 2.5, len(rows(n=200)), dtype=torch.float64)[:, None]
    X[3] = 0
    return X


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("large", [0, 2**60], ids=["compiled", "torch"])
@pytest.mark.parametrize("bits", KEPT)
def test_what_is_lost_of_an_entry_is_what_is_said(bits, large, monkeypatch):
    monkeypatch.setattr(compiled, "LARGE", large)
    X = of_all_lengths()
    engine, K = Triangle(DotProduct(), X, bits=bits), X @ X.T
    root = K.diagonal().sqrt()
    largest = 0.0
    for rows_, columns_ in engine._places():
        high, low = (engine._place(part, rows_, columns_) for part in (engine.high, engine.low))
        assert high.dtype == torch.float32
        assert low.dtype == KEPT[bits]
        kept = high.double() + engine.step[rows_, None] * low.double() * engine.step[columns_]
        scale = (root[rows_, None] * root[columns_]).clamp_min(1e-300)
        largest = max(largest, float(((kept - K[rows_, columns_]).abs() / scale).max()))
    assert lost(bits) / 100 < largest <= lost(bits) + 2.0**-50  # and what float64 itself rounds


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(("bits", "room"), [(16, 0.75), (32, 1.0)])
def test_it_takes_the_room_that_is_said(bits, room):
    engine = Triangle(Exponential(0.7), rows(n=200), bits=bits)
    held = sum(row.nbytes for row in engine.high + engine.low)
    assert held == room * 4 * engine.count * (engine.count + 1) * engine.size**2


@pytest.mark.parametrize("n", [1, 799, 1000, 1025, 20_000, 60_000, 100_000, 123_457])
def test_tiles_cover_all_rows_with_little_to_fill_up(n):
    size = tile_size(n)
    count = -(-n // size)
    assert size % UNIT == 0
    assert (count - 1) * size < n <= count * size
    if n >= 20_000:
        assert size % 32 == 0
        assert size * 4 % 4096 != 0
        assert count * (count + 1) * size**2 <= 1.07 * n**2


@pytest.mark.usefixtures("small_tiles")
def test_the_high_part_as_one_matrix():
    X = rows(n=200)
    found = Triangle(Exponential(0.7), X).lower().tril()
    assert torch.equal(found, Exponential(0.7)(X).float().tril())


@pytest.mark.parametrize("bits", KEPT)
def test_what_the_two_parts_lose_is_within_the_round_off_that_is_reported(bits):
    """Coefficients of one sign and of the size that adds up: every lost bit counts in the same direction."""
    X, alpha = rows(n=300), torch.ones(300, 1, dtype=torch.float64)
    kernel, y = Exponential(0.7), torch.zeros(300, 1, dtype=torch.float64)
    engines = Triangle(kernel, X, bits=bits), Tiles(kernel, X, torch.float32)
    held, formed = (RidgeSystem(kernel, X, 0.1, engine) for engine in engines)
    gap = (held.residual(alpha, y) - formed.residual(alpha, y)).norm(dim=0)
    assert 0 < float(gap) <= float(held.residual_roundoff(alpha, y))
    assert float(held.residual_roundoff(alpha, y)) > float(formed.residual_roundoff(alpha, y))


@pytest.mark.parametrize("large", [0, 2**60], ids=["compiled", "torch"])
def test_what_does_not_fit_is_as_much_as_does(large, monkeypatch):
    """A kernel that is not positive semidefinite has entries beyond sqrt(k_ii k_jj): no step is counted round."""
    monkeypatch.setattr(compiled, "LARGE", large)

    class Wrong(DotProduct):
        def diagonal(self, X):
            return 1e-3 * super().diagonal(X)

    engine = Triangle(Wrong(), rows(n=200), bits=16)
    for place in engine._places():
        left_out = rows(n=200)[place[0]] @ rows(n=200)[place[1]].T - engine._place(engine.high, *place).double()
        assert bool((left_out * engine._place(engine.low, *place) >= 0).all())
    assert max(int(row.abs().max()) for row in engine.low) == 2**15 - 1
