"""Raw files from a folder or an archive: taken by their exact names, checked before anything reads them."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from ridgeformer.core.errors import DataFileError
from ridgeformer.core.reading import explained, read_regular
from ridgeformer.datasets.image_set import ImageSet, RawFile
from ridgeformer.datasets.progress import Progress

__all__ = ["read_folder", "read_tar", "verify"]

CHUNK = 1 << 20


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
