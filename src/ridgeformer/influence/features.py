"""What a kernel sees of the rows: the rows themselves, or attention over all training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["AttentionFeatures", "Features", "RawFeatures", "UnitRows"]

Features: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""features(X, Xq) gives what the kernel sees of the training rows and of the queries; differentiable in X."""


@dataclass(frozen=True)
class RawFeatures:
    """The rows as they are: moving x_i moves row i alone."""

    def __call__(self, X: Tensor, Xq: Tensor) -> tuple[Tensor, Tensor]:
        """Return X and Xq."""
        return X, Xq


@dataclass(frozen=True)
class AttentionFeatures:
    """Linearised attention over the training rows: f_att(X) = X X'X, and X'X x for a query x.

    It is transductive: every row attends to every training row, so moving x_i moves the features of all rows
    and of all queries. With the dot-product kernel and no normalisation the kernel matrix is G^3 (claim L1).

    `normalise` divides the features of each row by their length. Without `moving_context` gradients hold X'X fixed, as
    an attacker would who knows the model and not the rest of the data; values are the same.

    Example:
        >>> import torch
        >>> AttentionFeatures(normalise=False)(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 1.0]]))
        (tensor([[1., 0.], [0., 8.]]), tensor([[1., 4.]]))
    """

    normalise: bool = True
    moving_context: bool = True

    def __call__(self, X: Tensor, Xq: Tensor) -> tuple[Tensor, Tensor]:
        """Return the attention features of X and of Xq."""
        context = X if self.moving_context else X.detach()
        rows, queries = _attend(X, context), _attend(Xq, context)
        return (normalize(rows, dim=1), normalize(queries, dim=1)) if self.normalise else (rows, queries)


def _attend(X: Tensor, context: Tensor) -> Tensor:
    """Return X C'C for the context C, multiplied in the cheaper order: n d^2 operations, or n^2 d."""
    few = context.shape[0] < context.shape[1]
    return (X @ context.T) @ context if few else X @ (context.T @ context)


@dataclass(frozen=True)
class UnitRows:
    """Rows scaled to unit length before anything else sees them, so that an attack's eps is in the units of the data.

    `then` is what is made of the scaled rows.

    Example:
        >>> import torch
        >>> UnitRows(RawFeatures())(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]]))
        (tensor([[0.6000, 0.8000]]), tensor([[0., 1.]]))
    """

    then: Features

    def __call__(self, X: Tensor, Xq: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features of the scaled rows."""
        return self.then(normalize(X, dim=1), normalize(Xq, dim=1))
