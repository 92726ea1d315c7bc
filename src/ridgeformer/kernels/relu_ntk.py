"""The neural tangent kernel [Jacot2018] of a wide two-layer ReLU network."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, gamma, underflow

__all__ = ["ReluNTK"]


@dataclass(frozen=True)
class ReluNTK(Kernel):
    """The infinite-width tangent kernel of f(x) = sum_r a_r relu(w_r.x) / sqrt(m), w_r ~ N(0, I), a_r = +-1.

    With t the angle between x and z:

    - first layer trained (the default): k = <x, z> (pi - t) / (2 pi);
    - both layers trained (`both_layers=True`): k + |x| |z| (sin t + (pi - t) cos t) / (2 pi).

    The angle is computed in float64 whatever the input, because arccos loses half the digits near 1.
    Angles below the resolution of the cosine count as 0: equal rows get their exact value |x|^2 / 2 and
    the exact gradient of moving both together; between distinct rows the kernel has a kink at t = 0.

    Example:
        >>> ReluNTK()([[3.0, 4.0]])
        tensor([[12.5000]], dtype=torch.float64)
    """

    both_layers: bool = False

    name: ClassVar[str] = "relu_ntk"
    semidefinite: ClassVar[bool] = True

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return the kernel from dot products and angles, in float64 inside."""
        left, right = X.to(torch.float64), Z.to(torch.float64)
        dots = left @ right.T
        lengths = left.norm(dim=1)[:, None] * right.norm(dim=1)[None, :]
        angle = _angle(dots, lengths, gamma(X.shape[1] + 8, torch.float64))
        kernel = dots * (pi - angle) / (2 * pi)
        if self.both_layers:
            kernel = kernel + (lengths * angle.sin() + (pi - angle) * dots) / (2 * pi)
        return kernel.to(X.dtype)

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return |x|^2 / 2, or |x|^2 with both layers trained."""
        return X.square().sum(1) / (1.0 if self.both_layers else 2.0)

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return w for an angle known to sqrt(2 gamma_d): the price of arccos near +-1."""
        angle_error = 2 * sqrt(2 * gamma(X.shape[1] + 8, torch.float64))
        small = sqrt(underflow(X.shape[1] + 8, X.dtype))
        return sqrt(angle_error + gamma(X.shape[1] + 8, X.dtype)) * X.norm(dim=1) + small


def _angle(dots: Tensor, lengths: Tensor, resolution: float) -> Tensor:
    """Return arccos(dots / lengths), exactly 0 or pi where the cosine cannot tell, pi/2 for zero rows."""
    cosine = dots / torch.where(lengths > 0, lengths, 1.0)
    parallel, opposite = cosine >= 1 - resolution, cosine <= -1 + resolution
    angle = torch.where(parallel | opposite, 0.0, cosine).arccos()
    return torch.where(parallel, 0.0, torch.where(opposite, pi, angle))
