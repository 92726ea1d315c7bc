"""The kernels and the task that influences are measured on."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.kernels import Exponential, Kernel, ReluNTK

__all__ = ["KERNELS", "labelled_digits"]

KERNELS: tuple[Kernel, ...] = (Exponential(0.5), ReluNTK())


def labelled_digits(n: int, queries: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw rows of unit length, their parity as +-1, and other rows to predict."""
    data = datasets.load("digits").sample(n + queries, seed)
    X = torch.from_numpy(datasets.unit_rows(data.X))
    y = 1.0 - 2.0 * torch.from_numpy(data.y % 2)
    return X[:n], y[:n].double(), X[n:]
