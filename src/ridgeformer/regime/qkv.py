"""Random query, key and value matrices: what one head, many heads and tied heads do to the spectrum (L6)."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, whole

__all__ = ["expected_qkv_kernel", "qkv_features"]


def qkv_features(
    X: Any, generator: torch.Generator, *, heads: Any = 1, head_width: Any = None, tied: bool = False
) -> Float[Tensor, "n p"]:
    """Return linearised attention features (X W_Q W_K'X') X of random heads, side by side over sqrt(heads).

    Entries of W_Q and W_K (d, head_width) are N(0, 1/head_width); values are the rows themselves. The kernel of the
    features is the average of the heads' kernels; `expected_qkv_kernel` is its mean over draws.

    Args:
        X: Rows (n, d).
        generator: Where the draws come from.
        heads: How many independent heads.
        head_width: Columns of W_Q and W_K; None takes d.
        tied: W_Q = W_K.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> qkv_features(torch.eye(3), torch_generator(0, "heads"), heads=2).shape
        torch.Size([3, 6])
    """
    X = as_matrix(X).detach().to(torch.float64)
    d, heads = X.shape[1], whole(heads, "heads", 1)
    width = d if head_width is None else whole(head_width, "head_width", 1)
    features, C = [], X.T @ X
    for _ in range(heads):
        queries = torch.randn(d, width, generator=generator, dtype=torch.float64) / sqrt(width)
        keys = queries if tied else torch.randn(d, width, generator=generator, dtype=torch.float64) / sqrt(width)
        features.append(X @ queries @ (keys.T @ C))
    return torch.cat(features, dim=1) / sqrt(heads)


def expected_qkv_kernel(X: Any, *, head_width: Any = None, tied: bool = False) -> Float[Tensor, "n n"]:
    """Return E[K] of `qkv_features`: tr(G^2)/d_k G, and (1 + 1/d_k) G^3 more if queries and keys are tied.

    Independent heads, averaged, therefore keep the condition number of G; cubing it takes tied weights or one draw.
    """
    X = as_matrix(X).detach().to(torch.float64)
    width = X.shape[1] if head_width is None else whole(head_width, "head_width", 1)
    G = X @ X.T
    kernel = G.square().sum() / width * G
    return kernel + (1 + 1 / width) * G @ G @ G if tied else kernel
