"""The Gaussian kernel: softmax attention whose keys carry their own squared lengths as a bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.core.errors import LogitRangeError
from ridgeformer.kernels.base import LogitKernel, gamma, underflow

__all__ = ["Gaussian"]


@dataclass(frozen=True, eq=False)
class Gaussian(LogitKernel):
    """k(x, z) = exp(-|U x - U z|^2 / (2 temperature)), the exponential kernel scaled by rows and columns.

    It is computed from the same dot products as the exponential kernel: the logit is
    <U x, U z> / temperature - |U x|^2 / (2 temperature) - |U z|^2 / (2 temperature), clamped at 0, so nothing
    overflows. Distances that are small beside the rows lose digits; subtract the mean of the rows first. The loss is
    part of every bound.

    Args:
        temperature: tau > 0, the squared length scale.
        projection: U, (p, d) for rows of d features; None means the identity.

    Example:
        >>> Gaussian(temperature=0.5)([[1.0, 0.0], [0.0, 0.0]])
        tensor([[1.0000, 0.3679], [0.3679, 1.0000]], dtype=torch.float64)
    """

    name: ClassVar[str] = "gaussian"
    semidefinite: ClassVar[bool] = True

    def logits(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return -|U x_i - U z_j|^2 / (2 temperature), exactly 0 on the diagonal of a Gram matrix."""
        left = self.scaled(X)
        right = left if Z is X else self.scaled(Z)
        halves = _halves(left)
        return _distances(left @ right.T, halves, halves if right is left else _halves(right), right is left)

    def attention_logits(self, rows: Float[Tensor, "n p"]) -> tuple[Tensor, Tensor]:
        """Return -|z|^2 / 2 for the keys and |x|^2 / 2 for the sink."""
        halves = _halves(rows)
        return -halves, halves

    def entrywise(self, X: Float[Tensor, "n d"]) -> Callable[[Tensor, slice, slice], Tensor] | None:
        """Return what makes entries of dot products, if those of the rows are the logits'."""
        if self.temperature != 1 or self.projection is not None:
            return None
        halves = _halves(X)
        return lambda dots, rows, columns: _distances(dots, halves[rows], halves[columns], rows == columns).exp_()

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return ones."""
        return 0 * X[:, 0] + 1

    def check_range(self, X: Float[Tensor, "n d"], name: str) -> Float[Tensor, "n d"]:
        """Return X, or refuse rows whose squared lengths over the temperature overflow."""
        if not bool(self.representable(X).all()):
            raise LogitRangeError(
                f"squared row lengths of {name} divided by temperature {self.temperature:g} overflow {X.dtype}: "
                "scale the rows (datasets.unit_rows) or raise the temperature."
            )
        return X

    def within_range(self, X: Float[Tensor, "n d"]) -> Gaussian:
        """Return this kernel; refuse rows so long that float64 has no correct digit of a distance."""
        X = self.check_range(X, "X")
        if max(float(self._error(rows.double())[0].max()) for rows in X.detach().split(512)) > 0.1:
            largest = max(float(self.own_logits(rows.double()).max()) for rows in X.detach().split(512))
            raise LogitRangeError(
                f"squared row lengths reach {largest:.1e} temperatures, so "
                "no digit of a distance is right: subtract the mean of the rows or raise the temperature "
                f"(now {self.temperature:g})."
            )
        return self

    def representable(self, Xq: Float[Tensor, "q d"], X: Float[Tensor, "n d"] | None = None) -> Bool[Tensor, " q"]:
        """Return which rows have squared lengths that the precision holds."""
        limit = torch.finfo(Xq.dtype).max / 8
        with torch.no_grad():
            norms = Xq.new_empty(len(Xq), dtype=torch.float64)
            for rows, place in zip(Xq.split(512), norms.split(512), strict=True):
                place.copy_(rows.double().norm(dim=1))
            lengths = norms * (1.0 if self.projection is None else float(self.projection.double().norm()))
            return (lengths <= sqrt(limit)) & (lengths / sqrt(self.temperature) <= sqrt(limit))

    def roots(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return ones: k(x, x) = 1."""
        return torch.ones(len(X), dtype=torch.float64, device=X.device)

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return w with |computed k(x_i, x_j) - k(x_i, x_j)| <= w_i w_j.

        Write s_i = |U x_i| / sqrt(temperature) for the rows as they are projected and scaled. Rounding moves the logit
        by at most A_i + A_j, A_i = g (s_i^2 + 1) + c, and k(x_i, x_j) <= exp(-(s_i - s_j)^2 / 2), so the entry errs by
        at most (A_i + A_j) exp(A_i + A_j - (s_i - s_j)^2 / 2). The square root of A_i changes by at most
        sqrt(g) |s_i - s_j| from i to j and is at least sqrt(g), so (A_i + A_j) / 2 is at most
        (1 + (s_i - s_j)^2 / 2) sqrt(A_i A_j), and w_i = sqrt(2 A_i) exp(A_i) serves.

        Projecting moves the rows themselves by e_i, and the kernel by at most exp(-1/2) (e_i + e_j). With any floor f
        of the e, (e_i + f)(e_j + f) / (2 f) >= e_i + e_j.
        """
        error, moved, floor = self._error(X.detach())
        w = (2 * error).sqrt() * error.exp() + sqrt(underflow(1, X.dtype))
        if floor:
            w = w + (moved.clamp_min(floor) + floor) / sqrt(2 * floor)
        return w.nan_to_num(nan=inf, posinf=inf).to(X.dtype)

    def _error(self, X: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return A_i, e_i and a floor of the latter (0 where nothing is projected), in float64.

        A term of a dot product or of a half squared length passes through the sum over p features, the temperature's
        square root, rounded twice, and the division by it, on either side; two subtractions follow. Then those of exp
        itself, correct to two units in the last place.
        """
        own = torch.cat([self.own_logits(rows.double()) for rows in X.split(512)])
        p, moved, floor = X.shape[1], torch.zeros_like(own), 0.0
        if self.projection is not None:
            p = len(self.projection)
            size = float(self.projection.detach().double().norm()) / sqrt(self.temperature)
            floor = gamma(X.shape[1] + 5, X.dtype)
            moved = floor * size * torch.cat([rows.double().norm(dim=1) for rows in X.split(512)])
            own = (own.sqrt() + moved).square()  # of the rows as projected
        g = gamma(p + 12, X.dtype)
        small = underflow(3 * p + 20, X.dtype) * (1 + own.sqrt())
        return g * (own + 1) + gamma(4, X.dtype) + small, moved, floor


def _halves(rows: Tensor) -> Tensor:
    return rows.square().sum(1) / 2


def _distances(dots: Tensor, left: Tensor, right: Tensor, own: bool) -> Tensor:
    """Turn dot products into -|x - z|^2 / 2, in place, given half the squared lengths."""
    logits = dots.sub_(left[:, None]).sub_(right).clamp_max_(0)
    return logits.fill_diagonal_(0) if own else logits
