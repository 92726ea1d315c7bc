"""Tables larger than memory: the numbers of a .csv or .parquet file as standardised rows on disk.

Two passes over the file, a batch at a time: one for the means and spreads of the columns, one that writes the rows. A
conversion that was stopped goes on where it last wrote down how far it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.core.reading import explained, open_regular
from ridgeformer.datasets.columns import name_columns
from ridgeformer.datasets.tables import pick_target

__all__ = ["RowsOnDisk", "rows_on_disk"]

BATCH = 2**16
"""Rows read and written at a time."""

NOTED = 16
"""Batches after which it is written down how far the conversion is."""

FORMAT = 2
"""Of the notes; others are not gone on with."""

Advance = Callable[[int, int, int], None]
"""Called with the pass (1 or 2), the rows done and the rows there are (0 if that is not known yet)."""


@dataclass(frozen=True, eq=False)
class RowsOnDisk:
    """Standardised features and a target, memory-mapped: read when they are used, and never all at once.

    Attributes:
        X: (n, d), every column with mean 0 and standard deviation 1; missing values are 0, the mean.
        y: (n,), as in the file.
        features: the names of the columns.
        mean, spread: what was subtracted from a column, and what it was divided by.
        missing: how many values of each column were missing.
        least, most: the smallest and the largest value of each column; nan where there is none.
    """

    X: np.ndarray
    y: np.ndarray
    features: tuple[str, ...]
    mean: np.ndarray
    spread: np.ndarray
    missing: np.ndarray
    least: np.ndarray
    most: np.ndarray

    def prepare(self, values: np.ndarray) -> np.ndarray:
        """Return rows of raw values, (m, d), as the rows of X are."""
        return np.nan_to_num((values - self.mean) / self.spread).astype(self.X.dtype)


@dataclass
class _Notes:
    """How far a conversion is."""

    source: list[int]
    features: list[str]
    target: str
    dtype: str
    counted: int = 0
    written: int = 0
    whole: bool = False
    mean: list[float] | None = None
    squares: list[float] | None = None
    present: list[int] | None = None
    least: list[float] | None = None
    most: list[float] | None = None
    format: int = FORMAT

    def save(self, folder: Path) -> None:
        """Replace the notes at once: they are complete or those from before."""
        beside = folder / "notes.json.part"
        beside.write_text(json.dumps(asdict(self)))
        os.replace(beside, folder / "notes.json")


def rows_on_disk(
    path: str | Path,
    target: str | int | None = None,
    *,
    folder: str | Path,
    drop: tuple[str, ...] = (),
    dtype: str = "float32",
    progress: Advance | None = None,
) -> RowsOnDisk:
    r"""Return the rows of a .csv or .parquet file of numbers, converted into `folder` in bounded memory.

    Calling it again with the same file and folder opens what is there, and goes on with what was begun.

    Args:
        path: the file.
        target: the column to predict; y or target if there is one of that name.
        folder: where X.npy and y.npy go; it is made if need be.
        drop: columns to leave out.
        dtype: of the rows, float32 or float64.
        progress: called after every batch.

    Raises:
        InputError: a column that is not numbers, or a target that has missing values.
        DataFileError: a file that is damaged, changes while it is read, or has text further down; a full disk. What was
            done is kept.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as place:
        ...     file = Path(place) / "t.csv"
        ...     _ = file.write_text("a,y\n1,5\n3,6\n")
        ...     print(rows_on_disk(file, folder=Path(place) / "rows").X[:, 0].tolist())
        [-1.0, 1.0]
    """
    path, folder = Path(path), Path(folder)
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype is {dtype!r}; 'float32' or 'float64' was expected.")
    with open_regular(path):
        pass
    names = _numeric(path, drop)
    chosen = pick_target(path, names, target)
    features = [name for name in names if name != chosen]
    if not features:
        raise InputError(f"{path.name} has no column besides the target {chosen!r}: at least one feature is needed.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        notes = _begun(folder, _Notes(_fingerprint(path), features, chosen, dtype))
        if not notes.whole:
            _measure(path, folder, notes, progress)
        _write(path, folder, notes, progress)
    except OSError as error:
        raise DataFileError(
            f"{folder} cannot be written to ({error.strerror or error}): make room or choose another folder. What was "
            "converted is kept, and the same call goes on with it."
        ) from None
    pa.default_memory_pool().release_unused()  # some batches, kept for more to come
    mean, spread = _moments(notes)
    X, y = (np.load(folder / name, mmap_mode="c") for name in ("X.npy", "y.npy"))
    assert notes.present is not None
    ends = (np.array(end, dtype=np.float64) for end in (notes.least, notes.most))
    return RowsOnDisk(X, y, tuple(features), mean, spread, notes.written - np.array(notes.present), *ends)


def _fingerprint(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _begun(folder: Path, fresh: _Notes) -> _Notes:
    """Return the notes of a conversion of the same file into the same columns, or fresh ones."""
    with suppress(OSError, ValueError, TypeError):
        found = _Notes(**json.loads((folder / "notes.json").read_text()))
        if all(
            getattr(found, name) == getattr(fresh, name) for name in ("source", "features", "target", "dtype", "format")
        ):
            return found
    return fresh


def _numeric(path: Path, drop: tuple[str, ...]) -> list[str]:
    """Return the columns of numbers, all but those left out; others are refused by name."""
    if path.suffix.lower() == ".parquet":
        with explained(path, "is not a complete parquet file", "write it again"):
            schema = pa.parquet.read_schema(path)
    elif path.suffix.lower() == ".csv":
        said = explained(path, "cannot be read as comma-separated text", "save it with a header line and commas")
        with said, pa.csv.open_csv(path, pa.csv.ReadOptions(block_size=1 << 20)) as reader:
            schema = reader.schema
    else:
        raise InputError(
            f"{path.name} is neither .csv nor .parquet: save an array with numpy.save and open it with mmap_mode."
        )
    absent = [name for name in drop if name not in schema.names]
    if absent:
        raise InputError(f"{path.name} has no column {absent[0]!r}, which is to be left out: check drop.")
    kept = [field for field in schema if field.name not in drop]

    def usable(kind: Any) -> bool:
        return (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_null(kind)
        )

    odd = [field.name for field in kept if not usable(field.type)]
    if odd:
        raise InputError(
            f"{path.name} has text, dates or records in {name_columns(odd)}: leave them out with drop, or code them as "
            "numbers first. Tables that fit into memory may have them."
        )
    return [field.name for field in kept]


def _batches(path: Path, notes: _Notes, skip: int) -> Iterator[np.ndarray]:
    """Yield values of features and target, (rows, d + 1) with nan where missing, from a row on."""
    names, seen = [*notes.features, notes.target], 0
    for batch in _read(path, names, skip):
        first, seen = seen, seen + batch.num_rows
        if seen <= skip:
            continue
        columns = [batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in names]
        values = np.column_stack(columns)[max(0, skip - first) :]
        infinite = np.isinf(values).nonzero()
        if len(infinite[0]):
            row, column = infinite[0][0], infinite[1][0]
            raise DataFileError(
                f"{path.name} has an infinite value in row {max(skip, first) + row + 1:,}, column {names[column]!r}."
            )
        yield values


def _read(path: Path, names: list[str], skip: int) -> Iterator[Any]:
    """Yield the batches of a file; those before row `skip` may be empty in all but their number of rows."""
    if path.suffix.lower() == ".parquet":
        said = explained(path, "is damaged or changed while it was read", "write it again")
        # buffering ahead keeps every row group that was read until the file is closed
        with said, pa.parquet.ParquetFile(path, pre_buffer=False) as file:
            first = 0
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if first + count <= skip:
                    yield _Skipped(count)
                else:
                    yield from file.iter_batches(BATCH, row_groups=[group], columns=names)
                first += count
        return
    kinds = dict.fromkeys(names, pa.float64())
    convert = pa.csv.ConvertOptions(column_types=kinds, include_columns=names, strings_can_be_null=True)
    read = pa.csv.ReadOptions(use_threads=False, block_size=1 << 22)
    said = explained(path, "has something other than numbers, or a line of another length", "mend it, and call again")
    with said, pa.csv.open_csv(path, read, convert_options=convert) as reader:
        yield from reader


@dataclass(frozen=True)
class _Skipped:
    num_rows: int


def _unchanged(path: Path, notes: _Notes) -> None:
    if not path.exists() or _fingerprint(path) != notes.source:
        raise DataFileError(
            f"{path} changed while it was read, or is gone; it had {notes.source[0]:,} bytes: wait until it is "
            "complete, and call again; the conversion then starts over."
        )


def _measure(path: Path, folder: Path, notes: _Notes, progress: Advance | None) -> None:
    """Count rows and present values, and sum values and squared distances from the mean, batch by batch."""
    d = len(notes.features)
    mean = np.array(notes.mean or [0.0] * d)
    squares, present = np.array(notes.squares or [0.0] * d), np.array(notes.present or [0] * d)
    least, most = (np.array(end or [np.nan] * d) for end in (notes.least, notes.most))
    for number, values in enumerate(_batches(path, notes, notes.counted), start=1):
        lost = np.isnan(values[:, -1]).nonzero()[0]
        if len(lost):
            raise InputError(
                f"{path.name} has no value of the target {notes.target!r} in row {notes.counted + lost[0] + 1:,}: "
                "leave such rows out."
            )
        rows = values[:, :-1]
        count = (~np.isnan(rows)).sum(0)
        own = np.where(count > 0, np.nansum(rows, 0) / np.maximum(count, 1), 0.0)
        share = count / np.maximum(present + count, 1)
        squares += np.nansum((rows - own) ** 2, 0) + (own - mean) ** 2 * present * share
        mean += (own - mean) * share
        present += count
        least, most = np.fmin(least, np.fmin.reduce(rows, 0)), np.fmax(most, np.fmax.reduce(rows, 0))
        notes.least, notes.most = least.tolist(), most.tolist()
        notes.counted += len(values)
        notes.mean, notes.squares, notes.present = mean.tolist(), squares.tolist(), present.tolist()
        if number % NOTED == 0:
            _unchanged(path, notes)
            notes.save(folder)
        if progress is not None:
            progress(1, notes.counted, 0)
    _unchanged(path, notes)
    if notes.counted == 0:
        raise DataFileError(f"{path} names its columns and has no rows: at least one row is needed.")
    notes.whole = True
    notes.save(folder)


def _moments(notes: _Notes) -> tuple[np.ndarray, np.ndarray]:
    assert notes.squares is not None
    spread = np.sqrt(np.array(notes.squares) / np.maximum(np.array(notes.present), 1))
    return np.array(notes.mean), np.where(spread > 0, spread, 1.0)


def _write(path: Path, folder: Path, notes: _Notes, progress: Advance | None) -> None:
    """Write the rows that are missing behind the headers of two .npy files; what the notes do not cover is cut off."""
    (mean, spread), dtype, d = _moments(notes), np.dtype(notes.dtype), len(notes.features)
    shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "X.npy": (dtype, (notes.counted, d)),
        "y.npy": (np.dtype("float64"), (notes.counted,)),
    }
    files = [open(folder / name, "r+b" if notes.written else "wb") for name in shapes]  # noqa: SIM115
    try:
        for file, (kind, shape) in zip(files, shapes.values(), strict=True):
            np.lib.format.write_array_header_1_0(file, {"descr": kind.str, "fortran_order": False, "shape": shape})
            file.seek(file.tell() + notes.written * kind.itemsize * int(np.prod(shape[1:])))
            file.truncate()
        if notes.written == notes.counted:
            return
        for number, values in enumerate(_batches(path, notes, notes.written), start=1):
            rows = np.nan_to_num((values[:, :-1] - mean) / spread)
            files[0].write(np.ascontiguousarray(rows, dtype).tobytes())
            files[1].write(np.ascontiguousarray(values[:, -1]).tobytes())
            notes.written += len(values)
            if number % NOTED == 0 or notes.written == notes.counted:
                _unchanged(path, notes)
                for file in files:
                    file.flush()
                    os.fsync(file.fileno())
                notes.save(folder)
            if progress is not None:
                progress(2, notes.written, notes.counted)
    finally:
        for file in files:
            with suppress(OSError):
                file.close()
