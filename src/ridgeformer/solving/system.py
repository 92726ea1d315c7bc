"""The linear system of ridge regression, (K + ridge I) alpha = y, as an operator on columns."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.kernels import FeatureKernel, Kernel
from ridgeformer.kernels.base import gamma, underflow
from ridgeformer.solving.engines import Engine, Features, Stored, Tiles
from ridgeformer.solving.engines.tiles import TILE

__all__ = ["STORED_ENTRIES", "RidgeSystem"]

STORED_ENTRIES = 2**27
"""K is stored while it has at most this many entries (1 GiB in float64), otherwise formed by blocks."""

SCALED = 4
"""Roundings of a ridge that was rescaled together with its kernel: of the exponential, and of the product with it."""


class RidgeSystem:
    """A = K + ridge I for the rows X, applied to any number of columns at once.

    Products with K are the engine's. Unless one is given, K is never formed where it has a feature map narrower
    than n; it is stored while it is small; it is formed by tiles otherwise.
    """

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], ridge: float, engine: Engine | None = None) -> None:
        self.kernel = kernel
        self.X = X.detach()
        self.ridge = ridge
        self._engine = engine

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.X.shape[0]

    @cached_property
    def engine(self) -> Engine:
        """Products with K."""
        if self._engine is not None:
            return self._engine
        if isinstance(self.kernel, FeatureKernel):
            features = Features(self.kernel, self.X, self.X.dtype)
            if features.phi.shape[1] < self.n:
                return features
        if self.n**2 <= STORED_ENTRIES:
            return Stored(self.kernel, self.X, self.X.dtype, exact=True)
        return Tiles(self.kernel, self.X, self.X.dtype)

    @cached_property
    def matrix(self) -> Float[Tensor, "n n"]:
        """K itself, in the precision of X."""
        if isinstance(self.engine, Stored) and self.engine.dtype == self.X.dtype:
            return self.engine.K
        return self.kernel.dense(self.X, self.X)

    @cached_property
    def diagonal(self) -> Float[Tensor, " n"]:
        """The diagonal of K, in the precision of X."""
        return self.engine.diagonal().to(self.X.dtype)

    def apply_kernel(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V."""
        return self.engine.matmat(V)

    def apply(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return (K + ridge I) V."""
        return self.apply_kernel(V).add_(V, alpha=self.ridge)

    def residual(self, alpha: Float[Tensor, "n r"], y: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return y - A alpha in float64, with the kernel evaluated in float64 on the rows as given."""
        alpha = alpha.to(torch.float64)
        return y.to(torch.float64) - self.engine.matmat64(alpha).add_(alpha, alpha=self.ridge)

    def residual_roundoff(
        self, alpha: Float[Tensor, "n r"], y: Float[Tensor, "n r"], ridge: float | None = None
    ) -> Float[Tensor, " r"]:
        """Return a bound on how far `residual` can be from that of exact arithmetic, in 2-norm per column.

        What rounding does to the sums is `bounds.residual_roundoff`; on top of it the entries of K themselves
        err by at most w_i w_j (`Kernel.entry_error`), and every operation may underflow. `ridge` stands for another
        one than the system's.
        """
        size = alpha.to(torch.float64).abs()
        w = torch.cat([self.kernel.entry_error(rows.to(torch.float64)) for rows in self.X.split(TILE)])
        roots, d = self.kernel.roots(self.X), self.X.shape[1]
        norms = y.to(torch.float64).norm(dim=0)
        if not bool(torch.isfinite(w).all() and torch.isfinite(roots.square()).all()):
            return torch.full_like(norms, torch.inf)
        sums = bounds.residual_roundoff(
            roots.square().cpu(), size.cpu(), norms.cpu(), ridge or self.ridge, extra=d + SCALED + self.engine.rounding
        )
        lost = underflow(self.n + d + 8, torch.float64) * (self.n**0.5 + d**0.5 * roots.norm())
        return (torch.from_numpy(sums).to(w.device) + w.norm() * (w @ size) + lost).nan_to_num(
            nan=torch.inf, posinf=torch.inf
        )

    @cached_property
    def kernel_roundoff(self) -> float:
        """The size below which an eigenvalue of the computed K cannot be told from zero."""
        w = self.kernel.entry_error(self.X)
        sums = gamma(self.n + self.X.shape[1] + 8, self.X.dtype) * float(self.diagonal.abs().sum())
        return sums + float(w.square().sum())

    @property
    def spectrum_roundoff(self) -> float:
        """How far a computed eigenvalue of K + ridge I, less the ridge, can be from that of K."""
        return self.kernel_roundoff + gamma(self.n + self.X.shape[1] + 8, self.X.dtype) * self.ridge
