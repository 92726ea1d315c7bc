"""A Cholesky factor most of whose products are of 8-bit numbers: cheap, and near enough for a few steps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import local
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from threadpoolctl import threadpool_limits
from torch import Tensor

from ridgeformer.algorithms.base import Precondition
from ridgeformer.core.compiled import compile_it
from ridgeformer.core.products import thin_product, transposed_thin_product
from ridgeformer.solving.engines import Triangle
from ridgeformer.solving.engines.tiles import LIMITING
from ridgeformer.solving.engines.whole_numbers import exact_products
from ridgeformer.solving.preconditioners.pivoted_cholesky import PivotedCholesky
from ridgeformer.solving.system import RidgeSystem

__all__ = ["RoundedCholesky"]

LARGEST = 127
"""What the largest entry of a row is rounded to."""


@dataclass(frozen=True)
class RoundedCholesky:
    """P = L L', the Cholesky factor of A with products of 8-bit numbers, a few times as fast as those of float32.

    The first panel of columns, which takes what is large in K, is used as it is. Every later one is rounded, each row
    to 8 bits, before its products are subtracted from what is left. Where the ridge is not small
    (`plan.rounding_serves`) a few steps of conjugate gradients make up for that.

    Needs the triangle engine, Numba, and a processor that multiplies 8-bit numbers exactly. Without one of them, or
    where rounding leaves no positive definite matrix, `PivotedCholesky` takes its place.
    """

    name: ClassVar[str] = "rounded"

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Precondition:
        """Return P^-1 for this system; the generator is only for the one that takes its place."""
        engine, factor = system.engine, None
        if isinstance(engine, Triangle) and engine.compiled and engine.dtype == torch.float32 and exact_products():
            factor = _Factor.of(engine, system.ridge)
        return PivotedCholesky().build(system, generator) if factor is None else factor.divide


class _Factor:
    """L by rows of tiles: what is left of the diagonal in one piece a row, and the inverses of tiles on it."""

    def __init__(self, engine: Triangle, ridge: float) -> None:
        self.size, self.count, self.n = engine.size, engine.count, engine.n
        self.rows = [torch.cat(list(tiles[:-1]), dim=1) if len(tiles) > 1 else tiles[0, :, :0] for tiles in engine.high]
        self.own = [tiles[-1].clone() for tiles in engine.high]
        for tile in self.own:
            tile.diagonal().add_(ridge)
        self.codes = [torch.empty(i, self.size, self.size, dtype=torch.int8) for i in range(self.count)]
        self.steps = np.empty((self.count, self.count, self.size), np.float32)
        self.room = local()

    @classmethod
    def of(cls, engine: Triangle, ridge: float) -> _Factor | None:
        """Return the factor of K + ridge I, or None if rounding leaves no positive definite matrix."""
        factor = cls(engine, ridge)
        with LIMITING, threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(torch.get_num_threads()) as threads:
            for s in range(factor.count):
                list(threads.map(partial(factor._subtract, s), range(s, factor.count)))
                lower, info = torch.linalg.cholesky_ex(factor.own[s])
                if int(info) != 0 or not bool(torch.isfinite(lower.diagonal()).all()):
                    return None
                factor.own[s] = torch.linalg.solve_triangular(lower, torch.eye(len(lower)).to(lower), upper=False)
                list(threads.map(partial(factor._divide, s), range(s + 1, factor.count)))
        factor.codes.clear()  # only products of the factor with itself need them
        return factor

    def _tile(self, i: int, s: int) -> Any:
        """Return tile s of row i."""
        return self.own[i].numpy() if i == s else self.rows[i].numpy()[:, s * self.size : (s + 1) * self.size]

    def _subtract(self, s: int, i: int) -> None:
        """Subtract from tile s of row i what the panels of columns before it take off."""
        whole, floats = self._rooms()
        rest = self._tile(i, s)
        if s > 0:
            rest -= np.matmul(self._tile(i, 0), self._tile(s, 0).T, out=floats)
        for t in range(1, s):
            torch._int_mm(self.codes[i][t], self.codes[s][t].T, out=whole)
            compile_it(subtract)(rest, whole.numpy(), self.steps[i, t], self.steps[s, t])

    def _rooms(self) -> tuple[Tensor, Any]:
        """Return room for a product of whole numbers and one of others, kept in a thread: fresh memory costs time."""
        if not hasattr(self.room, "both"):
            shape = self.size, self.size
            self.room.both = torch.empty(shape, dtype=torch.int32), np.empty(shape, np.float32)
        return self.room.both

    def _divide(self, s: int, i: int) -> None:
        """Multiply tile s of row i by the inverse of that on the diagonal, transposed; the upper half of it is zero."""
        inverse, tile, half = self.own[s].numpy(), self._tile(i, s), self.size // 2
        _, found = self._rooms()
        np.matmul(tile[:, :half], inverse[:half, :half].T, out=found[:, :half])
        np.matmul(tile, inverse[half:].T, out=found[:, half:])
        tile[:] = found
        if s > 0:
            compile_it(round_rows)(tile, self.codes[i][s].numpy(), self.steps[i, s])

    def divide(self, r: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return (L L')^-1 r."""
        padded = torch.zeros(self.count * self.size, r.shape[1], dtype=torch.float32)
        padded[: self.n] = r
        parts = padded.split(self.size)
        for i, (row, inverse, part) in enumerate(zip(self.rows, self.own, parts, strict=True)):
            if i > 0:
                part -= thin_product(row, padded[: i * self.size])
            part.copy_(inverse @ part)
        for i in range(self.count - 1, -1, -1):
            parts[i].copy_(self.own[i].T @ parts[i])
            if i > 0:
                padded[: i * self.size] -= transposed_thin_product(self.rows[i], parts[i])
        return padded[: self.n].to(r.dtype)


def round_rows(rows: Any, codes: Any, steps: Any) -> None:
    """Set a step for each row and its multiples next to the entries; all are NumPy arrays.

    Example:
        >>> codes, steps = np.empty((1, 3), dtype="int8"), np.empty(1)
        >>> round_rows(np.array([[2.54, 0.021, -1.0]]), codes, steps)
        >>> codes.tolist(), round(float(steps[0]), 9)
        ([[127, 1, -50]], 0.02)
    """
    for i in range(rows.shape[0]):
        row, largest = rows[i], rows.dtype.type(0)
        for j in range(rows.shape[1]):
            largest = max(largest, abs(row[j]))
        per_step = LARGEST / largest if largest > 0 else rows.dtype.type(0)
        steps[i] = largest / LARGEST
        for j in range(rows.shape[1]):
            codes[i, j] = int(np.rint(row[j] * per_step))


def subtract(rest: Any, sums: Any, left: Any, right: Any) -> None:
    """Subtract from an array products of whole numbers times a number for each row and one for each column.

    Example:
        >>> rest = np.ones((1, 2))
        >>> subtract(rest, np.array([[4, 8]]), np.array([0.5]), np.array([0.25, 0.125]))
        >>> rest.tolist()
        [[0.5, 0.5]]
    """
    for i in range(rest.shape[0]):
        for j in range(rest.shape[1]):
            rest[i, j] -= sums[i, j] * (left[i] * right[j])
