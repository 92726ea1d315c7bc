"""Powers of a Gram matrix as a kernel: order 3 is linearised attention over a fixed context."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.kernels.base import FeatureKernel, gamma, underflow

__all__ = ["GramPower"]


@dataclass(frozen=True, eq=False)
class GramPower(FeatureKernel):
    """k(x, z) = x'C^(order-1) z with C = context'context; on the context itself it is G^order.

    Linearised attention maps X to X X'X, whose Gram matrix is G^3: `order=3`, `context=X`. The context
    is held fixed: no gradient flows into it, and with it fixed the kernel is linear in x (claim L15).

    C^(order-1) is never formed as a product, because that loses the small eigenvalues (claim L1): the
    features are S^(order-1) V'x, from the singular values S and right vectors V of the context in
    float64. The eigenvalues of G^order are `spectrum()`, powers of S: right to u S_1 / S_i relative error each,
    so for context condition numbers well below 1e16, where a formed product is lost from 1e5 on.

    Args:
        order: a whole number >= 1; 1 is the dot product.
        context: (n, d), the rows attended to.

    Example:
        >>> X = torch.tensor([[1.0, 0.0], [1.0, 1.0]]).double()
        >>> G = X @ X.T
        >>> torch.allclose(GramPower(3, X)(X), G @ G @ G)
        True
    """

    order: int
    context: Any
    singular_values: Tensor = field(init=False, repr=False)
    directions: Tensor = field(init=False, repr=False)

    name: ClassVar[str] = "gram_power"
    semidefinite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole(self.order, "order (3 is linearised attention)", 1)
        context = as_matrix(self.context, "context").detach()
        _, S, Vt = torch.linalg.svd(context.to(torch.float64), full_matrices=False)
        object.__setattr__(self, "order", int(self.order))
        object.__setattr__(self, "context", context)
        object.__setattr__(self, "singular_values", S)
        object.__setattr__(self, "directions", Vt.T)
        if not bool(torch.isfinite(S ** (2 * self.order)).all()):
            raise InputError(
                f"the context's largest singular value is {float(S[0]):.3g}; its power {2 * self.order} overflows: "
                "scale the rows (datasets.unit_rows) or lower the order."
            )

    def spectrum(self) -> Float[Tensor, " r"]:
        """Return the eigenvalues of G^order on the context, descending, in float64."""
        return self.singular_values ** (2 * self.order)

    def feature_map(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return S^(order-1) V'x, computed in float64 and given back in the dtype of X."""
        if X.shape[1] != self.context.shape[1]:
            raise ShapeError(
                f"X has {X.shape[1]} features and the context has {self.context.shape[1]}: "
                "apply the same preprocessing to both."
            )
        if self.order == 1:
            return X
        V, S = self.directions.to(X.device), self.singular_values.to(X.device)
        features = (X.to(torch.float64) @ V) * S ** (self.order - 1)
        return features.to(X.dtype)

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return sqrt(c u) S_1^(order-1) |x_i|: errors are relative to the largest direction.

        The SVD's constant is taken as 10 (n + d) (order - 1), generous for LAPACK's backward error.
        """
        n, d = self.context.shape
        lost = gamma(2 * d + 6, X.dtype) + gamma(10 * (n + d) * (self.order - 1), torch.float64)
        largest = float(self.singular_values[0]) ** (self.order - 1)
        small = sqrt(underflow(2 * d + 6, X.dtype)) * (1 + largest)
        return sqrt(lost) * largest * X.norm(dim=1) + small
