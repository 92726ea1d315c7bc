"""Choosing a value from a grid that grows while the choice sits on its edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

__all__ = ["LEAST_RIDGE", "WIDENINGS", "GridChoice", "ridge_limits", "search_grid"]

LEAST_RIDGE = 1e-8
"""Least ridge tried, over the mean diagonal of K. For 1,000 rows float64 gives leave-one-out errors to about a part in
100,000 there, and fewer digits below."""

WIDENINGS = 4
"""Times that a grid is widened at most; each time by half of its first length."""


@dataclass(frozen=True, eq=False)
class GridChoice:
    """What was chosen from a grid.

    Attributes:
        values: The grid as it was searched, ascending.
        judged: What `judge` returned, one entry a value.
        place: Position of the choice.
        on_edge: The choice still sits on an edge, because widening reached its limit: a better value may lie beyond.
    """

    values: tuple[float, ...]
    judged: Tensor
    place: int
    on_edge: bool

    @property
    def value(self) -> float:
        """The value chosen."""
        return self.values[self.place]


def search_grid(
    grid: Sequence[float],
    judge: Callable[[list[float]], Tensor],
    choose: Callable[[Tensor], int] = lambda errors: int(errors.argmin()),
    *,
    limits: tuple[float, float] = (0.0, inf),
) -> GridChoice:
    """Choose from a grid of positive values, widening it geometrically while the choice is its first or last value.

    A choice on the edge says only that the grid is too short, and a method whose grid is too short loses to one whose
    grid is not. A grid of one value is taken as it is.

    Args:
        grid: Positive values.
        judge: Given ascending values, returns one entry for each, stacked along the first axis.
        choose: Given all entries, in the order of the values, returns the position of the choice.
        limits: Values beyond these are not tried.

    Example:
        >>> found = search_grid([1.0, 2.0, 4.0], lambda values: torch.tensor([abs(v - 30.0) for v in values]))
        >>> found.value, found.values[-1], found.on_edge
        (32.0, 64.0, False)
    """
    values = sorted(set(grid))
    judged, step = judge(values), max(1, len(values) // 2)
    for _ in range(WIDENINGS):
        new = _beyond(values, choose(judged), step, limits)
        if not new:
            break
        parts = [(new, judge(new)), (values, judged)]
        (first, one), (second, other) = parts if new[0] < values[0] else parts[::-1]
        values, judged = [*first, *second], torch.cat([one, other])
    place = choose(judged)
    return GridChoice(tuple(values), judged, place, len(values) > 1 and place in (0, len(values) - 1))


def ridge_limits(n: int, scale: float = 1.0) -> tuple[float, float]:
    """Return the ridges between which a search makes sense, for n rows and a kernel whose mean diagonal is `scale`.

    No eigenvalue of K exceeds n times the mean diagonal, so ten times that leaves less than a tenth of any target.
    """
    return LEAST_RIDGE * scale, 10 * n * scale


def _beyond(values: list[float], place: int, step: int, limits: tuple[float, float]) -> list[float]:
    """Return the next values, ascending, beyond the edge on which the choice sits, at the ratio of the two there."""
    if len(values) == 1 or place not in (0, len(values) - 1):
        return []
    edge, inner = (values[0], values[1]) if place == 0 else (values[-1], values[-2])
    return sorted(v for k in range(1, step + 1) if limits[0] <= (v := edge * (edge / inner) ** k) <= limits[1])
