"""The array formats of numpy, .npy and .npz, read with every size checked before memory is taken for it."""

from __future__ import annotations

import io
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeformer.core.errors import DataFileError
from ridgeformer.core.reading import check_unpacked, explained, open_regular, read_regular

__all__ = ["load_npy", "load_npz"]

NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How `numpy.savez` and `numpy.savez_compressed` pack."""

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""How to read the header of a plain array, by the version of the format."""

ENCRYPTED = 1
"""Bit of a zip member's flags."""


def load_npy(path: Path) -> NDArray[Any]:
    """Return the array of an .npy; the file must hold exactly what its header declares.

    Raises:
        DataFileError: truncated, damaged, of another kind, or with Python objects.
    """
    data = read_regular(path)
    _check_magic(path, data[: len(NPY_MAGIC)], NPY_MAGIC)
    with explained(path):
        return _parse(data, str(path))


def load_npz(path: Path, choose: Callable[[list[str]], Iterable[str]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz that `choose` picks from its keys; their checksums are verified.

    Raises:
        DataFileError: truncated, damaged, encrypted, of another kind, or with Python objects; or one that would
            unpack to far more than its size.
    """
    with open_regular(path) as file, explained(path):
        _check_magic(path, file.read(len(ZIP_MAGIC)), ZIP_MAGIC)
        size = os.fstat(file.fileno()).st_size
        with zipfile.ZipFile(file) as archive:
            members = {
                info.filename.removesuffix(".npy"): info
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
            keys = tuple(choose(list(members)))
            for key in keys:
                _check_member(path, members[key])
            check_unpacked(f"{' and '.join(keys)} of {path}", sum(members[key].file_size for key in keys), size)
            return {key: _parse(archive.read(members[key]), f"{key} of {path}") for key in keys}


def _check_member(path: Path, member: zipfile.ZipInfo) -> None:
    if member.flag_bits & ENCRYPTED:
        raise DataFileError(f"{member.filename} of {path} is encrypted: save it without a password.")
    if member.compress_type not in METHODS:
        raise DataFileError(
            f"{member.filename} of {path} is compressed with zip method {member.compress_type}, which numpy does not "
            "write: save it with numpy.savez or numpy.savez_compressed."
        )


def _parse(data: bytes, what: str) -> NDArray[Any]:
    """Return the array whose header and numbers `data` holds, without a copy."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in HEADERS:
        raise DataFileError(f"{what} has version {version} of the format; a plain array was expected: save one.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a header is a Python literal: a damaged one makes the parser talk
        shape, fortran, dtype = HEADERS[version](stream)
    if dtype.hasobject:
        raise DataFileError(
            f"{what} holds Python objects, which are stored as pickles; opening a pickle runs code it contains, so "
            "it was not loaded: save plain numbers, for example with array.astype(float)."
        )
    declared, found = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if dtype.itemsize == 0 or declared != found:
        raise DataFileError(
            f"{what} is truncated or damaged: its header declares shape {shape} of {dtype}, {declared:,} bytes, and "
            f"{found:,} follow: save it again."
        )
    return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran else "C")


def _check_magic(path: Path, start: bytes, magic: bytes) -> None:
    if not start:
        raise DataFileError(f"{path} is empty: save it again.")
    if start != magic:
        raise DataFileError(
            f"{path} ends in {path.suffix} and is something else inside (it starts with {start!r}): save it with numpy."
        )
