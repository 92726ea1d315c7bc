"""Data: embedded, fetched once, the user's own files, or synthetic with a prescribed spectrum.

`Split` prepares data for everything else. A new dataset is an `Entry` (an `Embedded`, an `ImageSet`, or a class of its
own) and one line in `REGISTRY`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.reading import open_regular
from ridgeformer.datasets.dataset import Dataset, Entry, Info, Task
from ridgeformer.datasets.embedded import DIABETES, DIGITS, WINE
from ridgeformer.datasets.fetching import Progress, fetch_set
from ridgeformer.datasets.files import load_file
from ridgeformer.datasets.image_set import ImageSet
from ridgeformer.datasets.published import CIFAR10, FASHION, MNIST
from ridgeformer.datasets.synthetic_data import synthetic

if TYPE_CHECKING:
    from ridgeformer.datasets.encoding import standardise, unit_rows
    from ridgeformer.datasets.on_disk import RowsOnDisk, rows_on_disk
    from ridgeformer.datasets.split import Split

__all__ = [
    "REGISTRY",
    "Dataset",
    "Entry",
    "Info",
    "Progress",
    "RowsOnDisk",
    "Split",
    "Task",
    "available",
    "fetch",
    "load",
    "load_file",
    "require_known",
    "rows_on_disk",
    "show",
    "standardise",
    "synthetic",
    "unit_rows",
]

REGISTRY: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        DIGITS,
        DIABETES,
        WINE,
        MNIST,
        FASHION,
        CIFAR10,
    )
}
"""Datasets by name."""

_ON_FIRST_USE = {
    "RowsOnDisk": "on_disk",
    "Split": "split",
    "rows_on_disk": "on_disk",
    "standardise": "encoding",
    "unit_rows": "encoding",
}
"""Names whose modules need torch or pyarrow: `ridgeformer data list` starts without them."""


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'ridgeformer.datasets' has no attribute {name!r}")
    return getattr(import_module(f"ridgeformer.datasets.{_ON_FIRST_USE[name]}"), name)


def load(
    name_or_path: str | Path,
    *,
    target: str | int | None = None,
    task: str | None = None,
    part: str = "train",
    cache_dir: str | Path | None = None,
    limit: int | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    time: str | None = None,
) -> Dataset:
    """Return a dataset by name, or from a file of your own.

    A `Path`, or text with a suffix or a separator in it, is a file; anything else is a name.

    Args:
        name_or_path: A name that `available` lists, or an .npz, .npy, .csv or .parquet file.
        target: For a file: what to predict, see `load_file`.
        task: For a file: "classification" or "regression" instead of a choice from the target.
        part: "train" or "test" of an official split; "train" is everything where there is none.
        cache_dir: Where fetched datasets are; the default is $RIDGEFORMER_CACHE, else the user's cache directory.
        limit: Largest number of rows, drawn as `Dataset.sample(limit, seed=0)` draws them.
        drop: For a table: columns to leave out.
        group: For a table: the column whose equal values are held out together.
        time: For a table: the column by which the last rows are held out.

    Raises:
        UnknownNameError: no such name; the message offers the nearest one.
        DataFileError: not fetched yet, or a file that cannot be read.
        InputError: arguments or content that cannot be used.

    Example:
        >>> load("digits", limit=100)
        Dataset('digits', n=100, d=64, classification, 10 classes)
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}; at least one row is needed: leave it out for all rows.")
    if _looks_like_path(name_or_path):
        dataset = load_file(name_or_path, target=target, task=task, part=part, drop=drop, group=group, time=time)
        return dataset if limit is None or limit >= dataset.n else dataset.sample(limit, seed=0)
    if target is not None or task is not None or drop or group or time:
        raise InputError(
            f"target, task, drop, group and time belong to files; {name_or_path!r} has its own: leave them out."
        )
    return _entry(name_or_path).load(part, cache_dir, limit)


def require_known(name_or_path: str | Path) -> None:
    """Raise unless this is the name of a dataset or a file that can be opened; nothing is loaded.

    Raises:
        UnknownNameError: no such name; the message offers the nearest one.
        DataFileError: no such file, or not a regular one.

    Example:
        >>> require_known("digits")
    """
    if not _looks_like_path(name_or_path):
        _entry(name_or_path)
        return
    with open_regular(Path(name_or_path)):
        pass


def available(cache_dir: str | Path | None = None) -> list[Info]:
    """Return a record of every dataset that has a name.

    Example:
        >>> [info.name for info in available()]
        ['digits', 'diabetes', 'wine', 'mnist', 'fashion', 'cifar10']
    """
    return [entry.info(cache_dir) for entry in REGISTRY.values()]


def show(name: str, *, cache_dir: str | Path | None = None) -> Info:
    """Return the record of one dataset; `print` shows it in full.

    Example:
        >>> print(show("wine"))
        wine: Three cultivars of wine from thirteen chemical measurements.
          rows      178, 13 features
          task      classification, 3 classes
          classes   class_0, class_1, class_2
          origin    scikit-learn's own copy
          ready     yes
          licence   CC BY 4.0 (UCI Machine Learning Repository)
          citation  S. Aeberhard and M. Forina, Wine, UCI, 1992.
    """
    return _entry(name).info(cache_dir)


def fetch(
    name: str,
    *,
    source: str | Path = "auto",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> Path | None:
    """Put a dataset into the cache and return the cached file; None for one that needs no fetching.

    The arguments and errors are those of `fetch_set`.

    Example:
        >>> fetch("digits") is None
        True
    """
    entry = _entry(name)
    if not isinstance(entry, ImageSet):
        return None
    return fetch_set(entry, source=source, cache_dir=cache_dir, progress=progress, force=force)


def _entry(name: str | Path) -> Entry:
    if str(name) not in REGISTRY:
        raise unknown_name("dataset", str(name), REGISTRY)
    return REGISTRY[str(name)]


def _looks_like_path(name_or_path: str | Path) -> bool:
    return isinstance(name_or_path, Path) or bool(
        Path(name_or_path).suffix or "/" in name_or_path or "\\" in name_or_path
    )
