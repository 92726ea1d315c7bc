"""Richardson iteration, which is gradient descent with a fixed step: depth about kappa."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ridgeformer.solvers.iterate import Iterate, Workshop

__all__ = ["fixed_step", "richardson"]


def richardson(workshop: Workshop, b: Tensor) -> Iterator[Iterate]:
    """Yield alpha <- alpha + eta (b - A alpha) with eta = 2 / (low + high), the best fixed step.

    Converges iff eta < 2 / (largest eigenvalue); the error falls by (kappa - 1)/(kappa + 1) a step.
    """
    low, high = workshop.ends
    return fixed_step(workshop, b, 2 / (low + high))


def fixed_step(workshop: Workshop, b: Tensor, eta: float) -> Iterator[Iterate]:
    """Yield the states of alpha <- alpha + eta (b - A alpha) from alpha = 0."""
    alpha, r = b.new_zeros(b.shape), b
    while True:
        alpha = alpha + eta * r
        r = r - eta * workshop.system.apply(r)
        yield Iterate(alpha, r)
