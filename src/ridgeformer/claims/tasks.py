"""Regression tasks on which compiled networks are run: rows of unit length, targets without a pattern."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.core.seeds import torch_generator

__all__ = ["unit_task"]


def unit_task(supports: int, features: int, queries: int, *purpose: str | int) -> tuple[Tensor, Tensor, Tensor]:
    """Return supports, targets and queries, in float64.

    Example:
        >>> X, y, Xq = unit_task(5, 3, 2, "an example")
        >>> X.shape, y.shape, Xq.shape, bool((X.norm(dim=1) - 1).abs().max() < 1e-12)
        (torch.Size([5, 3]), torch.Size([5]), torch.Size([2, 3]), True)
    """

    def draw(what: str, *size: int) -> Tensor:
        return torch.randn(*size, generator=torch_generator(0, *purpose, what), dtype=torch.float64)

    X, Xq = (torch.nn.functional.normalize(draw(w, n, features), dim=1) for w, n in (("X", supports), ("Xq", queries)))
    return X, draw("y", supports), Xq
