"""Curves and images as characters, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ridgeformer.claims import Plot

__all__ = ["blocks", "draw_curves", "side_by_side"]

HEIGHT = 14
MARKS = "*o+x#@"
SHADES = " ░▒▓█"
LARGEST = 14  # most rows and columns of characters of an image; larger images are averaged down


def draw_curves(plot: Plot, width: int = 80) -> str:
    """Return the curves as characters on a grid, with the ends of both axes and a legend.

    Example:
        >>> print(draw_curves(Plot("x", "y", at=[0, 1, 2], solid={"y = x": [0, 1, 2]}), 40).splitlines()[-1])
        * y = x
    """
    named = {**plot.solid, **plot.dashed}
    logs = np.array(["x" in plot.log, "y" in plot.log])
    curves = []
    for values in named.values():
        points = np.array(list(zip(plot.at, values, strict=False)), dtype=np.float64).reshape(-1, 2)
        points = points[np.isfinite(points).all(axis=1) & ((points > 0) | ~logs).all(axis=1)]
        points[:, logs] = np.log10(points[:, logs])
        curves.append(points)
    shown = np.concatenate([np.empty((0, 2)), *curves])
    if not len(shown):
        return "(nothing to draw)"
    low, high = shown.min(axis=0), shown.max(axis=0)
    low, high = np.where(high > low, low, low - 0.5), np.where(high > low, high, high + 0.5)
    columns = max(width - 12, 20)
    grid = [[" "] * columns for _ in range(HEIGHT)]
    for mark, points in reversed(list(zip(MARKS, curves, strict=False))):  # the first curve stays on top
        places = np.rint((points - low) / (high - low) * (columns - 1, HEIGHT - 1)).astype(int).tolist()
        for column, row in _joined(places):
            grid[HEIGHT - 1 - row][column] = mark
    ends = [[f"{10**end if log else end:.3g}" for end, log in zip(side, logs, strict=True)] for side in (low, high)]
    (left, bottom), (right, top) = ends
    labels = {0: top, HEIGHT - 1: bottom}
    lines = [plot.y, *(f"{labels.get(number, ''):>9} |{''.join(row)}" for number, row in enumerate(grid))]
    lines.append(f"{'':>9} +{'-' * columns}")
    lines.append(f"{'':>11}{left}{plot.x:^{max(1, columns - len(left) - len(right))}}{right}")
    lines += [f"{mark} {name}" for mark, name in zip(MARKS, named, strict=False)]
    return "\n".join(lines)


def _joined(places: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Yield the places and those on straight lines between them."""
    for (left, low), (right, high) in pairwise([*places[:1], *places]):
        steps = max(abs(right - left), abs(high - low), 1)
        for step in range(1, steps + 1):
            yield left + round((right - left) * step / steps), low + round((high - low) * step / steps)


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
