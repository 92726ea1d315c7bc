"""Huber regression by iteratively reweighted least squares [Huber1964], [Holland1977]."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
from ridgeformer.language.macros import cg_start, cg_step
from ridgeformer.language.writing import ProgramWriter

__all__ = ["huber"]


@algorithm
def huber(net: ProgramWriter, delta: float = 1.0, ridge: float = 0.01, inner: int = 4) -> None:
    """Huber regression by iteratively reweighted least squares.

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
