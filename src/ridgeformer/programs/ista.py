"""Iterative soft thresholding for the lasso [Daubechies2004], with the rate of [Beck2009]."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["ista"]


@algorithm
def ista(net: ProgramWriter, penalty: float = 0.1, step_size: float = 0.5) -> None:
    """Iterative soft thresholding for the lasso.

    Minimises mean (x'w - y)^2 / 2 + penalty |w|_1: a gradient step on the squares, then every coefficient is moved
    towards zero by step_size * penalty, and held at zero if it would cross it.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients, the same on every token")
    with net.step():
        net.let(r="dot(x, w) - y")
        net.let(g="mean(r * x)")
        net.let(w="soft(w - step_size * g, step_size * penalty)")
        net.record("w")
        net.predict("dot(x, w)")


@ista.fixed_point
def residual(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return w - soft(w - step_size g, step_size penalty), which is zero at the lasso's solution and nowhere else."""
    w, eta, penalty = values["w"][-1, 0], *(getattr(value, name) for name in ("step_size", "penalty"))
    moved = w - eta * X.T @ (X @ w - y[:, 0]) / len(X)
    return w - moved.sign() * (moved.abs() - eta * penalty).clamp_min(0)


@ista.theorem("the objective never rises, if step_size <= 1 / (largest eigenvalue of X'X / n)")
def descent(value: WrittenAlgorithm, X: Tensor, y: Tensor, Xq: Tensor, values: Values) -> tuple[Tensor, Tensor]:
    """Return the objective after every step, and before it; infinite bounds where the step size is too large."""
    eta, penalty = (getattr(value, name) for name in ("step_size", "penalty"))
    w = torch.cat([torch.zeros_like(values["w"][:1, 0]), values["w"][:, 0]])
    objective = (w @ X.T - y[:, 0]).square().mean(1) / 2 + penalty * w.abs().sum(1)
    largest = torch.linalg.matrix_norm(X, 2) ** 2 / len(X)
    slack = 1e-12 * objective[0]
    return objective[1:], objective[:-1] + slack if eta * largest <= 1 else objective[:-1] * torch.inf
