"""How far a kernel is from its limit: four criteria (L4), and which numerical checks float64 can pass (L14)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import as_matrix, positive
from ridgeformer.core.errors import ShapeError

__all__ = ["KernelDistances", "NumericalChecks", "check_numerically", "kernel_distances"]


@dataclass(frozen=True)
class KernelDistances:
    """How far a kernel K is from its limit L, with dK = K - L; all norms spectral but the second.

    Attributes:
        additive: norm(dK) / l_min(L). Theorems that keep K definite ask for 1/4.
        frobenius: norm_F(dK) / norm_F(L): the average entry.
        multiplicative: The smallest d with (1 - d) L <= K <= (1 + d) L.
        whitened: The smallest d with -d (L + ridge I) <= dK <= d (L + ridge I): what ridge regression sees.
        ridge: The ridge of `whitened`.
        definite: Whether float64 can tell l_min(L) from zero; `additive` and `multiplicative` are infinite if not.
    """

    additive: float
    frobenius: float
    multiplicative: float
    whitened: float
    ridge: float
    definite: bool

    def as_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


def kernel_distances(K: Any, limit: Any, *, ridge: Any) -> KernelDistances:
    """Return the distance of K from `limit` under each criterion, in float64.

    In sample, ridge regression with K instead of L errs by at most d / (1 - d) relative to norm(y) where
    d = whitened < 1, whatever the condition number.

    Args:
        K: Symmetric (n, n).
        limit: L, symmetric positive semidefinite (n, n).
        ridge: > 0, the ridge the kernel is used with.

    Example:
        >>> d = kernel_distances([[1.0, 0.0], [0.0, 0.2]], [[1.0, 0.0], [0.0, 0.1]], ridge=0.9)
        >>> d.additive, d.multiplicative, d.whitened
        (1.0, 1.0, 0.1)
    """
    L = _square(limit, "limit")
    K = _square(K, "K").to(L.device)
    ridge = positive(ridge, "ridge", "it whitens the directions the limit has nothing in")
    if K.shape != L.shape:
        raise ShapeError(f"K has shape {tuple(K.shape)} and limit {tuple(L.shape)}: give kernels of the same rows.")
    values, Q = torch.linalg.eigh(L)
    gap = Q.T @ (K - L) @ Q
    smallest, largest = float(values[0]), float(values[-1])
    definite = smallest > len(values) * torch.finfo(torch.float64).eps * largest
    return KernelDistances(
        additive=_spectral(gap) / smallest if definite else inf,
        frobenius=float(gap.norm() / values.norm()),
        multiplicative=_whitened(gap, values) if definite else inf,
        whitened=_whitened(gap, values.clamp_min(0) + ridge),
        ridge=ridge,
        definite=definite,
    )


def _whitened(gap: Tensor, values: Tensor) -> float:
    scale = values.rsqrt()
    return _spectral(scale[:, None] * gap * scale[None, :])


def _spectral(symmetric: Tensor) -> float:
    return float(torch.linalg.eigvalsh((symmetric + symmetric.T) / 2).abs().max())


def _square(value: Any, name: str) -> Tensor:
    matrix = as_matrix(value, name).detach().to(torch.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{name} has shape {tuple(matrix.shape)}; a kernel matrix (n, n) was expected.")
    return matrix


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
