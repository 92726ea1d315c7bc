"""How far a sum of kernels can move with its argument: the certified counterpart of an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from math import pi, sqrt
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DotProduct, Exponential, GramPower, Kernel, ReluNTK

__all__ = ["DUAL", "Drift", "Expansion", "drift"]

Drift: TypeAlias = Callable[[float], float]
"""drift(eps) bounds |g(x + v) - g(x)| for all |v| <= eps; it never falls."""

DUAL = {"linf": 1.0, "l2": 2.0}
"""The p of the dual norm: what |v| <= eps can do to v'w is eps |w|_p at most."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """g(x) = constant + sum_j a_j k(x, z_j), at one row x.

    Attributes:
        x: (1, d).
        Z: the rows z_j, (m, d).
        a: (m,).
        constant: added.
    """

    x: Float[Tensor, "1 d"]
    Z: Float[Tensor, "m d"]
    a: Float[Tensor, " m"]
    constant: float = 0.0

    def value(self, kernel: Kernel, x: Tensor) -> Tensor:
        """Return g(x)."""
        return self.constant + (kernel.dense(x, self.Z) @ self.a)[0]

    def slope(self, kernel: Kernel, norm: str) -> float:
        """Return the dual norm of the gradient of g at its own x."""
        x = self.x.clone().requires_grad_()
        with torch.enable_grad():
            gradient = torch.autograd.grad(self.value(kernel, x), x)[0]
        return float(gradient.norm(p=DUAL[norm]))


@singledispatch
def drift(kernel: Kernel, g: Expansion, norm: str) -> Drift | None:
    """Return a bound on how far g(x) can move, or None if there is none for this kernel.

    Holds with the rows z_j and, for a Gram power, the context held fixed. Computed in float64 without
    outward rounding.

    Example:
        >>> g = Expansion(torch.zeros(1, 2).double(), torch.tensor([[3.0, -4.0]]).double(), torch.ones(1).double())
        >>> drift(DotProduct(), g, "linf")(0.5), drift(DotProduct(), g, "l2")(0.5)
        (3.5, 2.5)
    """
    return None


@drift.register(DotProduct)
@drift.register(GramPower)
def _linear(kernel: Kernel, g: Expansion, norm: str) -> Drift | None:
    """G is linear in x, so eps times the dual norm of its gradient, and attained (claim L7, corrected)."""
    slope = g.slope(kernel, norm)
    return lambda eps: eps * slope


@drift.register
def _exponential(kernel: Exponential, g: Expansion, norm: str) -> Drift | None:
    """A logit moves by eps b_j at most: the gradient's part, and |a_j| k_j (e^(eps b_j) - 1 - eps b_j) for the rest."""
    slope, projected = g.slope(kernel, norm), kernel.project(g.Z)
    keys = projected if kernel.projection is None else projected @ kernel.projection.to(projected)
    b = (keys / kernel.temperature).norm(p=DUAL[norm], dim=1)
    size = g.a.abs() * kernel.dense(g.x, g.Z)[0]
    return lambda eps: eps * slope + float((size * (torch.expm1(eps * b) - eps * b)).sum())


@drift.register
def _relu_ntk(kernel: ReluNTK, g: Expansion, norm: str) -> Drift | None:
    """k(x, z) has slope at most |z| (1/2 + 1/(2 pi)) in x, and |z|/2 more with both layers trained.

    The angle turns by at most |v|/|x|, and |cos| <= 1; the kink at angle 0 has bounded slope. The second
    derivative is not bounded there, so nothing finer holds for all rows.
    """
    lipschitz = (1.0 if kernel.both_layers else 0.5) + 1 / (2 * pi)
    slope = lipschitz * float(g.a.abs() @ g.Z.norm(dim=1)) * (sqrt(g.x.shape[1]) if norm == "linf" else 1.0)
    return lambda eps: eps * slope
