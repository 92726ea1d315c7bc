"""Conjugate gradients, plain or preconditioned: one product with K a step, depth about sqrt(kappa)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ridgeformer.solvers.iterate import Iterate, Workshop, divide

__all__ = ["conjugate_gradients"]


def conjugate_gradients(workshop: Workshop, b: Tensor) -> Iterator[Iterate]:
    """Yield the states of (preconditioned) conjugate gradients from alpha = 0.

    In exact arithmetic the error in the A-norm is at most 2 ((sqrt k - 1)/(sqrt k + 1))^t of the first
    (claim B2), k the condition number of the preconditioned matrix. Columns have their own scalars and
    share the product with K.
    """
    A, M = workshop.system, workshop.precondition
    alpha, r = b.new_zeros(b.shape), b
    z = M(r)
    p, rho = z, (r * z).sum(0)
    while True:
        u = A.apply(p)
        pu = (p * u).sum(0)
        gamma = divide(rho, pu)
        alpha = alpha + gamma * p
        r = r - gamma * u
        z = M(r)
        rho, previous = (r * z).sum(0), rho
        beta = divide(rho, previous)
        pp = (p * p).sum(0)
        curvature = torch.where(pp > 0, pu / pp, torch.inf)
        p = z + beta * p
        yield Iterate(alpha, r, gamma, beta, curvature)
