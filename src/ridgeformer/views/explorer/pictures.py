"""Rows that are images, as images: the one asked about beside those that made its prediction."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ridgeformer.views.explorer.compute import Influenced

__all__ = ["Picture", "pictures", "thumbnail"]

EACH = 3
"""Images of points that raise the prediction most, and of those that lower it most."""


@dataclass(frozen=True)
class Picture:
    """An image as a data address, what stands below it, and what it is in words."""

    source: str
    caption: str
    words: str


def pictures(found: Influenced, point: int | None) -> tuple[Picture, ...]:
    """Return the held-out image asked about and its strongest training images; nothing if the rows are no images."""
    shape = found.task.image_shape
    if shape is None or point is None:
        return ()
    change = found.change[:, point]
    order = [int(i) for i in np.argsort(-change)]
    asked = Picture(thumbnail(found.task.Xq[point].numpy(), shape), "asked", f"held-out point {point}")
    strongest = (
        Picture(thumbnail(found.task.X[i].numpy(), shape), f"{change[i]:+.2g}", found.task.labels[i])
        for i in (*order[:EACH], *order[-EACH:])
    )
    return (asked, *strongest)


def thumbnail(row: NDArray[np.float64], shape: tuple[int, ...]) -> str:
    """Return a row as a PNG in a data address, its largest value white.

    Example:
        >>> thumbnail(np.array([0.0, 0.5, 1.0, 0.0]), (2, 2))[:22]
        'data:image/png;base64,'
    """
    values = np.clip(row.reshape(shape), 0, None)
    image = np.rint(255 * values / (float(values.max()) or 1.0)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(image).save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
