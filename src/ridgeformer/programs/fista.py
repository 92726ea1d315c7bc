"""ISTA with Nesterov's momentum [Beck2009]."""

from __future__ import annotations

from math import sqrt

from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["fista"]


@algorithm
def fista(net: ProgramWriter, penalty: float = 0.1, step_size: float = 0.5) -> None:
    """FISTA, accelerated soft thresholding for the lasso.

    As ISTA, with the gradient taken where momentum would lead: z = w + m (w - w_before), and m grows from step to step,
    so every step has weights of its own for it. The objective's distance from its minimum falls as 1 / t^2.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients")
    net.state("z", "features", "coefficients with momentum")
    t = 1.0
    for _ in net.each_step():
        t, before = (1 + sqrt(1 + 4 * t * t)) / 2, t
        net.constant(momentum=(before - 1) / t)
        net.let(g="mean((dot(x, z) - y) * x)")
        net.let(v="soft(z - step_size * g, step_size * penalty)")
        net.let(z="v + momentum * (v - w)", w="v")
        net.record("w")
        net.predict("dot(x, w)")


@fista.fixed_point
def residual(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return w - soft(w - step_size g, step_size penalty), which is zero at the lasso's solution and nowhere else."""
    w, eta, penalty = values["w"][-1, 0], *(getattr(value, name) for name in ("step_size", "penalty"))
    moved = w - eta * X.T @ (X @ w - y[:, 0]) / len(X)
    return w - moved.sign() * (moved.abs() - eta * penalty).clamp_min(0)
