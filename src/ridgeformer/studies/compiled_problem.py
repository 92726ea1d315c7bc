"""The ridge problems that compiled transformers solve in studies: a bounded condition number, the rest drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ridgeformer.algorithms import Accelerated, Algorithm, ConjugateGradients, NadarayaWatson, resolve
from ridgeformer.compiler.specification import choose_attention
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import synthetic
from ridgeformer.kernels import DotProduct, Exponential, Kernel

__all__ = ["KERNELS", "CompiledProblem", "compilable", "problem_with_condition_number"]

SOFTMAX = Exponential(temperature=0.5)  # rows have length at most one
KERNELS: dict[str, Kernel] = {
    "linear": DotProduct(), "imitation": DotProduct(), "softmax": SOFTMAX, "vanilla": SOFTMAX
}  # fmt: skip
"""The kernel that each attention computes in these studies."""


class CompiledProblem(NamedTuple):
    """Rows, normal targets, the ridge, and the smallest and largest eigenvalue of K + ridge I."""

    X: Tensor
    y: Tensor
    ridge: float
    extremes: tuple[float, float]


def problem_with_condition_number(
    attention: str, n: int, d: int, kappa: float, decay: str, seed: int
) -> CompiledProblem:
    """Return a problem of `n` rows with 1 + norm(K)/ridge = `kappa`, which bounds its condition number.

    The Gram matrix has d < n eigenvalues that decay as `decay` says over the same range; the longest row has length
    one. For linear attention K is singular and `kappa` is the condition number; softmax attention's kernel has full
    rank, and its may be smaller.

    Example:
        >>> problem = problem_with_condition_number("linear", 8, 3, 100.0, "log", seed=0)
        >>> round(problem.extremes[1] / problem.extremes[0], 9)
        100.0
    """
    X = torch.from_numpy(synthetic(n, d, condition_number=kappa, decay=decay, seed=seed).X)
    X = X / X.norm(dim=1).max()
    kernel = KERNELS[attention]
    rows, _ = choose_attention(kernel, 1.0, attention).centre(X, X)
    eigenvalues = torch.linalg.eigvalsh(kernel(rows)).clamp_min(0)
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    ridge = high / (kappa - 1)
    y = torch.randn(n, generator=torch_generator(seed, "targets"), dtype=torch.float64)
    return CompiledProblem(X, y, ridge, (low + ridge, high + ridge))


def compilable(shorthand: str, steps: int, spectrum: tuple[float, float]) -> Algorithm:
    """Return an algorithm to compile: preconditioned by Jacobi if at all, accelerated for this spectrum.

    Example:
        >>> compilable("pcg", 8, (0.1, 1.0))
        ConjugateGradients(steps=8, preconditioner='jacobi')
    """
    algorithm = resolve(shorthand)
    options: dict[str, Any] = {} if isinstance(algorithm, NadarayaWatson) else {"steps": steps}
    if isinstance(algorithm, ConjugateGradients) and algorithm.preconditioned:
        options["preconditioner"] = "jacobi"
    if isinstance(algorithm, Accelerated):
        options["spectrum"] = spectrum
    return replace(algorithm, **options)
