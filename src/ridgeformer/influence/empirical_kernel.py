"""The tangent kernel of any torch module as a kernel between rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.kernels import Kernel
from ridgeformer.regime.empirical_ntk import empirical_ntk

__all__ = ["EmpiricalNTK"]


@dataclass(frozen=True, eq=False)
class EmpiricalNTK(Kernel):
    """k(x, z) = J(x) J(z)' at the module's present parameters, the mean over outputs: `empirical_ntk`.

    Holds for modules that treat rows one by one. Values only: no gradient goes through it.

    Args:
        model: maps (n, d) to (n, c).

    Example:
        >>> EmpiricalNTK(nn.Linear(2, 1, bias=False).double())([[1.0, 2.0]], [[3.0, 0.0]])
        tensor([[3.]], dtype=torch.float64)
    """

    model: nn.Module

    name: ClassVar[str] = "empirical_ntk"
    semidefinite: ClassVar[bool] = True

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return the kernel; between two sets of rows it is a block of that of both."""
        if Z is X:
            return empirical_ntk(self.model, X).to(X)
        return empirical_ntk(self.model, torch.cat([X, Z]))[: len(X), len(X) :].to(X)
