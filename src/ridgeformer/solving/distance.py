"""How far a fit on centres is from that of all rows: an estimate, calibrated on tasks where the exact fit is known.

With a = (y - f) / ridge, E = K - its Nystrom approximation and v = K a - f = E a, the difference at the training rows
is ridge (K + ridge I)^-1 v. Where the centres have taken up what is smooth, K acts on v about as E does. Of E only some
rows and columns are known. Either the rows that matter to each other are all among them (local), or they stand for all
rows, whose eigenvalues are n / s times as large (global). The truth lies between, and the geometric mean of both, g, is
wrong by a factor that changes little from m / 2 centres to m. So the fit on half of the centres is made too. If the
differences from it and from that of all rows are about orthogonal, and fall by rho = g_m / g_{m/2}, the distance is
that between the two fits times rho / sqrt(1 - rho^2). The estimate is a factor times the geometric mean of that and g.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solving.direct import factorise_in_place

__all__ = ["LARGEST_RATIO", "describe_distance", "estimate_distance", "sampled_distance"]

LARGEST_RATIO = 0.95
"""Of g_m and g_{m/2}: where they are nearly alike, nothing can be said by doubling."""

FACTOR = 1.2
"""Chosen on ten tasks (benchmarks/distance_calibration.py), where the median of truth over estimate was 1.12 with 5 %
of the rows sampled and 1.38 with 1.5 %."""


def sampled_distance(E: Float[Tensor, "s s"], v: Float[Tensor, "s r"], ridge: float, n: int) -> dict[str, Tensor]:
    """Return the local and the global estimate of the distance, and their geometric mean g, per output.

    Example:
        >>> found = sampled_distance(torch.eye(2).double(), torch.ones(2, 1).double(), 1.0, n=6)
        >>> {name: round(float(value), 3) for name, value in found.items()}
        {'local': 0.5, 'global': 0.25, 'g': 0.354}
    """

    def shrunk(scale: float) -> Tensor:
        jitter = torch.finfo(torch.float64).eps * float(E.diagonal().abs().sum())
        while not factorise_in_place(lower := scale * E, ridge + jitter):  # rounding may make E indefinite
            jitter *= 10
        return ridge * torch.cholesky_solve(v, lower.tril_()).square().mean(0).sqrt()

    local, everywhere = shrunk(1.0), shrunk(n / len(E))
    return {"local": local, "global": everywhere, "g": (local * everywhere).sqrt()}


def estimate_distance(g: Tensor, g_half: Tensor, change: Tensor) -> Tensor:
    """Return the estimate from g on all centres, on half of them, and the distance between the two fits, per output.

    Example:
        >>> g, g_half, change = torch.tensor([[3.0], [5.0], [4.0]])
        >>> round(float(estimate_distance(g, g_half, change) / FACTOR), 3)  # the theorem of Pythagoras
        3.0
    """
    ratio = torch.where(g_half > 0, g / torch.where(g_half > 0, g_half, 1.0), 0.0).clamp_max(LARGEST_RATIO)
    return FACTOR * (g * change * ratio / (1 - ratio.square()).sqrt()).sqrt()


def describe_distance(count: int, n: int, distance: Tensor, size: Tensor, *, from_above: bool) -> str:
    """Return one sentence on a fit on centres: how far it is from that of all rows, and how that is known.

    `distance` and `size`, the root mean square of the targets, are per output; `from_above` says that the estimate is
    one of an upper bound.

    Example:
        >>> print(describe_distance(64, 9000, torch.tensor([0.02]), torch.tensor([2.0]), from_above=False))
        Fitted on centres only, 64 of 9,000 rows: over the training rows the fit differs from that of all rows by about
        2.0e-02 in root mean square, 0.01 of the targets' (an estimate, usually within a factor of 3, and no bound).
        Take more centres, or algorithm='mixed_pcg' for all rows.
    """
    worst = int(distance.argmax())
    far, part = float(distance[worst]), float(distance[worst] / size[worst]) if size[worst] > 0 else 0.0
    how = "estimated from above" if from_above else "an estimate, usually within a factor of 3"
    about = "at most about" if from_above else "about"
    return (
        f"Fitted on centres only, {count:,} of {n:,} rows: over the training rows the fit differs from that of all "
        f"rows by {about} {far:.1e} in root mean square, {part:.2g} of the targets' ({how}, and no bound). Take more "
        "centres, or algorithm='mixed_pcg' for all rows."
    )
