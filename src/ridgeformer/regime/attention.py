"""Linearised attention over a fixed context: X X'X, its layers, its truncation, and its distance from softmax."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, positive, whole
from ridgeformer.core.errors import InputError
from ridgeformer.regime.rows import normalise_rows

__all__ = ["Attention", "softmax_gap"]


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention features of any row over a fixed context, in float64; on the context itself X X'X, rows normalised.

    It is softmax attention with W_Q = W_K = W_V = I and exp(a) ~ 1 + a, up to the constant term that only centred
    rows lose (`softmax_gap`). A row x that is not in the context attends to it: X'X x. Gradients flow through
    x and not through the context.

    Args:
        context: The rows attended to, (n, d).
        layers: How many.
        recompute: Every layer attends with its own input (True) or all with the context's first Gram matrix.
        rank: Keep only the top so many directions of every attention matrix; None keeps all.
        normalise: Scale rows to unit length after every layer.

    Raises:
        InputError: a row whose features are zero and have no direction.

    Example:
        >>> X = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
        >>> torch.allclose(Attention(X, normalise=False)(X), X @ X.T @ X)
        True
    """

    context: Any
    layers: Any = 1
    recompute: bool = True
    rank: Any = None
    normalise: bool = True
    _keys: list[Tensor] = field(init=False, repr=False, default_factory=list)
    _values: list[Tensor] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        rows = as_matrix(self.context, "context").detach().to(torch.float64)
        whole(self.layers, "layers", 0)
        if self.rank is not None and whole(self.rank, "rank", 1) > min(rows.shape):
            raise InputError(f"rank is {self.rank}; an attention matrix of {tuple(rows.shape)} rows has less.")
        keys = self._truncate(rows)
        layer_rows = rows
        for _ in range(self.layers):
            self._keys.append(self._truncate(layer_rows) if self.recompute else keys)
            self._values.append(layer_rows)
            layer_rows = self._attend(layer_rows if self.recompute else rows, len(self._keys) - 1)

    def __call__(self, X: Any) -> Float[Tensor, "n d"]:
        """Return the features of rows (n, d)."""
        like = as_matrix(self.context, "context").to(torch.float64)
        rows = x = as_query(X, like, "X")
        for layer in range(self.layers):
            x = self._attend(x if self.recompute else rows, layer)
        return x

    def _attend(self, x: Tensor, layer: int) -> Tensor:
        attended = (x @ self._keys[layer].T) @ self._values[layer]
        return normalise_rows(attended, "the attention features") if self.normalise else attended

    def _truncate(self, keys: Tensor) -> Tensor:
        """Return the keys projected on their top directions, so that keys keys' is the truncated Gram matrix."""
        if self.rank is None:
            return keys
        _, _, Vt = torch.linalg.svd(keys, full_matrices=False)
        return keys @ Vt[: self.rank].T @ Vt[: self.rank]


def softmax_gap(X: Any, scale: Any) -> float:
    """Return the relative distance of (scale/n) X X'X from softmax(scale X X') X, in Frobenius norm (L16).

    exp(a) ~ 1 + a also leaves the mean row and the row sums: the gap vanishes with `scale` for centred rows only,
    and tends to 1 for all others.

    Example:
        >>> X = torch.tensor([[1.0, 0.0], [-1.0, 0.5], [0.0, -0.5]], dtype=torch.float64)
        >>> softmax_gap(X, 0.001) < 1e-3, softmax_gap(X + 1, 0.001) > 0.9
        (True, True)
    """
    X = as_matrix(X).detach().to(torch.float64)
    scale = positive(scale, "scale", "the factor of the logits")
    exact = torch.softmax(scale * X @ X.T, dim=1) @ X
    linear = scale / X.shape[0] * X @ (X.T @ X)
    return float((exact - linear).norm() / exact.norm())
