"""The ridge problems that compiled transformers solve in studies: a bounded condition number, the rest drawn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import synthetic
from ridgeformer.kernels import DotProduct, Exponential, Kernel

__all__ = ["TEMPERATURE", "CompiledProblem", "kernel_of", "problem_with_condition_number"]

TEMPERATURE = 0.5
"""Of softmax attention; rows have length at most one."""


@dataclass(frozen=True, eq=False)
class CompiledProblem:
    """Rows, targets, and the ridge that bounds the condition number of K + ridge I.

    Attributes:
        X: Rows; the longest has length one.
        y: Independent normal targets.
        ridge: The regularisation.
        extremes: The smallest and the largest eigenvalue of K + ridge I.
    """

    X: Tensor
    y: Tensor
    ridge: float
    extremes: tuple[float, float]


def kernel_of(attention: str) -> Kernel:
    """Return the kernel that an attention computes in these studies."""
    return Exponential(TEMPERATURE) if attention in ("softmax", "vanilla") else DotProduct()


def problem_with_condition_number(
    attention: str, n: int, d: int, kappa: float, decay: str, seed: int
) -> CompiledProblem:
    """Return a problem of `n` rows with 1 + norm(K)/ridge = `kappa`, which bounds its condition number.

    The Gram matrix has d < n eigenvalues that decay as `decay` says over the same range. For linear attention K is
    singular and `kappa` is the condition number; softmax attention's kernel has full rank, and its may be smaller.

    Example:
        >>> problem = problem_with_condition_number("linear", 8, 3, 100.0, "log", seed=0)
        >>> round(problem.extremes[1] / problem.extremes[0], 9)
        100.0
    """
    X = torch.from_numpy(synthetic(n, d, condition_number=kappa, decay=decay, seed=seed).X)
    X = X / X.norm(dim=1).max()
    rows = X - X.mean(0) if attention == "imitation" else X  # it solves for features centred over the supports
    kernel = kernel_of(attention)
    eigenvalues = torch.linalg.eigvalsh(kernel(rows)).clamp_min(0)
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    ridge = high / (kappa - 1)
    y = torch.randn(n, generator=torch_generator(seed, "targets"), dtype=torch.float64)
    return CompiledProblem(X, y, ridge, (low + ridge, high + ridge))
