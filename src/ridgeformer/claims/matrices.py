"""Small batched matrices out of free numbers, for the searches; every function keeps leading axes."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Numbers", "norm", "orthonormal", "prescribed", "resolvent", "spectrum_of"]


class Numbers:
    """Hands out a case's free numbers (cases, size) as matrices and positive numbers.

    Example:
        >>> take = Numbers(torch.zeros(5, 7))
        >>> take.matrix(2, 3).shape, take.positive().shape
        (torch.Size([5, 2, 3]), torch.Size([5]))
    """

    def __init__(self, theta: Tensor) -> None:
        self.theta, self.used = theta, 0

    def matrix(self, rows: int, columns: int) -> Tensor:
        """Return (cases, rows, columns)."""
        return self._next(rows * columns).reshape(-1, rows, columns)

    def vector(self, size: int) -> Tensor:
        """Return (cases, size)."""
        return self._next(size)

    def positive(self) -> Tensor:
        """Return one number between about 1e-3 and 1e3 a case: (cases,)."""
        return (6.9 * torch.tanh(self._next(1)[:, 0] / 3)).exp()

    def spectrum(self, size: int) -> Tensor:
        """Return (cases, size) numbers between about 1e-3 and 1e3, the largest first."""
        return (6.9 * torch.tanh(self._next(size) / 3)).exp().sort(dim=-1, descending=True).values

    def between(self, low: float, high: float) -> Tensor:
        """Return one number of an interval a case: (cases,)."""
        return low + (high - low) * torch.sigmoid(self._next(1)[:, 0])

    def _next(self, count: int) -> Tensor:
        self.used += count
        if self.used > self.theta.shape[1]:
            raise ValueError(f"a case has {self.theta.shape[1]} free numbers and {self.used} were asked for")
        return self.theta[:, self.used - count : self.used]


def orthonormal(M: Tensor) -> Tensor:
    """Return an orthonormal basis of the columns' span."""
    return torch.linalg.qr(M).Q


def prescribed(M: Tensor, spectrum: Tensor) -> Tensor:
    """Return the symmetric matrix with this spectrum in the orthonormal basis made of M."""
    Q = orthonormal(M)
    return (Q * spectrum[..., None, :]) @ Q.mT


def spectrum_of(K: Tensor) -> Tensor:
    """Return the eigenvalues, largest first."""
    return torch.linalg.eigvalsh(K).flip(-1)


def norm(M: Tensor) -> Tensor:
    """Return the largest singular value of each matrix."""
    return torch.linalg.matrix_norm(M, ord=2)


def resolvent(K: Tensor, ridge: Tensor) -> Tensor:
    """Return (K + ridge I)^-1."""
    eye = torch.eye(K.shape[-1], dtype=K.dtype)
    return torch.linalg.inv(K + ridge[..., None, None] * eye)
