"""Logistic regression by Newton's method, every step of it solved by conjugate gradients."""

from __future__ import annotations

from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.macros import cg_start, cg_step
from ridgeformer.language.writing import ProgramWriter

__all__ = ["logistic_newton"]


@algorithm
def logistic_newton(net: ProgramWriter, ridge: float = 0.01, inner: int = 4) -> None:
    """Logistic regression by Newton's method with conjugate gradients.

    Targets are 0 or 1. Every step solves H d = -gradient, H = mean p (1 - p) x x' + ridge I, by `inner` steps of
    conjugate gradients: exactly, in exact arithmetic, where `inner` is the number of features.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients")
    with net.step():
        net.let(p="sigmoid(dot(x, w))")
        net.let(r="-mean((p - y) * x) - ridge * w", h="p - p * p", d="0 * w")
        cg_start(net)
        for _ in range(inner):
            cg_step(net, "d", lambda: net.let(u="mean(h * dot(x, q) * x) + ridge * q"))
        net.let(w="w + d")
        net.record("w")
        net.predict("sigmoid(dot(x, w))")


@logistic_newton.fixed_point
def gradient(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return the gradient mean (p - y) x + ridge w, which is zero at the minimum and nowhere else."""
    w = values["w"][-1, 0]
    return X.T @ ((X @ w).sigmoid() - y[:, 0]) / len(X) + getattr(value, "ridge") * w  # noqa: B009
