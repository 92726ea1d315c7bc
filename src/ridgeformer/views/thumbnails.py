"""Small images as part of a page: PNG in the page itself, pixels as they are."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ridgeformer.datasets import Dataset
from ridgeformer.views.sections import Thumbnail

__all__ = ["as_bytes", "png", "thumbnail"]


def thumbnail(dataset: Dataset, row: int, title: str, note: str = "", mark: str = "") -> Thumbnail:
    """Return a row of a dataset of images, brightness relative to the whole dataset."""
    assert dataset.image_shape is not None
    low, high = float(dataset.X.min()), float(dataset.X.max())
    pixels = (dataset.X[row].reshape(dataset.image_shape) - low) / ((high - low) or 1.0)
    return Thumbnail(pixels, title, note, mark)


def as_bytes(pixels: Any) -> NDArray[np.uint8]:
    """Return pixels in [0, 1] as bytes, one channel or three.

    Example:
        >>> as_bytes([[0.0, 1.0]]).tolist()
        [[0, 255]]
    """
    image = np.rint(np.clip(np.asarray(pixels), 0, 1) * 255).astype(np.uint8)
    return image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image


def png(image: Thumbnail) -> str:
    """Return a thumbnail as the address of a PNG that is the address."""
    file = io.BytesIO()
    Image.fromarray(as_bytes(image.pixels)).save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
