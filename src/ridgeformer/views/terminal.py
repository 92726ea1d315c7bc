"""Curves and images as characters, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ridgeformer.claims import Plot

__all__ = ["blocks", "draw_curves", "side_by_side"]

HEIGHT = 14
MARKS = "*o+x#@"
SHADES = " ░▒▓█"
LARGEST = 14
"""Most rows and columns of characters of an image; larger images are averaged down."""


def draw_curves(plot: Plot, width: int = 80) -> str:
    """Return the curves as characters on a grid, with the ends of both axes and a legend.

    Example:
        >>> print(draw_curves(Plot("x", "y", at=[0, 1, 2], solid={"y = x": [0, 1, 2]}), 40).splitlines()[-1])
        * y = x
    """
    named = {**plot.solid, **plot.dashed}
    log_x, log_y = "x" in plot.log, "y" in plot.log
    curves = [
        [
            (_scaled(x, log_x), _scaled(y, log_y))
            for x, y in zip(map(float, plot.at), map(float, values), strict=False)
            if _drawable(x, log_x) and _drawable(y, log_y)
        ]
        for values in named.values()
    ]
    if not any(curves):
        return "(nothing to draw)"
    xs, ys = (_ends([point[axis] for curve in curves for point in curve]) for axis in (0, 1))
    columns = max(width - 12, 20)
    grid = [[" "] * columns for _ in range(HEIGHT)]
    for mark, curve in reversed(list(zip(MARKS, curves, strict=False))):  # the first curve stays on top
        places = [(_place(x, xs, columns), _place(y, ys, HEIGHT)) for x, y in curve]
        for column, row in _joined(places):
            grid[HEIGHT - 1 - row][column] = mark
    labels = {0: _label(ys[1], log_y), HEIGHT - 1: _label(ys[0], log_y)}
    lines = [plot.y, *(f"{labels.get(number, ''):>9} |{''.join(row)}" for number, row in enumerate(grid))]
    left, right = _label(xs[0], log_x), _label(xs[1], log_x)
    lines.append(f"{'':>9} +{'-' * columns}")
    lines.append(f"{'':>11}{left}{plot.x:^{max(1, columns - len(left) - len(right))}}{right}")
    lines += [f"{mark} {name}" for mark, name in zip(MARKS, named, strict=False)]
    return "\n".join(lines)


def _joined(places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places and those on straight lines between them."""
    yield from places[:1]
    for (left, low), (right, high) in pairwise(places):
        steps = max(abs(right - left), abs(high - low), 1)
        for step in range(1, steps + 1):
            yield left + round((right - left) * step / steps), low + round((high - low) * step / steps)


def _drawable(value: float, log: bool) -> bool:
    return math.isfinite(value) and (not log or value > 0)


def _scaled(value: float, log: bool) -> float:
    return math.log10(value) if log and value > 0 else value


def _ends(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _place(value: float, ends: tuple[float, float], count: int) -> int:
    return round((value - ends[0]) / (ends[1] - ends[0]) * (count - 1))


def _label(value: float, log: bool) -> str:
    return f"{10**value:.3g}" if log else f"{value:.3g}"


def blocks(image: NDArray[np.float64]) -> list[str]:
    """Return an image, (height, width) or with channels, as lines; a pixel is two characters wide, bright is full.

    Example:
        >>> blocks(np.array([[0.0, 1.0], [0.5, 0.25]]))
        ['  ██', '▒▒░░']
    """
    grey = image.mean(axis=2) if image.ndim == 3 else image
    for axis in (0, 1):
        parts = np.array_split(grey, min(LARGEST, grey.shape[axis]), axis=axis)
        grey = np.stack([part.mean(axis=axis) for part in parts], axis=axis)
    low, high = float(grey.min()), float(grey.max())
    levels = np.rint((grey - low) / ((high - low) or 1.0) * (len(SHADES) - 1)).astype(int)
    return ["".join(SHADES[level] * 2 for level in row) for row in levels]


def side_by_side(titles: Sequence[str], pictures: Sequence[list[str]], width: int) -> str:
    """Return as many titled pictures of one size beside each other as a line of `width` characters holds.

    Example:
        >>> print(side_by_side(["a", "b"], [["##"], ["%%"]], 12))
        a    b
        ##   %%
    """
    column = max([*map(len, titles), *(len(line) for picture in pictures for line in picture)], default=0) + 3
    count = max(1, width // column)
    rows = [list(titles[:count]), *zip(*pictures[:count], strict=True)]
    return "\n".join("".join(f"{cell:<{column}}" for cell in row).rstrip() for row in rows)
