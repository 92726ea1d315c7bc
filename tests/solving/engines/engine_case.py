"""What every engine must satisfy, with the dense kernel matrix in float64 as the oracle."""

import math
from abc import ABC, abstractmethod

import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving.engines import tiles, triangle

N = 200

ROUND_OFF = {torch.float32: 3e-6, torch.float64: 1e-13}


def rows(n=70, d=5, dtype=torch.float64, seed=0):
    X = torch.randn(n, d, generator=torch_generator(seed, "X"), dtype=torch.float64) / math.sqrt(d)
    return X.to(dtype)


def columns(n=70, count=3, seed=0):
    return torch.randn(n, count, generator=torch_generator(seed, "V"), dtype=torch.float64)


def close(found, expected, dtype):
    return float((found.double() - expected).norm()) <= ROUND_OFF[dtype] * float(expected.norm())


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 16 rows, or of 80 where they are stored, so that a small matrix has several, the last one cut off."""
    monkeypatch.setattr(tiles, "TILE", 16)
    monkeypatch.setattr(triangle, "SIZES", (80, 160))


@pytest.mark.usefixtures("small_tiles")
class EngineCase(ABC):
    """Inherit and say how the engine is built."""

    kernel = Exponential(0.7)

    @abstractmethod
    def build(self, X, working):
        """The engine for X."""

    @pytest.mark.parametrize("given", [torch.float32, torch.float64])
    @pytest.mark.parametrize("working", [torch.float32, torch.float64])
    @pytest.mark.parametrize("count", [1, 3, 100])
    def test_products_equal_those_with_the_dense_matrix(self, given, working, count):
        X, V = rows(N, dtype=given), columns(N, count)
        K = self.kernel(X.double())
        engine = self.build(X, working)
        assert engine.n == N
        assert engine.dtype == working
        for dtype in (torch.float32, torch.float64):
            found = engine.matmat(V.to(dtype))
            assert found.dtype == dtype
            assert close(found, K @ V.to(dtype).double(), min(working, dtype, key=lambda t: torch.finfo(t).bits))

    @pytest.mark.parametrize("given", [torch.float32, torch.float64])
    def test_the_float64_product_does_not_depend_on_the_working_precision(self, given):
        X, V = rows(N, dtype=given), columns(N)
        engine = self.build(X, torch.float32)
        assert close(engine.matmat64(V), self.kernel(X.double()) @ V, torch.float64)
        assert engine.matmat64(V.float()).dtype == torch.float64

    def test_the_accurate_product_loses_at_most_the_rounding_of_the_entries(self):
        X, V = rows(N), columns(N)
        found = self.build(X, torch.float32).accurate(V)
        assert found.dtype == torch.float64
        assert close(found, self.kernel(X) @ V, torch.float32)

    @pytest.mark.parametrize("working", [torch.float32, torch.float64])
    def test_columns_blocks_and_diagonal(self, working):
        X, index, some = rows(N), torch.tensor([3, 199, 0, 3]), torch.tensor([198, 2])
        K, engine = self.kernel(X), self.build(X, working)
        assert close(engine.columns(index), K[:, index], working)
        assert close(engine.block(some, index), K[some][:, index], working)
        assert close(engine.block(index, index), K[index][:, index], working)
        assert engine.columns(index).dtype == engine.block(some, index).dtype == working
        assert close(engine.diagonal(), K.diagonal(), torch.float64)

    def test_it_leaves_the_preconditioner_to_the_solver(self):
        engine = self.build(rows(N), torch.float32)
        assert engine.preconditioner(0.1, 5, torch_generator(0, "any")) is None
