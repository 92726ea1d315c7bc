"""Products with the columns of K at a few centres, formed again for every pass over the rows."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.products import thin_product, transposed_thin_product
from ridgeformer.kernels import Kernel, LogitKernel
from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.solving.engines.fused import FusedRows, fuses
from ridgeformer.solving.normal_equations import Forecast
from ridgeformer.solving.plan import BLOCK

__all__ = ["CentreProducts"]

HELD = (1e-12, 1e12)
"""Sizes of k(x, x) with which passes may be in float32: sums over rows and squares must be held, too."""


class CentreProducts:
    """Products with K_c, the columns of K at the centres, none of which is kept; sums over blocks in float64."""

    def __init__(
        self, kernel: Kernel, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"], forecast: Forecast | None = None
    ) -> None:
        self.kernel, self.X, self.Z, self.forecast = kernel, X, Z, forecast or Forecast(len(X), None)
        largest = float(kernel.diagonal(Z).max()) if len(Z) else 1.0
        self._single = torch.float32 if HELD[0] <= largest <= HELD[1] else torch.float64
        self._fused = (
            {dtype: FusedRows(kernel, Z, dtype) for dtype in (torch.float32, torch.float64)}
            if isinstance(kernel, LogitKernel) and fuses(X)
            else {}
        )

    def normal(self, P: Float[Tensor, "m r"], dtype: torch.dtype) -> Float[Tensor, "m r"]:
        """Return K_c'K_c P, entries and the sums of some rows in `dtype`."""
        total = torch.zeros_like(P)
        self.forecast.begin(str(dtype).removeprefix("torch."))
        for rows in self.X.split(BLOCK):
            total += self._pass(rows, P, None, dtype)[1]
            self.forecast.advance(len(rows))
        return total

    def pull(self, y: Float[Tensor, "n r"], dtype: torch.dtype) -> Float[Tensor, "m r"]:
        """Return K_c'y, entries and the sums of some rows in `dtype`."""
        total = y.new_zeros(len(self.Z), y.shape[1])
        self.forecast.begin(str(dtype).removeprefix("torch."))
        for rows, given in zip(self.X.split(BLOCK), y.split(BLOCK), strict=True):
            total += self._pass(rows, torch.zeros_like(total), given, dtype)[1]
            self.forecast.advance(len(rows))
        return total

    def residual(
        self, B: Float[Tensor, "m columns"], y: Float[Tensor, "n r"]
    ) -> tuple[Float[Tensor, "n columns"], Float[Tensor, "m columns"]]:
        """Return R = y - K_c B and K_c'R, in float64; B may have several sets of columns for the same targets."""
        left, total, sets = y.new_empty(len(y), B.shape[1]), torch.zeros_like(B), B.shape[1] // y.shape[1]
        self.forecast.begin("float64", judging=True)
        for rows, given, place in zip(self.X.split(BLOCK), y.split(BLOCK), left.split(BLOCK), strict=True):
            found, part = self._pass(rows, B, given.repeat(1, sets), torch.float64)
            place.copy_(found)
            total += part
            self.forecast.advance(len(rows))
        return left, total

    def judged(self, left: Float[Tensor, "n columns"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return K_c'R for what two sets of coefficients leave of the targets, and what `Passes.judged` sums."""
        pull, r = self.pull(left, torch.float64), left.shape[1] // 2
        squares, change = left.new_zeros(2, r)
        for some in left.split(BLOCK):
            squares += some[:, :r].square().sum(0)
            change += (some[:, :r] - some[:, r:]).square().sum(0)
        return pull, squares, change

    def _pass(self, rows: Tensor, P: Tensor, y: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        dtype = self._single if dtype == torch.float32 else dtype
        if self._fused:
            return self._fused[dtype].multiply(rows, P, y)
        Z, right, total, size = self.Z.to(dtype), P.to(dtype), torch.zeros_like(P), max(1, BLOCK_ENTRIES // len(self.Z))
        found = P.new_empty(len(rows), P.shape[1])  # parts kept in a list would hold memory between them
        for start, some, place in zip(range(0, len(rows), size), rows.split(size), found.split(size), strict=True):
            K = self.kernel.dense(some.to(dtype), Z)
            u = thin_product(K, right)
            u = u if y is None else y[start : start + size].to(dtype) - u
            total += transposed_thin_product(K, u)
            place.copy_(u)
        return found, total
