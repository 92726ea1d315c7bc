"""Iterative soft thresholding for the lasso [Daubechies2004, Beck2009]."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
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
