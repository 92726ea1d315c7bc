"""Least squares by the Newton-Schulz iteration for an inverse [Schulz1933], [Fu2024]."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["newton_schulz"]


@algorithm
def newton_schulz(net: ProgramWriter) -> None:
    """Least squares by the Newton-Schulz iteration.

    V <- 2 V - V A V tends to the inverse of A = X'X, from V = I / trace A. No token holds a matrix: every token holds
    u = V x, and V A V x = sum of u_i (x_i'u) over the supports, which is one linear head.
    """
    net.features("x"), net.targets("y")
    net.let(u="x / sum(dot(x, x))")
    with net.step():
        net.attend({"v": "u"}, scores={("u", "x"): 1.0}, kind="linear", name="V A V x")
        net.let(u="2 * u - v")
        net.record("u")
        net.attend({"f": "y"}, scores={("u", "x"): 1.0}, kind="linear", name="answer")
        net.predict("f")


@newton_schulz.fixed_point
def residual(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return x - A u on the supports, A = X'X, which is zero where u = A^-1 x."""
    return X - values["u"][-1] @ (X.T @ X)


@newton_schulz.theorem(
    "norm of I - A V is at most (1 - 1 / (kappa m))^(2^t), m features, kappa the condition of A = X'X"
)
def quadratic(value: WrittenAlgorithm, X: Tensor, y: Tensor, Xq: Tensor, values: Values) -> tuple[Tensor, Tensor]:
    """Return the norm of I - A V after every step, V read from u = V x, and its bound."""
    A = X.T @ X
    eigenvalues = torch.linalg.eigvalsh(A)
    V = (torch.linalg.pinv(X) @ values["u"]).mT
    measured = torch.linalg.matrix_norm(torch.eye(X.shape[1], dtype=X.dtype) - A @ V, ord=2)
    first = 1 - eigenvalues[0] / eigenvalues.sum()
    powers = 2.0 ** torch.arange(1, len(V) + 1, dtype=X.dtype)
    rounding = 1e-14 * eigenvalues[-1] / eigenvalues[0]
    return measured, first**powers + rounding * powers.clamp_max(1e3)
