"""What an engine is: products with one kernel matrix K, wherever and however it is held."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.algorithms.base import Precondition
from ridgeformer.kernels import Kernel

__all__ = ["Engine", "LinAlgError"]

LinAlgError: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
"""A factorisation that does not exist in the precision at hand; `follow` turns it into a status."""


class Engine(ABC):
    """Products with K = k(X, X), in a working precision and in float64; solvers know nothing else of K.

    A product in float64 means the kernel evaluated in float64 on the rows as they were given: that is the K
    which a reported residual refers to. The working precision may be lower; what it loses is made good by
    refinement.
    """

    name: ClassVar[str]
    kernel: Kernel
    n: int
    """The number of rows."""
    dtype: torch.dtype
    """The working precision."""
    device: torch.device
    """Where columns are expected and given back."""
    span: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    """The least and the largest k(x, x) > 0 for which `matmat64` is right to float64 round-off and underflow."""
    rounding: int = 0
    """How many units of float64 round-off the entries in `matmat64` may err beyond those of the kernel's evaluation."""

    @abstractmethod
    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V computed in the working precision, in the dtype of V."""

    @abstractmethod
    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V with kernel and sums in float64."""

    @abstractmethod
    def columns(self, index: Int[Tensor, " k"]) -> Float[Tensor, "n k"]:
        """Return the columns of K at `index`, in the working precision and in memory that the caller may write to."""

    @abstractmethod
    def diagonal(self) -> Float[Tensor, " n"]:
        """Return k(x_i, x_i) in float64."""

    def accurate(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V in float64 at the accuracy a replaced residual needs; cheaper than `matmat64` where possible.

        An engine that stores K may use it as stored and only sum in float64.
        """
        return self.matmat64(V)

    def block(self, rows: Int[Tensor, " a"], columns: Int[Tensor, " b"]) -> Float[Tensor, "a b"]:
        """Return the entries of K at these rows and columns, in the working precision; they may be written to."""
        return self.columns(columns)[rows]

    def preconditioner(self, ridge: float, rank: int, generator: torch.Generator) -> Precondition | None:
        """Return P^-1 ~ (K + ridge I)^-1 if this engine builds its own, such as where the rows live elsewhere.

        None, the default, leaves it to the solver, which asks for `columns`.
        """
        return None
