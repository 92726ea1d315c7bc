"""The two factors of an influence, and a task to measure it on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.matrices import resolvent
from ridgeformer.kernels import Exponential, Kernel, ReluNTK

__all__ = ["KERNELS", "Factors", "factors", "labelled_digits"]

KERNELS: tuple[Kernel, ...] = (Exponential(0.5), ReluNTK())


@dataclass(frozen=True, eq=False)
class Factors:
    """What every influence is made of, with R = (K + l I)^-1.

    Attributes:
        query: R k(x), (queries, n).
        alpha: R y, (n,).
        diagonal: R_ii > 0, (n,).
    """

    query: Tensor
    alpha: Tensor
    diagonal: Tensor

    @property
    def leave_one_out(self) -> Tensor:
        """f(x) - f_{-i}(x) in closed form, (queries, n)."""
        return self.query * (self.alpha / self.diagonal)


def factors(kernel: Kernel, X: Tensor, y: Tensor, Z: Tensor, ridge: float) -> Factors:
    """Return the factors for rows X, targets y and queries Z."""
    R = resolvent(kernel(X), torch.tensor(ridge, dtype=torch.float64))
    return Factors(kernel(Z, X) @ R, R @ y, R.diagonal())


def labelled_digits(n: int, queries: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows of unit length, their parity as +-1, and other rows to predict."""
    data = datasets.load("digits", limit=n + queries)
    X = torch.from_numpy(datasets.unit_rows(data.X))
    y = 1.0 - 2.0 * torch.from_numpy(data.y % 2)
    return X[:n], y[:n].double(), X[n:]
