"""An approximate (K + ridge I)^-1 from a Nystrom sketch of K, with bounds on its diagonal from both sides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from ridgeformer.solving.preconditioners.nystrom import NystromFactor
from ridgeformer.solving.system import RidgeSystem

__all__ = ["NystromResolvent"]


@dataclass(frozen=True, eq=False)
class NystromResolvent:
    """Q = (U diag(values) U' + ridge I)^-1 = (I - U S U') / ridge, with S = values / (values + ridge).

    A Nystrom approximation is never above K, so Q is never below R, beyond round-off.
    """

    system: RidgeSystem
    factor: NystromFactor

    @cached_property
    def shrinkage(self) -> Float[Tensor, " r"]:
        """The diagonal of S."""
        return self.factor.values / (self.factor.values + self.system.ridge)

    def apply(self, V: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        """Return Q V."""
        U = self.factor.U
        return (V - U @ (self.shrinkage[:, None] * (U.T @ V))) / self.system.ridge

    @cached_property
    def tail(self) -> float:
        """The mean eigenvalue of what the sketch leaves out, tr(K - U diag(values) U') / (n - r)."""
        n, rank = self.factor.U.shape
        left_out = float(self.system.diagonal.double().sum() - self.factor.values.double().sum())
        return max(left_out, 0.0) / (n - rank) if n > rank else 0.0

    def apply_with_tail(self, V: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        """Return (U diag(values) U' + tail (I - U U') + ridge I)^-1 V: nearer to R than Q, not above it."""
        U, ridge = self.factor.U, self.system.ridge
        inside = 1 / (self.factor.values + ridge) - 1 / (self.tail + ridge)
        return V / (self.tail + ridge) + U @ (inside[:, None] * (U.T @ V))

    @cached_property
    def diagonal(self) -> Float[Tensor, " n"]:
        """Q_ii, which R_ii does not exceed."""
        return (1 - self.factor.U.square() @ self.shrinkage) / self.system.ridge

    @cached_property
    def least_diagonal(self) -> Float[Tensor, " n"]:
        """What R_ii is not below: Q_ii^2 / (Q A Q)_ii, at the price of as many products with K as the rank.

        R_ii is the largest v_i^2 / v'Av over all v, and v = Q e_i is nearly the best; v = e_i gives 1 / A_ii.
        The gap to R_ii is of second order in the error of the sketch, that of Q_ii of first order.
        """
        U, S, ridge = self.factor.U, self.shrinkage, self.system.ridge
        KU, US = self.system.apply_kernel(U), U * S
        through_kernel = self.system.diagonal - 2 * (KU * US).sum(1) + ((US @ (U.T @ KU)) * US).sum(1)
        through_ridge = ridge * (1 - 2 * (U * US).sum(1) + US.square().sum(1))
        best = self.diagonal.square() * ridge**2 / (through_kernel + through_ridge)
        return best.maximum(1 / (self.system.diagonal + ridge)).minimum(self.diagonal)
