"""Kernels that are the exponential of a logit: dot products of projected rows, divided by a temperature."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, positive
from ridgeformer.kernels.base import Kernel, project

__all__ = ["LogitKernel"]


@dataclass(frozen=True, eq=False)
class LogitKernel(Kernel):
    """k(x, z) = exp(logit(x, z)), where the logit is <U x, U z> / temperature plus terms of x and of z alone.

    Softmax attention computes such kernels: terms of z are added to the keys' logits, terms of x to that of a sink.
    """

    temperature: float
    projection: Any = None

    def __post_init__(self) -> None:
        tau = positive(self.temperature, "temperature", "logits are divided by it")
        object.__setattr__(self, "temperature", tau)
        if self.projection is not None:
            object.__setattr__(self, "projection", as_matrix(self.projection, "projection"))

    @abstractmethod
    def logits(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return the logits between rows; `Z is X` asks for those of a Gram matrix."""

    @abstractmethod
    def attention_logits(self, rows: Float[Tensor, "n p"]) -> tuple[Tensor | None, Tensor | float]:
        """Return, for scaled rows, what is added to the logits of each key, and each query's logit for the sink.

        The kernel is exp(<q, k> + key - sink), which attention with a sink gives as the quotient of two channels.
        """

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return the exponential of the logits."""
        return self.logits(X, Z).exp_()

    def project(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return the rows U x."""
        return project(X, self.projection)

    def scaled(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return the rows U x / sqrt(temperature)."""
        projected = self.project(X)
        return projected if self.temperature == 1 else projected / sqrt(self.temperature)

    def own_logits(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return |U x_i|^2 / temperature, some rows at a time so that no second X is made."""
        return torch.cat([self.project(rows).square().sum(1) for rows in X.split(512)]) / self.temperature

    def prepared(self, X: Float[Tensor, "n d"]) -> tuple[Kernel, Float[Tensor, "n c"]]:
        """Return the kernel at temperature 1 and the rows U x / sqrt(temperature), whose zero features are left out.

        Example:
            >>> from ridgeformer.kernels import Exponential
            >>> kernel, rows = Exponential(4.0).prepared(torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0]]))
            >>> kernel.temperature, rows
            (1.0, tensor([[0.5000, 1.0000],
                    [1.5000, 0.0000]]))
        """
        kernel = replace(cast("LogitKernel", self.unchecked(X)), temperature=1.0, projection=None)
        rows = self.project(X)
        used = torch.stack([(some != 0).any(0) for some in rows.split(512)]).any(0)
        root = sqrt(self.temperature)
        return kernel, rows / root if bool(used.all()) else rows[:, used].div_(root)
