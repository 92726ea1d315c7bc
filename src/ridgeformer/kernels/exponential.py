"""The exponential kernel: what softmax attention computes before it normalises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.core.errors import InputError, LogitRangeError
from ridgeformer.kernels.base import BLOCK_ENTRIES, LogitKernel, gamma, underflow

__all__ = ["Exponential"]

LARGEST_LOGIT = {torch.float32: 80.0, torch.float64: 690.0}
"""Above this an entry is refused: exp would be within a factor of about 1e4 (1e8) of overflow."""

COMFORTABLE_LOGIT = {torch.float32: 30.0, torch.float64: 300.0}
"""Above this a solver works with e^-c K: squares of entries must still be representable."""


@dataclass(frozen=True, eq=False)
class Exponential(LogitKernel):
    """k(x, z) = exp(<U x, U z> / temperature - log_scale), the kernel of a softmax attention head.

    Softmax attention with queries U x and keys U z is this kernel divided by its row sums. With
    `log_scale = c` it is e^-c times the textbook kernel; a ridge given with it refers to the scaled kernel.

    Logits beyond what the precision holds are refused, never turned into inf: `within_range(X)` gives
    the same kernel rescaled for the data, and `solve` applies it and reports the scale.

    Args:
        temperature: tau > 0.
        projection: U, (p, d) for rows of d features; None means the identity.
        log_scale: c.

    Example:
        >>> Exponential(temperature=2.0)([[1.0, 1.0], [0.0, 0.0]])
        tensor([[2.7183, 1.0000], [1.0000, 1.0000]], dtype=torch.float64)
    """

    log_scale: float = 0.0

    name: ClassVar[str] = "exponential"
    semidefinite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.log_scale, int | float) or not -inf < self.log_scale < inf:
            raise InputError(f"log_scale is {self.log_scale!r}; a finite number was expected.")

    def logits(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return <U x_i, U z_j> / temperature - log_scale, refusing what exp cannot hold."""
        left = self.scaled(X)
        right = left if Z is X else self.scaled(Z)
        logits = left @ right.T
        if self.log_scale:
            logits.sub_(self.log_scale)
        self._check_range(left, right, logits)
        return logits

    def attention_logits(self, rows: Float[Tensor, "n p"]) -> tuple[None, float]:
        """Return no key bias, and the sink's logit: log_scale."""
        return None, self.log_scale

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return exp(|U x_i|^2 / temperature - log_scale)."""
        own = self.own_logits(X) - self.log_scale
        self._refuse(own)
        return own.exp()

    def check_range(self, X: Float[Tensor, "n d"], name: str) -> Float[Tensor, "n d"]:
        """Return X: what the precision cannot hold is decided logit by logit, in `logits`."""
        return X

    def representable(self, Xq: Float[Tensor, "q d"], X: Float[Tensor, "n d"] | None = None) -> Bool[Tensor, " q"]:
        """Return which query rows have no logit with the rows X (by default: with itself) beyond the precision."""
        limit = LARGEST_LOGIT[Xq.dtype] + self.log_scale
        with torch.no_grad():
            own = self.own_logits(Xq)
            if X is None:
                return own <= limit
            held = own.sqrt() * self.own_logits(X).max().sqrt() <= limit  # Cauchy-Schwarz
            doubtful = (~held).nonzero()[:, 0]
            if len(doubtful) == 0:
                return held
            right = self.scaled(X).T
            for rows in doubtful.split(max(1, BLOCK_ENTRIES // len(X))):
                held[rows] = (self.scaled(Xq[rows]) @ right).amax(1) <= limit
        return held

    def largest_logit(self, X: Float[Tensor, "n d"]) -> float:
        """Return max_i |U x_i|^2 / temperature, which no logit between rows of X exceeds."""
        return float(self.own_logits(X.detach()).max())

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
        own = self.own_logits(X.detach())
        largest = float(own.max())
        if not largest < torch.finfo(X.dtype).max / 4:
            raise LogitRangeError(
                f"squared row lengths divided by temperature {self.temperature:g} overflow {X.dtype}: "
                "scale the rows (datasets.unit_rows) or raise the temperature."
            )
        if largest - self.log_scale <= COMFORTABLE_LOGIT[X.dtype]:
            return self
        if largest - float(own.min()) > LARGEST_LOGIT[X.dtype] or float(self.logit_error(X).max()) > 0.1:
            raise LogitRangeError(
                f"the rows' own logits go from {float(own.min()):.3g} to {largest:.3g}, more than {X.dtype} holds side "
                f"by side: scale the rows (datasets.unit_rows) or raise the temperature (now {self.temperature:g})."
            )
        return replace(self, log_scale=largest)

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return w_i with w_i^2 = e^delta_i (e^delta_i - 1) k(x_i, x_i), delta_i bounding the error of its own logit.

        The error of another logit, k(x_i, x_j), is at most sqrt(delta_i delta_j) (Cauchy-Schwarz), and log(e^t - 1) is
        convex in log t, so the entry errs by at most w_i w_j. The factor e^delta_i allows for k(x_i, x_i), which is
        computed too.
        """
        own, delta = self._own_and_error(X)
        root = ((own - self.log_scale) / 2).exp()  # infinite, and still a bound, beyond the range
        w = (delta.exp() * delta.expm1()).sqrt() * root + sqrt(underflow(1, X.dtype))
        return w.nan_to_num(nan=inf, posinf=inf).to(X.dtype)

    def roots(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return upper bounds on sqrt(k(x_i, x_i)) in float64, infinite where float64 cannot hold them."""
        both = [self._own_and_error(rows.to(torch.float64)) for rows in X.detach().split(512)]
        own, delta = (torch.cat(part) for part in zip(*both, strict=True))
        return ((own - self.log_scale + delta) / 2).exp() + sqrt(underflow(1, torch.float64))

    def logit_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return how far the computed |U x_i|^2 / temperature - log_scale can be from the exact one, in float64."""
        return self._own_and_error(X)[1]

    def _own_and_error(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return |U x_i|^2 / temperature and `logit_error`, in float64; X is read once where there is no U.

        Roundings that a term of a logit passes through, with p = d and U = I where there is no projection: the
        sum over p; U rounded to this precision, and the sum over d, on either side; the square root of the
        temperature, rounded twice, and the division by it, on either side. For log_scale: its own rounding and the
        subtraction. Then those of exp itself, correct to two units in the last place.
        """
        lengths = torch.cat([rows.detach().double().square().sum(1) for rows in X.split(512)])
        own = lengths / self.temperature if self.projection is None else self.own_logits(X.detach().double())
        d, size = X.shape[1], 1.0
        terms = d + 6
        if self.projection is not None:
            p, size = len(self.projection), float(self.projection.detach().double().norm()) ** 2
            terms = p + 2 * (d + 1) + 6
        lengths = lengths * (size / self.temperature)
        small = underflow(terms, X.dtype) * (1 + lengths.sqrt())
        # one or two roundings more than counted pay for the evaluation of this very bound
        scale = gamma(3, X.dtype) * abs(self.log_scale)
        return own, gamma(terms + 2, X.dtype) * lengths + scale + gamma(4, X.dtype) + small

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

    def entrywise(self, X: Float[Tensor, "n d"]) -> Callable[[Tensor, slice, slice], Tensor] | None:
        """Return the exponential, if dot products of rows are the logits."""
        if self.temperature != 1 or self.projection is not None:
            return None
        return lambda dots, rows, columns: dots.sub_(self.log_scale).exp_()

    def _check_range(self, left: Tensor, right: Tensor, logits: Tensor) -> None:
        pass
