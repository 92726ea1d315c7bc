"""The idx format of MNIST and Fashion-MNIST: a magic number, the sizes, the bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt8

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets.image_set import Arrays, ImageSet

__all__ = ["decode", "parse"]


def decode(spec: ImageSet, raw: Mapping[str, bytes]) -> Arrays:
    """Return the arrays of the four idx files every dataset of this format has."""
    train, test = spec.counts

    def read(name: str, shape: tuple[int, ...]) -> UInt8[np.ndarray, "..."]:
        return parse(raw[name], shape, name)

    return Arrays(
        x_train=read("train-images-idx3-ubyte", (train, *spec.shape)),
        y_train=read("train-labels-idx1-ubyte", (train,)),
        x_test=read("t10k-images-idx3-ubyte", (test, *spec.shape)),
        y_test=read("t10k-labels-idx1-ubyte", (test,)),
    )


def parse(data: bytes, shape: tuple[int, ...], name: str) -> UInt8[np.ndarray, "..."]:
    """Return the bytes of an idx file as an array, which must have the given shape.

    Raises:
        DataFileError: another type, another shape, or more or fewer bytes than the header says.

    Example:
        >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), (2,), "labels").tolist()
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
