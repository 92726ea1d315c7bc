"""The exponential kernel: what softmax attention computes before it normalises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import expm1, inf, sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.checks import as_matrix, positive
from ridgeformer.errors import InputError, LogitRangeError, ShapeError
from ridgeformer.kernels.base import Kernel, gamma

__all__ = ["Exponential"]

LARGEST_LOGIT = {torch.float32: 80.0, torch.float64: 690.0}
"""Above this an entry is refused: exp would be within a factor of about 1e4 (1e8) of overflow."""

COMFORTABLE_LOGIT = {torch.float32: 30.0, torch.float64: 300.0}
"""Above this a solver works with e^-c K: squares of entries must still be representable."""


@dataclass(frozen=True, eq=False)
class Exponential(Kernel):
    """k(x, z) = exp(<U x, U z> / temperature - log_scale), the kernel of a softmax attention head.

    Softmax attention with queries U x and keys U z is this kernel divided by its row sums. With
    `log_scale = c` it is e^-c times the textbook kernel; a ridge given with it refers to the scaled kernel.

    Logits beyond what the precision holds are refused, never turned into inf: `within_range(X)` gives
    the same kernel rescaled for the data, and `solve` applies it and reports the scale.

    Args:
        temperature: tau > 0.
        projection: U, (d, p); None means the identity.
        log_scale: c.

    Example:
        >>> Exponential(temperature=2.0)([[1.0, 1.0], [0.0, 0.0]])
        tensor([[2.7183, 1.0000], [1.0000, 1.0000]], dtype=torch.float64)
    """

    temperature: float
    projection: Any = None
    log_scale: float = 0.0

    name: ClassVar[str] = "exponential"
    semidefinite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        tau = positive(self.temperature, "temperature", "logits are divided by it")
        object.__setattr__(self, "temperature", tau)
        if not isinstance(self.log_scale, int | float) or not -inf < self.log_scale < inf:
            raise InputError(f"log_scale is {self.log_scale!r}; a finite number was expected.")
        if self.projection is not None:
            object.__setattr__(self, "projection", as_matrix(self.projection, "projection"))

    def project(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return the rows U x."""
        if self.projection is None:
            return X
        if self.projection.shape[1] != X.shape[1]:
            raise ShapeError(
                f"projection has shape {tuple(self.projection.shape)} and X has {X.shape[1]} features: "
                "give U as (projected, features)."
            )
        return X @ self.projection.to(dtype=X.dtype, device=X.device).T

    def scaled(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return the rows U x / sqrt(temperature), whose dot products are the logits."""
        projected = self.project(X)
        return projected if self.temperature == 1 else projected / sqrt(self.temperature)

    def logits(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return <U x_i, U z_j> / temperature - log_scale, refusing what exp cannot hold."""
        left = self.scaled(X)
        right = left if Z is X else self.scaled(Z)
        logits = left @ right.T
        if self.log_scale:
            logits.sub_(self.log_scale)
        self._check_range(left, right, logits)
        return logits

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return the exponential of the logits."""
        return self.logits(X, Z).exp_()

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return exp(|U x_i|^2 / temperature - log_scale)."""
        own = self.own_logits(X) - self.log_scale
        self._refuse(own)
        return own.exp()

    def own_logits(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return |U x_i|^2 / temperature, some rows at a time so that no second X is made."""
        return torch.cat([self.project(rows).square().sum(1) for rows in X.split(512)]) / self.temperature

    def check_range(self, X: Float[Tensor, "n d"], name: str) -> Float[Tensor, "n d"]:
        """Return X: what the precision cannot hold is decided logit by logit, in `logits`."""
        return X

    def largest_logit(self, X: Float[Tensor, "n d"]) -> float:
        """Return max_i |U x_i|^2 / temperature, which no logit between rows of X exceeds."""
        return float(self.own_logits(X.detach()).max())

    def prepared(self, X: Float[Tensor, "n d"]) -> tuple[Exponential, Float[Tensor, "n c"]]:
        """Return the kernel at temperature 1 and the rows U x / sqrt(temperature), whose zero features are left out.

        Example:
            >>> kernel, rows = Exponential(4.0).prepared(torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0]]))
            >>> kernel.temperature, rows
            (1.0, tensor([[0.5000, 1.0000],
                    [1.5000, 0.0000]]))
        """
        kernel = replace(self.unchecked(X), temperature=1.0, projection=None)
        rows = self.project(X)
        used = torch.stack([(some != 0).any(0) for some in rows.split(512)]).any(0)
        root = sqrt(self.temperature)
        return kernel, rows / root if bool(used.all()) else rows[:, used].div_(root)

    def unchecked(self, X: Float[Tensor, "n d"]) -> Exponential:
        """Return this kernel, without its look at every block where no logit between rows of X can overflow."""
        within = self.largest_logit(X) - self.log_scale <= LARGEST_LOGIT[torch.float32]
        return _WithinRange(self.temperature, self.projection, self.log_scale) if within else self

    def within_range(self, X: Float[Tensor, "n d"]) -> Exponential:
        """Return this kernel with `log_scale` raised to the largest logit on X, if that is uncomfortable.

        Example:
            >>> X = torch.full((1, 1), 40.0)
            >>> Exponential(temperature=1.0).within_range(X).log_scale
            1600.0
        """
        largest = self.largest_logit(X)
        if not largest < torch.finfo(X.dtype).max / 4:
            raise LogitRangeError(
                f"squared row lengths divided by temperature {self.temperature:g} overflow {X.dtype}: "
                "scale the rows (datasets.unit_rows) or raise the temperature."
            )
        if largest - self.log_scale <= COMFORTABLE_LOGIT[X.dtype]:
            return self
        own = self.own_logits(X.detach())
        if largest - float(own.min()) > LARGEST_LOGIT[X.dtype] or self._logit_error(X) > 0.1:
            raise LogitRangeError(
                f"the rows' own logits go from {float(own.min()):.3g} to {largest:.3g}, more than {X.dtype} holds side "
                f"by side: scale the rows (datasets.unit_rows) or raise the temperature (now {self.temperature:g})."
            )
        return replace(self, log_scale=largest)

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return sqrt(e^delta - 1) sqrt(k(x_i, x_i)), delta bounding the error of any logit on X."""
        delta = self._logit_error(X)
        return ((expm1(delta) if delta < 700 else inf) * self.diagonal(X)).sqrt()

    def _logit_error(self, X: Tensor) -> float:
        """Return how far any computed logit on X can be from the exact one."""
        terms = X.shape[1] + (0 if self.projection is None else 2 * self.projection.shape[1]) + 3
        projected = 1.0 if self.projection is None else float(self.projection.detach().norm()) ** 2
        longest = max(float(rows.detach().double().square().sum(1).max()) for rows in X.split(512))
        lengths = longest * projected / self.temperature
        return gamma(terms, X.dtype) * (lengths + abs(self.log_scale)) + gamma(4, X.dtype)

    def _check_range(self, left: Tensor, right: Tensor, logits: Tensor) -> None:
        with torch.no_grad():
            lengths = left.norm(dim=1).max() * right.norm(dim=1).max()
            if not float(lengths) - self.log_scale <= LARGEST_LOGIT[logits.dtype]:
                self._refuse(logits)

    def _refuse(self, logits: Tensor) -> None:
        largest, limit = float(logits.detach().max()), LARGEST_LOGIT[logits.dtype]
        if not largest <= limit:
            raise LogitRangeError(
                f"the largest logit is {largest + self.log_scale:.4g} and log_scale is {self.log_scale:.4g}; "
                f"{logits.dtype} is safe up to a difference of {limit:g}: raise the temperature "
                f"(now {self.temperature:g}), scale the rows (datasets.unit_rows), or use kernel.within_range(X)."
            )


class _WithinRange(Exponential):
    """The kernel on rows none of whose logits can overflow, which need not be looked at block by block."""

    @property
    def entrywise(self) -> Callable[[Tensor], Tensor] | None:
        """The exponential, if dot products of rows are the logits."""
        if self.temperature != 1 or self.projection is not None:
            return None
        return lambda dots: dots.sub_(self.log_scale).exp_()

    def _check_range(self, left: Tensor, right: Tensor, logits: Tensor) -> None:
        pass
