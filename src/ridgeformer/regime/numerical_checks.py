"""The published numerical checks of a kernel, and which of them float64 can pass at all (L14)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from ridgeformer.core.checks import as_matrix, positive
from ridgeformer.core.errors import ShapeError

__all__ = ["NumericalChecks", "check_numerically"]


@dataclass(frozen=True)
class NumericalChecks:
    """What float64 makes of K and (K + ridge I)^-1.

    Attributes:
        smallest: Smallest eigenvalue of K.
        condition: Condition number of K + ridge I.
        inverse_error: norm_F((K + ridge I)^-1 (K + ridge I) - I), published to be below 1e-12.
        inverse_error_in_units: The same over eps times the condition number: what round-off allows is of order n.
        asymmetry: Largest difference of K from its transpose.
    """

    smallest: float
    condition: float
    inverse_error: float
    inverse_error_in_units: float
    asymmetry: float

    def as_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


def check_numerically(K: Any, *, ridge: Any) -> NumericalChecks:
    """Return the checks for a kernel matrix and a ridge.

    Example:
        >>> check_numerically(torch.eye(2, dtype=torch.float64), ridge=1.0).condition
        1.0
    """
    K = as_matrix(K, "K").detach().to(torch.float64)
    if K.shape[0] != K.shape[1]:
        raise ShapeError(f"K has shape {tuple(K.shape)}; a kernel matrix (n, n) was expected.")
    ridge = positive(ridge, "ridge", "K + ridge I must be invertible")
    eye = torch.eye(len(K), dtype=K.dtype, device=K.device)
    values = torch.linalg.eigvalsh((K + K.T) / 2)
    A = K + ridge * eye
    condition = float((values[-1] + ridge) / (values[0] + ridge))
    error = float((torch.linalg.inv(A) @ A - eye).norm())
    return NumericalChecks(
        smallest=float(values[0]),
        condition=condition,
        inverse_error=error,
        inverse_error_in_units=error / (torch.finfo(torch.float64).eps * condition),
        asymmetry=float((K - K.T).abs().max()),
    )
