"""Images as blocks of characters, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["blocks", "side_by_side"]

SHADES = " ░▒▓█"
LARGEST = 14
"""Rows and columns of blocks at most; larger images are averaged down."""


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
