"""The linear system of ridge regression, (K + ridge I) alpha = y, as an operator on columns."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.kernels import FeatureKernel, Kernel
from ridgeformer.kernels.base import gamma

__all__ = ["STORED_ENTRIES", "RidgeSystem"]

STORED_ENTRIES = 2**27
"""K is stored while it has at most this many entries (1 GiB in float64), otherwise formed by blocks."""


class RidgeSystem:
    """A = K + ridge I for the rows X, applied to any number of columns at once.

    K is never formed where it has a feature map narrower than n; it is stored while it is small; it is
    formed by blocks otherwise.
    """

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], ridge: float) -> None:
        self.kernel = kernel
        self.X = X.detach()
        self.ridge = ridge

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.X.shape[0]

    @cached_property
    def features(self) -> Tensor | None:
        """The features phi(X), where the kernel has some and they are fewer than n."""
        if not isinstance(self.kernel, FeatureKernel):
            return None
        features = self.kernel.feature_map(self.X)
        return features if features.shape[1] < self.n else None

    @cached_property
    def matrix(self) -> Float[Tensor, "n n"]:
        """K itself."""
        return self.kernel.dense(self.X, self.X)

    @cached_property
    def diagonal(self) -> Float[Tensor, " n"]:
        """The diagonal of K."""
        return self.kernel.diagonal(self.X)

    def apply_kernel(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V."""
        if self.features is not None:
            return self.features @ (self.features.T @ V)
        if self.n**2 <= STORED_ENTRIES:
            return self.matrix @ V
        return self.kernel.product(self.X, self.X, V)

    def apply(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return (K + ridge I) V."""
        return self.apply_kernel(V).add_(V, alpha=self.ridge)

    @cached_property
    def in_float64(self) -> RidgeSystem:
        """The same system with its rows taken as exact and everything computed in float64."""
        if self.X.dtype == torch.float64:
            return self
        return RidgeSystem(self.kernel, self.X.to(torch.float64), self.ridge)

    def residual(self, alpha: Float[Tensor, "n r"], y: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return y - A alpha in float64, with the kernel evaluated in float64."""
        return y.to(torch.float64) - self.in_float64.apply(alpha.to(torch.float64))

    def residual_roundoff(self, alpha: Float[Tensor, "n r"], y: Float[Tensor, "n r"]) -> Float[Tensor, " r"]:
        """Return a bound on how far `residual` can be from that of exact arithmetic, in 2-norm per column.

        What rounding does to the sums is `bounds.residual_roundoff`; on top of it the entries of K themselves
        err by at most w_i w_j (`Kernel.entry_error`).
        """
        system = self.in_float64
        w, size = self.kernel.entry_error(system.X), alpha.to(torch.float64).abs()
        sums = bounds.residual_roundoff(
            system.diagonal.clamp_min(0).cpu(),
            size.cpu(),
            y.to(torch.float64).norm(dim=0).cpu(),
            self.ridge,
            extra=self.X.shape[1],
        )
        return torch.from_numpy(sums).to(w.device) + w.norm() * (w @ size)

    @cached_property
    def kernel_roundoff(self) -> float:
        """The size below which an eigenvalue of the computed K cannot be told from zero."""
        w = self.kernel.entry_error(self.X)
        sums = gamma(self.n + self.X.shape[1] + 8, self.X.dtype) * float(self.diagonal.abs().sum())
        return sums + float(w.square().sum())
