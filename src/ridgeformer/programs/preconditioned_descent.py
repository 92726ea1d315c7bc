"""Gradient descent preconditioned by the covariance of the features, as linear transformers learn it [Ahn2023]."""

from __future__ import annotations

from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["preconditioned_descent"]


@algorithm
def preconditioned_descent(net: ProgramWriter, step_size: float = 0.5, floor: float = 1e-3) -> None:
    """Gradient descent preconditioned by the covariance found in context.

    Every coordinate is divided by its mean square over the supports plus `floor`, which is the optimal preconditioner
    for one layer where the covariance is diagonal.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients")
    net.let(d="1 / (mean(x * x) + floor)")
    with net.step():
        net.let(w="w - step_size * d * mean((dot(x, w) - y) * x)")
        net.record("w")
        net.predict("dot(x, w)")


@preconditioned_descent.fixed_point
def gradient(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return the gradient mean (x'w - y) x, which is zero at least squares."""
    return X.T @ (X @ values["w"][-1, 0] - y[:, 0]) / len(X)
