"""What every kernel can do: a dense matrix, its diagonal, and products with it that never hold it whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, as_tensor, cast, positive
from ridgeformer.core.errors import InputError, ShapeError

__all__ = ["BLOCK_ENTRIES", "FeatureKernel", "Kernel", "LogitKernel", "gamma", "project", "underflow"]

BLOCK_ENTRIES = 2**22
"""Entries of K that a matrix-free product holds at once: 32 MiB in float64."""

BLOCK_COLUMNS = 2**12
"""Columns of them at most: blocks of a few rows and all columns would be slow to multiply and scale Z for each row."""


def gamma(terms: int, dtype: torch.dtype) -> float:
    """Return Higham's gamma_m = m u / (1 - m u): the relative error of a sum of `terms` products.

    Holds for any order of summation while m u < 1, with u the unit round-off of `dtype`.
    """
    product = terms * torch.finfo(dtype).eps / 2
    return product / (1 - product) if product < 1 else float("inf")


def underflow(operations: int, dtype: torch.dtype) -> float:
    """Return how much that many operations can lose, in all, to underflow: the smallest normal number for each.

    That is twice what gradual underflow loses, and what it loses where subnormal numbers are flushed to zero.
    """
    return operations * torch.finfo(dtype).tiny


def project(X: Float[Tensor, "n d"], U: Tensor | None) -> Float[Tensor, "n p"]:
    """Return the rows U x, or X if there is no U."""
    if U is None:
        return X
    if U.shape[1] != X.shape[1]:
        raise ShapeError(
            f"projection has shape {tuple(U.shape)} and X has {X.shape[1]} features: give U as (projected, features)."
        )
    return X @ U.to(dtype=X.dtype, device=X.device).T


class Kernel(ABC):
    """A positive semidefinite function of two rows.

    A new kernel implements `dense`; everything else follows from it, and `diag` and `entry_error` are
    worth overriding. Public calls check their input; `dense`, `diagonal` and `product` trust theirs.

    Device and dtype follow the first argument. Gradients are exact, by autograd.
    """

    name: ClassVar[str]
    semidefinite: ClassVar[bool] = False
    """Whether theory says so for every X; a kernel for which it does not is tested before it is trusted."""
    log_scale: float = 0.0
    """The kernel is e^-log_scale times its textbook form; only `Exponential` uses it."""

    # -- public: checked ---------------------------------------------------------------------------

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Float[Tensor, "n m"]:
        """Return the dense matrix k(x_i, z_j); `Z=None` means Z = X."""
        X = self.check_range(as_matrix(X, "X"), "X")
        return self.dense(X, X if Z is None else self.check_range(as_query(Z, X, "Z"), "Z"))

    def diag(self, X: ArrayLike) -> Float[Tensor, " n"]:
        """Return k(x_i, x_i) without forming the matrix."""
        return self.diagonal(as_matrix(X, "X"))

    def matvec(self, X: ArrayLike, Z: ArrayLike | None, V: ArrayLike) -> Float[Tensor, "n ..."]:
        """Return K(X, Z) V for one vector or several columns, holding `BLOCK_ENTRIES` of K at most."""
        X = self.check_range(as_matrix(X, "X"), "X")
        Z = X if Z is None else self.check_range(as_query(Z, X, "Z"), "Z")
        V = cast(as_tensor(V, "V"), X, "V")
        if V.ndim not in (1, 2) or V.shape[0] != Z.shape[0]:
            raise ShapeError(
                f"V has shape {tuple(V.shape)}; ({Z.shape[0]},) or ({Z.shape[0]}, columns) was expected: "
                "one entry per row of Z."
            )
        return self.product(X, Z, V)

    def check_range(self, X: Float[Tensor, "n d"], name: str) -> Float[Tensor, "n d"]:
        """Return X, or refuse rows whose kernel values the precision cannot hold: |k(x, z)|^2 <= k(x, x) k(z, z)."""
        held = self.representable(X)
        if not bool(held.all()):
            row = int((~held).nonzero()[0])
            raise InputError(
                f"the kernel {self.name!r} is not finite at row {row} of {name}, whose length is "
                f"{float(X[row].detach().double().norm()):.3g} in {X.dtype}: scale the rows (datasets.unit_rows)."
            )
        return X

    # -- to implement: unchecked -------------------------------------------------------------------

    @abstractmethod
    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return k(x_i, z_j); `Z is X` asks for a Gram matrix."""

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return k(x_i, x_i); this default forms small diagonal blocks."""
        return torch.cat([self.dense(rows, rows).diagonal() for rows in X.split(64)])

    def product(
        self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"], V: Float[Tensor, "m ..."]
    ) -> Float[Tensor, "n ..."]:
        """Return K(X, Z) V by blocks; under autograd each block is formed again going backwards."""

        def block(rows: Tensor, Z: Tensor, V: Tensor) -> Tensor:
            return self.dense(rows, Z) @ V

        if torch.is_grad_enabled() and any(t.requires_grad for t in (X, Z, V)):
            size = max(1, BLOCK_ENTRIES // Z.shape[0])
            return torch.cat([checkpoint(block, rows, Z, V, use_reentrant=False) for rows in X.split(size)])
        # Written in place: results kept between blocks would leave holes that the next block does not fit into.
        result = V.new_zeros(X.shape[0], *V.shape[1:])
        if Z.shape[0] == 0:
            return result
        size = max(1, BLOCK_ENTRIES // min(Z.shape[0], BLOCK_COLUMNS))
        for rows, place in zip(X.split(size), result.split(size), strict=True):
            for some, values in zip(Z.split(BLOCK_COLUMNS), V.split(BLOCK_COLUMNS), strict=True):
                place += block(rows, some, values)
        return result

    def prepared(self, X: Float[Tensor, "n d"]) -> tuple[Kernel, Float[Tensor, "n c"]]:
        """Return a kernel and rows with the same values among each other as this one on X, evaluated at less cost."""
        return self, X

    def unchecked(self, X: Float[Tensor, "n d"]) -> Kernel:
        """Return this kernel, without checks that hold for all rows of X and need not be made for some of them."""
        return self

    def entrywise(self, X: Float[Tensor, "n d"]) -> Callable[[Tensor, slice, slice], Tensor] | None:
        """Return what turns the dot products of some rows of X with some others into entries, in place.

        It is called with the dot products and the two slices. None where the kernel is no function of dot products.
        """
        return None

    def within_range(self, X: Float[Tensor, "n d"]) -> Kernel:
        """Return this kernel, rescaled where its entries on X would leave the range of the precision."""
        return self

    def representable(self, Xq: Float[Tensor, "q d"], X: Float[Tensor, "n d"] | None = None) -> Bool[Tensor, " q"]:
        """Return which query rows have entries k(x, x_j) with the rows X that the precision of Xq holds.

        This default, which does not look at X, asks whether k(x, x) is finite.
        """
        with torch.no_grad():
            return torch.isfinite(self.diagonal(Xq))

    def roots(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return upper bounds on sqrt(k(x_i, x_i)) in float64, whatever the precision of X; some rows at a time."""
        blocks = [rows.to(torch.float64) for rows in X.detach().split(512)]
        return torch.cat([self.diagonal(rows).clamp_min(0).sqrt() + self.entry_error(rows) for rows in blocks])

    def entry_error(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return w with |computed k(x_i, x_j) - k(x_i, x_j)| <= w_i w_j in the precision of X.

        It is what turns a residual computed with rounded entries into a bound on the true one. The default
        assumes entries correct to 8 d units of round-off relative to sqrt(k(x_i, x_i) k(x_j, x_j)), underflow aside.
        """
        lost = underflow(8 * X.shape[1] + 8, X.dtype) ** 0.5
        return (gamma(8 * X.shape[1], X.dtype) * self.diagonal(X).clamp_min(0)).sqrt() + lost


class FeatureKernel(Kernel):
    """A kernel with an explicit feature map: k(x, z) = phi(x)'phi(z), so products never form K at all."""

    @abstractmethod
    def feature_map(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return phi(x_i) as rows."""

    def features(self, X: ArrayLike) -> Float[Tensor, "n p"]:
        """Return phi(x_i) as rows, after checking X."""
        return self.feature_map(as_matrix(X, "X"))

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return phi(X) phi(Z)'."""
        left = self.feature_map(X)
        return left @ (left if Z is X else self.feature_map(Z)).T

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return the squared lengths of the features."""
        return self.feature_map(X).square().sum(1)

    def product(
        self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"], V: Float[Tensor, "m ..."]
    ) -> Float[Tensor, "n ..."]:
        """Return phi(X) (phi(Z)' V)."""
        left = self.feature_map(X)
        return left @ ((left if Z is X else self.feature_map(Z)).T @ V)


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
        unchecked = self.unchecked(X)
        assert isinstance(unchecked, LogitKernel)
        kernel = replace(unchecked, temperature=1.0, projection=None)
        rows = self.project(X)
        used = torch.stack([(some != 0).any(0) for some in rows.split(512)]).any(0)
        root = sqrt(self.temperature)
        return kernel, rows / root if bool(used.all()) else rows[:, used].div_(root)
