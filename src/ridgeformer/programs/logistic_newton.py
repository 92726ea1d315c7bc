"""Logistic regression by Newton's method, every step of it solved by conjugate gradients."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
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
