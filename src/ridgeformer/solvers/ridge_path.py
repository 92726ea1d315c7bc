"""Every ridge of a grid from one eigendecomposition, with the exact leave-one-out residuals of each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.checks import positive

__all__ = ["leave_one_out_path", "leave_one_out_residual"]


def leave_one_out_residual(alpha: Float[Tensor, "n r"], inverse_diagonal: Float[Tensor, " n"]) -> Float[Tensor, "n r"]:
    """Return y_i - f_{-i}(x_i) = alpha_i / R_ii, with R = (K + ridge I)^-1 and alpha = R y (claim I1)."""
    return alpha / inverse_diagonal[:, None]


def leave_one_out_path(
    K: Float[Tensor, "n n"], y: Float[Tensor, "n r"], ridges: Sequence[float]
) -> Float[Tensor, "g n r"]:
    """Return y_i - f_{-i}(x_i), the residual at each row of the fit without it, for every ridge.

    Holds for positive semidefinite K: n refits cost one eigendecomposition. Eigenvalues that round-off made
    negative count as zero.

    Example:
        >>> K = torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
        >>> y = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
        >>> leave_one_out_path(K, y, [1.0])[0, 0]  # 1 - 0.5 * 2 / (1 + 1)
        tensor([0.5000], dtype=torch.float64)
    """
    values, Q = torch.linalg.eigh(K)
    values = values.clamp_min(0)
    rotated = Q.T @ y
    residuals = []
    for ridge in ridges:
        inverse = 1 / (values + positive(ridge, "ridge", "without it the system may be singular"))
        alpha = Q @ (inverse[:, None] * rotated)
        residuals.append(leave_one_out_residual(alpha, Q.square() @ inverse))
    return torch.stack(residuals)
