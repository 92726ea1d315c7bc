"""Proximal gradient descent for the elastic net [Zou2005]."""

from __future__ import annotations

from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["elastic_net"]


@algorithm
def elastic_net(net: ProgramWriter, penalty: float = 0.1, ridge: float = 0.1, step_size: float = 0.5) -> None:
    """Proximal gradient descent for the elastic net.

    Minimises mean (x'w - y)^2 / 2 + penalty |w|_1 + ridge |w|^2 / 2.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients")
    with net.step():
        net.let(g="mean((dot(x, w) - y) * x)")
        net.let(w="soft(w - step_size * g, step_size * penalty) / (1 + step_size * ridge)")
        net.record("w")
        net.predict("dot(x, w)")


@elastic_net.fixed_point
def residual(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return w minus the next w, which is zero at the solution of the elastic net and nowhere else."""
    w, eta, penalty, ridge = values["w"][-1, 0], *(getattr(value, n) for n in ("step_size", "penalty", "ridge"))
    moved = w - eta * X.T @ (X @ w - y[:, 0]) / len(X)
    return w - moved.sign() * (moved.abs() - eta * penalty).clamp_min(0) / (1 + eta * ridge)
