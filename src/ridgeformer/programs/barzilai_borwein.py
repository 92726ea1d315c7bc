"""Gradient descent whose step sizes are found in context [Barzilai1988]."""

from __future__ import annotations

from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["barzilai_borwein"]


@algorithm
def barzilai_borwein(net: ProgramWriter, ridge: float = 0.1, step_size: float = 0.1) -> None:
    """Ridge regression by gradient descent with Barzilai-Borwein step sizes.

    The next step size is s's / s'd for the last move s and the change d of the gradient; `step_size` is the first one.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients")
    net.let(g="-mean(y * x)", eta="step_size")
    with net.step():
        net.let(s="-eta * g")
        net.let(w="w + s")
        net.let(new="mean((dot(x, w) - y) * x) + ridge * w")
        net.let(d="new - g", g="new")
        net.let(eta="dot(s, s) / dot(s, d)")
        net.record("w"), net.record("eta")
        net.predict("dot(x, w)")


@barzilai_borwein.fixed_point
def gradient(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return the gradient mean (x'w - y) x + ridge w, which is zero at the ridge regression and nowhere else."""
    w = values["w"][-1, 0]
    return X.T @ (X @ w - y[:, 0]) / len(X) + getattr(value, "ridge") * w  # noqa: B009
