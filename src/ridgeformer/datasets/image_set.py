"""A published image dataset: its raw files, verified before anything reads them, and the arrays they must give."""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np
from jaxtyping import UInt8

from ridgeformer.core.errors import DataFileError, unknown_name
from ridgeformer.core.reading import explained, read_regular
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets import cache
from ridgeformer.datasets.cache import datasets_folder
from ridgeformer.datasets.dataset import Dataset, Info, stratified_rows

__all__ = [
    "Arrays",
    "ImageSet",
    "Progress",
    "RawFile",
    "check_arrays",
    "digest_of",
    "read_folder",
    "read_tar",
    "verify",
]

PARTS = ("train", "test")
CHUNK = 1 << 20

Progress = Callable[[int, int | None, str], object]
"""Called as `progress(done, total, what)`; `total` is None while the size is not known."""


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


def read_folder(spec: ImageSet, folder: Path, progress: Progress) -> dict[str, bytes]:
    """Return the verified raw files of `spec` in a folder, plain or gzipped, by name.

    Raises:
        DataFileError: a file is missing, of the wrong size or has a wrong checksum.
    """
    found: dict[str, bytes] = {}
    for name, (file, zipped) in _expected(spec).items():
        path = folder / name
        if file.name in found or not path.is_file():
            continue
        progress(len(found), len(spec.files), f"reading {file.name}")
        _check_size(file, path.stat().st_size, zipped, str(folder))
        found[file.name] = verify(file, read_regular(path), zipped, str(folder))
    return _complete(spec, found, str(folder))


def read_tar(spec: ImageSet, stream: IO[bytes], where: str, progress: Progress) -> dict[str, bytes]:
    """Return the verified raw files of `spec` in a tar archive, compressed or not, by name.

    Nothing is written to disk. Members of any other name, links and devices are passed over, so a name
    such as ../../x has no effect; sizes are checked before a member is read.

    Raises:
        DataFileError: not a tar archive, truncated, or a file is missing or wrong.
    """
    expected = _expected(spec)
    total = sum(file.size for file in spec.files)
    found: dict[str, bytes] = {}
    damaged = partial(explained, where, "is not a complete tar archive", "download it again")
    with damaged():
        tar = tarfile.open(fileobj=stream, mode="r|*", tarinfo=_ShortHeaders)  # noqa: SIM115
    with tar:
        while True:
            with damaged():
                member = tar.next()
            if member is None or member.offset_data + member.size > 4 * total + CHUNK:
                break
            match = expected.get(member.name.removeprefix("./"))
            if match is None or not member.isreg() or match[0].name in found:
                continue
            file, zipped = match
            _check_size(file, member.size, zipped, where)
            with damaged():
                content = tar.extractfile(member)
                assert content is not None  # true of every regular member
                data = content.read()
            found[file.name] = verify(file, data, zipped, where)
            progress(sum(map(len, found.values())), total, f"reading {file.name}")
    return _complete(spec, found, where)


class _ShortHeaders(tarfile.TarInfo):
    """A member whose extended header, which tarfile reads into memory whole, is of an honest size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _ShortHeaders:
        member = super().frombuf(buf, encoding, errors)
        if not member.isreg() and member.size > CHUNK:
            raise tarfile.ReadError(f"a header of {member.size:,} bytes")
        return member


def verify(file: RawFile, data: bytes, zipped: bool, where: str) -> bytes:
    """Return the uncompressed bytes of a raw file after checking size, sha256 and md5.

    Raises:
        DataFileError: the bytes are not those published.
    """
    if zipped:
        data = _unzip(file, data, where)
    if len(data) != file.size:
        raise DataFileError(
            f"{file.name} from {where} has {len(data)} bytes; {file.size} were expected: it is truncated or another "
            "version; download it again."
        )
    checks = [("sha256", file.sha256, hashlib.sha256(data).hexdigest())]
    if file.md5:
        checks.append(("md5", file.md5, hashlib.md5(data, usedforsecurity=False).hexdigest()))
    for kind, wanted, got in checks:
        if got != wanted:
            raise DataFileError(
                f"{file.name} from {where} has {kind} {got}; {wanted} was expected: it is damaged or another version "
                "and was not used; download it again."
            )
    return data


def _expected(spec: ImageSet) -> dict[str, tuple[RawFile, bool]]:
    """Map every name a raw file may have to the file and whether that name means gzip."""

    def names(file: RawFile) -> Iterator[tuple[str, bool]]:
        for folder in ("", *spec.folders):
            yield str(PurePosixPath(folder) / file.name), False
            yield str(PurePosixPath(folder) / f"{file.name}.gz"), True

    return {name: (file, zipped) for file in spec.files for name, zipped in names(file)}


def _check_size(file: RawFile, size: int, zipped: bool, where: str) -> None:
    if size > file.size + 1024 if zipped else size != file.size:
        raise DataFileError(
            f"{file.name} from {where} has {size} bytes; {'at most ' if zipped else ''}{file.size} were expected: it "
            "is truncated or another version; download it again."
        )


def _unzip(file: RawFile, data: bytes, where: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(file.size + 1)  # one byte more than allowed shows a file that is too long
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(f"{file.name}.gz from {where} cannot be unzipped ({error}): download it again.") from error


def _complete(spec: ImageSet, found: dict[str, bytes], where: str) -> dict[str, bytes]:
    missing = [file.name for file in spec.files if file.name not in found]
    if missing:
        places = ", ".join(["at its top", *(f"in {folder}" for folder in spec.folders)])
        raise DataFileError(
            f"{where} does not hold {', '.join(missing)} (looked {places}; plain or as .gz): give a complete copy of "
            f"{spec.name}."
        )
    return found
