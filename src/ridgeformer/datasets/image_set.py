"""A published image dataset: what its raw files are, what its arrays must hash to, how to load it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from ridgeformer.core.errors import DataFileError, unknown_name
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets import cache
from ridgeformer.datasets.dataset import Dataset, stratified_rows
from ridgeformer.datasets.entry import Info
from ridgeformer.datasets.locations import datasets_folder

__all__ = ["Arrays", "ImageSet", "RawFile", "check_arrays", "digest_of"]

PARTS = ("train", "test")


@dataclass(frozen=True)
class RawFile:
    """A file as its authors published it, uncompressed; `md5` is empty where none was published."""

    name: str
    size: int
    sha256: str
    md5: str = ""


class Arrays(NamedTuple):
    """A whole dataset in the official order: images (rows, height, width[, channels]) and class codes."""

    x_train: UInt8[np.ndarray, "n ..."]
    y_train: UInt8[np.ndarray, " n"]
    x_test: UInt8[np.ndarray, "m ..."]
    y_test: UInt8[np.ndarray, " m"]


@dataclass(frozen=True)
class ImageSet:
    """A published image dataset with an official split.

    Attributes:
        name: What `load` and `fetch` take.
        shape: (height, width) or (height, width, channels).
        counts: Rows of the train and the test part.
        classes: Label of each class code.
        files: The raw files.
        folders: Folders in which archives and packages keep the raw files.
        decode: Turns the verified raw files, by name, into arrays.
        digest: sha256 of the arrays, as `digest_of` computes it; every source must give it.
        sources: Name of the dataset at each source, in the order `source="auto"` tries them.
        licence: Licence of the data, as far as its authors state one.
        citation: Whom to cite.
        description: What the images are, in one line.
    """

    name: str
    shape: tuple[int, ...]
    counts: tuple[int, int]
    classes: tuple[str, ...]
    files: tuple[RawFile, ...]
    folders: tuple[str, ...]
    decode: Callable[[ImageSet, Mapping[str, bytes]], Arrays] = field(repr=False)
    digest: str
    sources: Mapping[str, str]
    licence: str
    citation: str
    description: str

    @property
    def features(self) -> tuple[str, ...]:
        """Name of each pixel: row_column, or row_column_channel."""
        return tuple("pixel_" + "_".join(map(str, index)) for index in np.ndindex(*self.shape))

    def info(self, cache_dir: str | Path | None = None) -> Info:
        """Return the record to show."""
        packages = [f"{source} ({package})" for source, package in self.sources.items()]
        return Info(
            name=self.name,
            n=self.counts,
            d=math.prod(self.shape),
            task="classification",
            classes=self.classes,
            parts=PARTS,
            origin=", ".join(packages) + ", or a copy of your own",
            fetched=cache.is_stored(datasets_folder(cache_dir), self.name),
            licence=self.licence,
            citation=self.citation,
            description=self.description,
        )

    def load(self, part: str = "train", cache_dir: str | Path | None = None, limit: int | None = None) -> Dataset:
        """Return one part from the cache, pixels scaled to [0, 1].

        With `limit`, only that many rows are ever turned into floats, the same that
        `load(part).sample(limit, seed=0)` gives.

        Raises:
            DataFileError: not fetched yet, or the cached file is damaged.
        """
        if part not in PARTS:
            raise unknown_name("part", part, PARTS)
        images, codes, source = cache.read(datasets_folder(cache_dir), self.name, self.digest, part)
        if limit is not None and limit < len(codes):
            rows = stratified_rows(codes, len(codes), limit, numpy_generator(0, "dataset.sample"))
            images, codes = images[rows], codes[rows]
        X = images.reshape(len(images), -1).astype(np.float64)
        X /= 255.0
        return Dataset(
            name=self.name,
            X=X,
            y=codes.astype(np.int64),
            task="classification",
            classes=self.classes,
            features=self.features,
            image_shape=self.shape,
            source=f"{source}, {part} part, pixels / 255",
            description=self.description,
        )


def digest_of(arrays: Arrays) -> str:
    """Return the sha256 of the images and labels, as bytes: x_train, y_train, x_test, y_test.

    Example:
        >>> none = np.zeros(0, dtype=np.uint8)
        >>> digest_of(Arrays(none, none, none, none))[:8]
        'e3b0c442'
    """
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def check_arrays(spec: ImageSet, arrays: Arrays, where: str) -> None:
    """Raise unless the arrays are the published ones, byte for byte.

    Raises:
        DataFileError: other shapes, or another sha256.
    """
    for name, array, count in zip(
        Arrays._fields, arrays, (spec.counts[0], spec.counts[0], spec.counts[1], spec.counts[1]), strict=True
    ):
        expected = (count, *spec.shape) if name.startswith("x") else (count,)
        if array.dtype != np.uint8 or array.shape != expected:
            raise DataFileError(
                f"{name} from {where} has shape {array.shape} and dtype {array.dtype}; {spec.name} has "
                f"{expected} and uint8: use a complete copy or another source."
            )
    found = digest_of(arrays)
    if found != spec.digest:
        raise DataFileError(
            f"the images and labels from {where} have sha256 {found[:16]}...; {spec.name} in its official order has "
            f"{spec.digest[:16]}...: it is another version or another order; use another source."
        )
