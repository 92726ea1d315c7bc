"""Fused attention with a sink: K V by `scaled_dot_product_attention`, which never forms K.

Softmax attention divides by the row sum. A sink, one more key whose values are 0, carries a 1 in a channel of its own:
with Z_i the row sum of K, that channel gives 1/(Z_i + 1), the others give (K V)_i/(Z_i + 1), and their quotient is K V.
Its logit is log_scale for the exponential kernel and |x|^2 / (2 tau) for the Gaussian one, whose keys carry a bias.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ridgeformer.kernels import LogitKernel
from ridgeformer.solving.engines.tiles import Tiles

__all__ = ["Attention", "attention_product"]

NARROWEST = 16
"""Narrower queries are padded with zeros to this width, so that there is room for values."""


def attention_product(kernel: LogitKernel, X: Float[Tensor, "n d"], V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
    """Return K V by fused attention.

    Values are given the width of the queries, sink channel included: narrower ones would push torch off the
    fused path, onto one that holds n^2 numbers.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> X, V = torch.tensor([[1.0], [0.0]]), torch.tensor([[1.0], [1.0]])
        >>> attention_product(Exponential(1.0), X, V)  # exp(1) + exp(0), exp(0) + exp(0)
        tensor([[3.7183], [2.0000]])
    """
    rows = kernel.scaled(X)
    key, sink = kernel.attention_logits(rows)
    plain = key is None and not isinstance(sink, Tensor) and sink == 0  # the zero key has the right logit already
    width = max(rows.shape[1] + (0 if plain else 2), NARROWEST)
    queries = pad(rows, (0, width - rows.shape[1]))
    keys = pad(queries, (0, 0, 0, 1))
    if not plain:
        queries[:, -1], keys[-1, -1] = sink, 1.0
    if key is not None:
        queries[:, -2], keys[:-1, -2] = 1.0, key
    parts = []
    for some in V.split(width - 1, dim=1):
        values = pad(some, (0, width - some.shape[1], 0, 1))
        values[-1, -1] = 1.0
        out = scaled_dot_product_attention(queries[None, None], keys[None, None], values[None, None], scale=1.0)[0, 0]
        parts.append(out[:, : some.shape[1]] / out[:, -1:])
    return torch.cat(parts, dim=1)


class Attention(Tiles):
    """K V by fused attention; columns, blocks and the float64 product as with tiles."""

    name: ClassVar[str] = "attention"
    kernel: LogitKernel

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V in the working precision."""
        return attention_product(self.kernel, self.X.to(self.dtype), V.to(self.dtype)).to(V.dtype)
