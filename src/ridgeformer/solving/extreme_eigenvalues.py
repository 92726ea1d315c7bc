"""The extreme eigenvalues of a matrix, from a few products with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite

import torch
from torch import Tensor

__all__ = ["ExtremeEigenvalues", "from_coefficients", "lanczos"]


@dataclass(frozen=True)
class ExtremeEigenvalues:
    """An estimate of the smallest and largest eigenvalue of the matrix an algorithm worked with.

    Attributes:
        low: never below the true smallest eigenvalue (a Ritz value), so an estimate from inside.
        high: never above the true largest eigenvalue.
        high_safe: the largest Ritz value plus its residual; above the true one except by bad luck.
            All three are infinite where products left the range of the precision.
        preconditioned: whether the matrix is P^-1/2 A P^-1/2 rather than A.
    """

    low: float
    high: float
    high_safe: float
    preconditioned: bool = False

    @property
    def kappa(self) -> float:
        """The estimated condition number, from inside."""
        return self.high / self.low if 0 < self.low < inf else inf


def lanczos(
    apply: Callable[[Tensor], Tensor], n: int, *, like: Tensor, generator: torch.Generator, steps: int = 30
) -> ExtremeEigenvalues:
    """Estimate the extreme eigenvalues of a symmetric matrix from `steps` products, with full reorthogonalisation.

    Example:
        >>> A = torch.diag(torch.tensor([1.0, 2.0, 9.0], dtype=torch.float64))
        >>> found = lanczos(lambda V: A @ V, 3, like=A, generator=torch.Generator().manual_seed(0))
        >>> round(found.low, 9), round(found.high, 9)
        (1.0, 9.0)
    """
    start = torch.randn(n, generator=generator, dtype=torch.float64).to(like)
    basis = [start / start.norm()]
    diagonal: list[float] = []
    beside: list[float] = []
    scale = 0.0
    for _ in range(min(steps, n)):
        w = apply(basis[-1][:, None])[:, 0]
        diagonal.append(float(basis[-1] @ w))
        Q = torch.stack(basis, dim=1)
        for _ in range(2):
            w = w - Q @ (Q.T @ w)
        beside.append(float(w.norm()))
        scale = max(scale, abs(diagonal[-1]), beside[-1])
        if not beside[-1] > n * torch.finfo(like.dtype).eps * scale:
            beside[-1] = 0.0
            break
        basis.append(w / beside[-1])
    return _ritz(diagonal, beside[:-1], beside[-1], preconditioned=False)


def from_coefficients(gammas: list[float], betas: list[float], *, preconditioned: bool) -> ExtremeEigenvalues | None:
    """Return the Ritz values that a conjugate-gradient run has found along the way, at no cost.

    CG's step sizes gamma_j and ratios beta_j are an LDL' factorisation of its Lanczos matrix. Steps after
    convergence (zeros) end the list; None if there is no usable step.
    """
    steps = next((j for j, g in enumerate(gammas) if not 0 < g < float("inf")), len(gammas))
    if steps == 0:
        return None
    g, b = gammas[:steps], betas[:steps]
    diagonal = [1 / g[j] + (b[j - 1] / g[j - 1] if j else 0.0) for j in range(steps)]
    beside = [max(b[j], 0.0) ** 0.5 / g[j] for j in range(steps)]
    return _ritz(diagonal, beside[:-1], beside[-1], preconditioned=preconditioned)


def _ritz(diagonal: list[float], beside: list[float], residual: float, *, preconditioned: bool) -> ExtremeEigenvalues:
    if not all(map(isfinite, (*diagonal, *beside, residual))):
        return ExtremeEigenvalues(inf, inf, inf, preconditioned)
    T = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    off = torch.tensor(beside, dtype=torch.float64)
    T = T + torch.diag(off, 1) + torch.diag(off, -1)
    values, vectors = torch.linalg.eigh(T)
    safe = float(values[-1]) + residual * abs(float(vectors[-1, -1]))
    return ExtremeEigenvalues(float(values[0]), float(values[-1]), safe, preconditioned)
