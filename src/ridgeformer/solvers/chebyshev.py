"""Chebyshev iteration: fixed coefficients from the ends of the spectrum, no inner products, depth about sqrt(kappa)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from torch import Tensor

from ridgeformer.solvers.iterate import Iterate, Workshop

__all__ = ["chebyshev"]


def chebyshev(workshop: Workshop, b: Tensor) -> Iterator[Iterate]:
    """Yield the states of Chebyshev iteration on [low, high] from alpha = 0.

    The error falls by 1 / T_t((kappa + 1)/(kappa - 1)) when the spectrum lies in [low, high]; eigenvalues
    above high make it diverge, eigenvalues below low make it slow.
    """
    low, high = workshop.ends
    centre, half = (high + low) / 2, (high - low) / 2
    alpha, r = b.new_zeros(b.shape), b
    omega, quotient = 1.0, (half / centre) ** 2
    step = r / centre
    for t in count(1):
        alpha = alpha + step
        r = r - workshop.system.apply(step)
        yield Iterate(alpha, r)
        omega = 1 / (1 - quotient * omega / (2 if t == 1 else 4))
        step = (omega - 1) * step + (omega / centre) * r
