"""Files a person hands over: checked for size before anything reads them, read by the library's own readers."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import tempfile
import zipfile
from collections import OrderedDict
from pathlib import Path, PurePosixPath
from threading import Lock

from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.datasets import Dataset, load_file

__all__ = ["MOST_BYTES", "MOST_COLUMNS", "MOST_RECORDS", "find_upload", "receive"]

MOST_BYTES = 5 * 1024 * 1024
MOST_UNPACKED = 64 * 1024 * 1024
MOST_RECORDS, MOST_COLUMNS = 50_000, 200
ENDINGS = (".csv", ".npz")
MOST_KEPT = 8
"""Files remembered; the oldest is forgotten first. They are in memory only, and gone with the process."""

_kept: OrderedDict[str, Dataset] = OrderedDict()
_lock = Lock()


def receive(name: str, contents: str, target: str | None = None) -> str:
    """Read an upload, remember it and return its name, "upload-" and a digest.

    Args:
        name: The file's name, which decides how it is read.
        contents: As a browser's data URL: "data:...;base64,...".
        target: The column or key to predict; None or empty is the reader's default.

    Raises:
        DataFileError: too large, of another kind, or unreadable; never is a pickle opened.
        InputError: content that cannot be used.
    """
    raw = _decode(name, contents)
    dataset = _read(PurePosixPath(name.replace("\\", "/")).name, raw, target or None)
    if dataset.n > MOST_RECORDS or dataset.d > MOST_COLUMNS:
        raise InputError(
            f"{name} has {dataset.n:,} rows and {dataset.d:,} features; at most {MOST_RECORDS:,} and {MOST_COLUMNS:,} "
            "are taken here: use `ridgeformer audit` for more."
        )
    key = "upload-" + hashlib.sha256(raw + (target or "").encode()).hexdigest()[:16]
    with _lock:
        _kept[key] = dataset
        _kept.move_to_end(key)
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return key


def find_upload(key: str) -> Dataset:
    """Return a dataset that was uploaded.

    Raises:
        InputError: it is not at hand, because the explorer was started again or others were uploaded since.
    """
    with _lock:
        if key not in _kept:
            raise InputError(
                "this address speaks of an uploaded file that is not at hand (files are kept in memory only): upload "
                "it again."
            )
        return _kept[key]


def _decode(name: str, contents: str) -> bytes:
    if Path(name).suffix.lower() not in ENDINGS:
        raise DataFileError(f"{name} ends in {Path(name).suffix or 'nothing'}; {' or '.join(ENDINGS)} was expected.")
    _, _, text = contents.partition(",")
    if len(text) > MOST_BYTES * 4 // 3 + 4:
        raise DataFileError(f"{name} has more than {MOST_BYTES // 1024**2} MB, the most that is taken here.")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise DataFileError(f"{name} did not arrive whole: upload it again.") from None


def _read(name: str, raw: bytes, target: str | None) -> Dataset:
    if name.lower().endswith(".npz"):
        _check_unpacked(name, raw)
    with tempfile.TemporaryDirectory(prefix="ridgeformer-") as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        try:
            return load_file(path, target=target)
        except (DataFileError, InputError) as error:  # a person knows the file by its name, not by where it was put
            raise type(error)(str(error).replace(f"{folder}/", "")) from None


def _check_unpacked(name: str, raw: bytes) -> None:
    """Refuse an archive that says it holds more than may be unpacked; nothing is unpacked for that."""
    try:
        size = sum(member.file_size for member in zipfile.ZipFile(io.BytesIO(raw)).infolist())
    except zipfile.BadZipFile:
        return  # the reader has better words for it
    if size > MOST_UNPACKED:
        raise DataFileError(
            f"{name} unpacks to {size / 1024**2:,.0f} MB; at most {MOST_UNPACKED // 1024**2} MB are taken here."
        )
