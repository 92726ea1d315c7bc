"""Huber regression by iteratively reweighted least squares [Huber1964], [Holland1977]."""

from __future__ import annotations

from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.macros import cg_start, cg_step
from ridgeformer.language.writing import ProgramWriter

__all__ = ["huber"]


@algorithm
def huber(net: ProgramWriter, delta: float = 1.0, ridge: float = 0.01, inner: int = 4) -> None:
    """Robust regression with Huber's loss, by iteratively reweighted least squares.

    Minimises mean h(x'w - y) + ridge |w|^2 / 2, h(r) = r^2 / 2 up to delta and delta |r| - delta^2 / 2 beyond. Every
    step gives the supports the weights min(1, delta / |r|) and solves the weighted ridge regression by `inner` steps of
    conjugate gradients from the last coefficients.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients")
    with net.step():
        net.let(e="dot(x, w) - y")
        net.let(h="delta / max(abs(e), delta)")
        net.let(r="-mean(h * e * x) - ridge * w")
        cg_start(net)
        for _ in range(inner):
            cg_step(net, "w", lambda: net.let(u="mean(h * dot(x, q) * x) + ridge * q"))
        net.record("w")
        net.predict("dot(x, w)")


@huber.fixed_point
def gradient(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return the gradient mean h'(x'w - y) x + ridge w, which is zero at the minimum and nowhere else."""
    w, delta, ridge = values["w"][-1, 0], *(getattr(value, name) for name in ("delta", "ridge"))
    return X.T @ (X @ w - y[:, 0]).clamp(-delta, delta) / len(X) + ridge * w
