"""From raw bytes to arrays: the idx files of MNIST and Fashion-MNIST, and the PNG strips of CIFAR-10."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets.image_set import Arrays, ImageSet

__all__ = ["decode_idx", "decode_strips", "parse_idx", "parse_labels", "parse_strip"]


def decode_idx(spec: ImageSet, raw: Mapping[str, bytes]) -> Arrays:
    """Return the arrays of the four idx files every dataset of this format has."""
    train, test = spec.counts

    def read(name: str, shape: tuple[int, ...]) -> UInt8[np.ndarray, "..."]:
        return parse_idx(raw[name], shape, name)

    return Arrays(
        x_train=read("train-images-idx3-ubyte", (train, *spec.shape)),
        y_train=read("train-labels-idx1-ubyte", (train,)),
        x_test=read("t10k-images-idx3-ubyte", (test, *spec.shape)),
        y_test=read("t10k-labels-idx1-ubyte", (test,)),
    )


def parse_idx(data: bytes, shape: tuple[int, ...], name: str) -> UInt8[np.ndarray, "..."]:
    """Return the bytes of an idx file as an array, which must have the given shape.

    Raises:
        DataFileError: another type, another shape, or more or fewer bytes than the header says.

    Example:
        >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), (2,), "labels").tolist()
        [7, 9]
    """
    header = 4 + 4 * len(shape)
    if len(data) < header:
        raise DataFileError(f"{name} has {len(data)} bytes, fewer than an idx header of {header}: download it again.")
    magic = bytes([0, 0, 8, len(shape)])  # 8: unsigned bytes
    if data[:4] != magic:
        raise DataFileError(f"{name} starts with {data[:4].hex()}; an idx file of bytes starts with {magic.hex()}.")
    found = tuple(np.frombuffer(data, dtype=">u4", count=len(shape), offset=4).tolist())
    if found != shape:
        raise DataFileError(f"{name} says it has shape {found}; {shape} was expected: it is another dataset.")
    if len(data) != header + math.prod(shape):
        raise DataFileError(
            f"{name} has {len(data)} bytes; its header asks for {header + math.prod(shape)}: download it again."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(shape)


TEST_STRIP = "test_batch.png"


def decode_strips(spec: ImageSet, raw: Mapping[str, bytes]) -> Arrays:
    """Return the arrays of strips data_batch_1.png, ... and test_batch.png with their label files.

    The train strips share the train rows equally. The label files are spelled "lables" where they come from.
    """
    train, test = spec.counts
    names = sorted(name for name in raw if name.startswith("data_batch_"))
    strips = [parse_strip(raw[name], (train // len(names), *spec.shape), name) for name in names]
    return Arrays(
        x_train=np.concatenate(strips),
        y_train=parse_labels(raw["train_lables.json"], train, len(spec.classes), "train_lables.json"),
        x_test=parse_strip(raw[TEST_STRIP], (test, *spec.shape), TEST_STRIP),
        y_test=parse_labels(raw["test_lables.json"], test, len(spec.classes), "test_lables.json"),
    )


def parse_strip(data: bytes, shape: tuple[int, ...], name: str) -> UInt8[np.ndarray, "n h w 3"]:
    """Return the images of a strip: line i of the PNG holds image i, pixel by pixel, row by row.

    The size in the header is compared with `shape` = (rows, height, width, 3) before a pixel is decoded.

    Raises:
        DataFileError: not an RGB PNG of that size, or damaged.
    """
    size = (shape[1] * shape[2], shape[0])
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.mode != "RGB" or image.size != size:
                raise DataFileError(
                    f"{name} is a {image.mode} image of {image.size[0]} x {image.size[1]} pixels; RGB of {size[0]} x "
                    f"{size[1]} was expected: it is another dataset."
                )
            pixels = np.array(image, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataFileError(f"{name} is not a complete PNG image ({error}): download it again.") from error
    assert pixels.size == math.prod(shape)  # size and mode were checked
    return pixels.reshape(shape)


def parse_labels(data: bytes, count: int, classes: int, name: str) -> UInt8[np.ndarray, " n"]:
    """Return a JSON list of `count` class codes 0..classes-1.

    Raises:
        DataFileError: anything but exactly that.

    Example:
        >>> parse_labels(b"[2, 0, 1]", 3, 3, "labels").tolist()
        [2, 0, 1]
    """
    try:
        labels = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"{name} is not JSON ({error}): download it again.") from error
    if not isinstance(labels, list) or len(labels) != count:
        found = f"a list of {len(labels)}" if isinstance(labels, list) else type(labels).__name__
        raise DataFileError(f"{name} holds {found}; a list of {count} class codes was expected: download it again.")
    wrong = next((label for label in labels if type(label) is not int or not 0 <= label < classes), None)
    if wrong is not None or None in labels:
        raise DataFileError(f"{name} holds {wrong!r}; class codes 0 to {classes - 1} were expected: download it again.")
    return np.array(labels, dtype=np.uint8)
