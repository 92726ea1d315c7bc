"""Fetching with Debian's package tools: installed files first, else `apt-get download` without installing."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ridgeformer.core.errors import FetchError
from ridgeformer.datasets.image_set import Arrays, ImageSet
from ridgeformer.datasets.progress import Progress
from ridgeformer.datasets.raw import read_folder, read_tar
from ridgeformer.datasets.tools import find_tool, run_tool

__all__ = ["read", "read_deb"]

ROOT = Path("/")
_ELSEWHERE = "this source needs Debian or Ubuntu; use another source."


def read(spec: ImageSet, package: str, work: Path, progress: Progress) -> Arrays:
    """Return the arrays of a Debian package, installed or downloaded into `work`.

    Raises:
        FetchError: not a Debian system, or apt-get fails.
        DataFileError: the package does not hold the published files.
    """
    for folder in spec.folders:
        if folder.startswith("usr/") and (ROOT / folder).is_dir():
            return spec.decode(spec, read_folder(spec, ROOT / folder, progress))
    apt = find_tool("apt-get", _ELSEWHERE)
    progress(0, None, f"apt-get download {package}")
    try:
        run_tool([apt, "download", package], work)
    except FetchError as error:
        raise FetchError(f"{error}: run `apt-get update` first, or use another source.") from error
    packed = sorted(work.glob(f"{package}_*.deb"))
    if not packed:
        raise FetchError(f"`apt-get download {package}` left no file: use another source.")
    return spec.decode(spec, read_deb(spec, packed[0], progress))


def read_deb(spec: ImageSet, path: Path, progress: Progress) -> dict[str, bytes]:
    """Return the verified raw files of `spec` in a .deb package, by name.

    dpkg-deb streams the package's files as a tar archive; none is written to disk.

    Raises:
        FetchError: dpkg-deb is missing.
        DataFileError: not a package, or a file is missing or wrong.
    """
    dpkg = find_tool("dpkg-deb", _ELSEWHERE)
    with subprocess.Popen(
        [dpkg, "--fsys-tarfile", str(path.absolute())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None  # it was asked for
        try:
            return read_tar(spec, process.stdout, path.name, progress)
        finally:
            process.kill()
