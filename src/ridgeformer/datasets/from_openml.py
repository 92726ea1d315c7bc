"""Fetching from OpenML through scikit-learn, for machines with an internet connection."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from ridgeformer.core.errors import DataFileError, FetchError
from ridgeformer.datasets.image_set import Arrays, ImageSet
from ridgeformer.datasets.progress import Progress

__all__ = ["read"]


def read(spec: ImageSet, package: str, work: Path, progress: Progress) -> Arrays:
    """Return the arrays of an OpenML dataset such as "mnist_784", train rows first as OpenML keeps them.

    scikit-learn's parser is "pandas" where pandas is installed, which needs far less memory, and
    "liac-arff" otherwise. Its download goes to `work` and is gone afterwards.

    Raises:
        FetchError: no connection, or scikit-learn could not read the answer.
        DataFileError: the rows are not images of this dataset.
    """
    from sklearn.datasets import fetch_openml

    progress(0, None, f"OpenML {package} (several minutes)")
    parser = "pandas" if find_spec("pandas") else "liac-arff"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns at every retry; the error below says it once
            bunch = fetch_openml(package, version=1, as_frame=False, parser=parser, data_home=str(work))
    except Exception as error:  # a connection and two parsers: too many kinds to name
        said = " ".join(str(error).split())[:300]
        raise FetchError(
            f"OpenML did not give {package} ({type(error).__name__}: {said}): check the connection or use another "
            "source."
        ) from error
    train = spec.counts[0]
    images, codes = _images(spec, bunch.data, package), _bytes(bunch.target, f"the labels of OpenML {package}")
    return Arrays(images[:train], codes[:train], images[train:], codes[train:])


def _images(spec: ImageSet, data: Any, package: str) -> UInt8[np.ndarray, "..."]:
    where = f"the pixels of OpenML {package}"
    rows = sum(spec.counts)
    pixels = _bytes(data, where)
    expected = (rows, int(np.prod(spec.shape)))
    if pixels.shape != expected:
        raise DataFileError(f"{where} have shape {pixels.shape}; {expected} was expected: use another source.")
    if len(spec.shape) == 2:
        return pixels.reshape(rows, *spec.shape)
    height, width, channels = spec.shape  # OpenML keeps colour planes one after the other
    return np.ascontiguousarray(pixels.reshape(rows, channels, height, width).transpose(0, 2, 3, 1))


def _bytes(values: Any, what: str) -> UInt8[np.ndarray, "..."]:
    try:
        numbers = np.asarray(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataFileError(f"{what} are not numbers ({error}): use another source.") from error
    whole = numbers.astype(np.uint8, casting="unsafe") if numbers.size and _in_byte(numbers) else None
    if whole is None or not np.array_equal(whole, numbers):
        raise DataFileError(f"{what} are not whole numbers from 0 to 255: use another source.")
    return whole


def _in_byte(numbers: np.ndarray) -> bool:
    return bool(np.isfinite(numbers).all() and numbers.min() >= 0 and numbers.max() <= 255)
