"""Logistic regression by gradient descent."""

from __future__ import annotations

from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["logistic_descent"]


@algorithm
def logistic_descent(net: ProgramWriter, ridge: float = 0.01, step_size: float = 1.0) -> None:
    """Logistic regression by gradient descent.

    Targets are 0 or 1. Minimises mean log-loss + ridge |w|^2 / 2; queries answer with a probability. The sigmoid is one
    softmax head over the token itself and the aggregator.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients")
    with net.step():
        net.let(p="sigmoid(dot(x, w))")
        net.let(w="w - step_size * mean((p - y) * x) - step_size * ridge * w")
        net.record("w")
        net.predict("sigmoid(dot(x, w))")


@logistic_descent.fixed_point
def gradient(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return the gradient mean (p - y) x + ridge w, which is zero at the minimum and nowhere else."""
    w = values["w"][-1, 0]
    return X.T @ ((X @ w).sigmoid() - y[:, 0]) / len(X) + getattr(value, "ridge") * w  # noqa: B009
