"""A curve to watch a transformer fit: points on a line, bent into an arc so that attention sees distances."""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.core.seeds import torch_generator

__all__ = ["CurveTask", "curve_task"]

ARC = 0.8 * pi
"""The line from -1 to 1 becomes so much of a circle to either side."""


class CurveTask(NamedTuple):
    """One task of two features, and where its rows stand on the line."""

    X: Tensor
    y: Tensor
    Xq: Tensor
    at: tuple[Tensor, Tensor]


def curve_task(supports: Any = 14, queries: Any = 41, seed: int = 0) -> CurveTask:
    """Return noisy points of a smooth curve, and queries along all of it.

    A place x on the line is the row (cos, sin)(ARC x): rows have length 1, and exp(x'z / temperature) depends on the
    distance alone.

    Example:
        >>> task = curve_task(supports=10)
        >>> task.X.shape, task.Xq.shape
        (torch.Size([10, 2]), torch.Size([41, 2]))
    """
    generator = torch_generator(seed, "curve to watch")
    count = whole(supports, "supports", 2)
    jitter, noise = (torch.rand(2, count, generator=generator, dtype=torch.float64) - 0.5).unbind()
    places = torch.linspace(-0.95, 0.95, count, dtype=torch.float64) + jitter / count
    grid = torch.linspace(-1, 1, whole(queries, "queries", 1), dtype=torch.float64)
    y = torch.sin(3.5 * places) + 0.4 * torch.cos(8 * places) + 0.3 * noise
    return CurveTask(_bent(places), y, _bent(grid), (places, grid))


def _bent(places: Tensor) -> Tensor:
    return torch.stack([torch.cos(ARC * places), torch.sin(ARC * places)], dim=1)
