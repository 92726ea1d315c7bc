"""The Neumann series of (K + ridge I)^-1, which needs a ridge larger than the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ridgeformer.solvers.iterate import Iterate, Workshop
from ridgeformer.solvers.richardson import fixed_step

__all__ = ["neumann"]


def neumann(workshop: Workshop, b: Tensor) -> Iterator[Iterate]:
    """Yield the partial sums of sum_j (-K / ridge)^j b / ridge.

    They are Richardson's iterates with step 1 / ridge, and converge for every b iff ||K|| < ridge. An
    exponential kernel has K_ii >= 1, so a ridge below 1 always diverges (claim A3).
    """
    return fixed_step(workshop, b, 1 / workshop.system.ridge)
