"""The user's tables, .csv and .parquet: named columns, one of them the target."""

from __future__ import annotations

import codecs
import difflib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from ridgeformer.core.errors import DataFileError, InputError, UnknownNameError
from ridgeformer.core.reading import check_unpacked, explained, open_regular
from ridgeformer.datasets.columns import code_table, name_columns, quoted
from ridgeformer.datasets.dataset import Dataset
from ridgeformer.datasets.labels import code_target, describe_target

__all__ = ["Roles", "pick_target", "read_csv", "read_parquet", "read_table"]

DEFAULT_TARGETS = ("y", "target")
MOST_COLUMNS = 20_000
"""A table has a name and an object for every column, some 10 kB each; wider data belong in an .npz."""


@dataclass(frozen=True)
class Roles:
    """What columns of a table other than the target are for.

    Attributes:
        drop: Columns to leave out.
        group: The column whose equal values must stay together when rows are held out.
        time: The column by which the last rows are held out.
    """

    drop: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None


PLAIN = Roles()


def read_csv(path: Path, target: str | int | None, task: str | None, roles: Roles = PLAIN) -> Dataset:
    """Return a comma-separated table whose first line names the columns.

    Raises:
        DataFileError: empty, no header, rows of different length, not text.
        InputError: the target or a feature column cannot be used; the message names it.
    """
    return _dataset(path, _csv_table(path), target, task, roles)


def read_parquet(path: Path, target: str | int | None, task: str | None, roles: Roles = PLAIN) -> Dataset:
    """Return a parquet table; an index that pandas stored with it is left out.

    Raises:
        DataFileError: truncated, not a parquet file, or one that would unpack to far more than its size.
        InputError: the target or a feature column cannot be used; the message names it.
    """
    return _dataset(path, _parquet_table(path), target, task, roles)


def read_table(path: Path) -> pa.Table:
    """Return the arrow table in a .csv or .parquet file, whatever its columns are for."""
    table = _csv_table(path) if path.suffix.lower() == ".csv" else _parquet_table(path)
    _check_names(path, list(table.column_names))
    return table


def _csv_table(path: Path) -> Any:
    _check_text(path)
    ragged: list[Any] = []
    count = 0

    def note(row: Any) -> str:
        nonlocal count
        count += 1
        if not ragged:
            ragged.append(row)
        return "skip"

    # One block for the whole file: types are guessed from the first block, and a later one may differ.
    block = min(max(path.stat().st_size, 1 << 20), 2**31 - 1)
    with explained(path, "cannot be read as comma-separated text", "save it with a header line and commas"):
        table = pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=block),
            parse_options=pa.csv.ParseOptions(invalid_row_handler=note, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[*pa.csv.ConvertOptions().null_values, "?"],
            ),
        )
        names = [name.strip() for name in table.column_names]
    if ragged:
        first = ragged[0]
        raise DataFileError(
            f"{path} has {first.actual_columns} values in line {first.number} and {first.expected_columns} columns in "
            f"its header ({count} such lines): give every line the same number of values."
        )
    _check_header(path, names)
    return table.rename_columns(names)


def _parquet_table(path: Path) -> Any:
    with explained(path, "is not a complete parquet file", "write it again"):
        schema = pa.parquet.read_schema(path)
        text = [field.name for field in schema if _is_text(field.type) or pa.types.is_binary(field.type)]
        # Text stays a dictionary: a megabyte that a million rows share is then a megabyte.
        with pa.parquet.ParquetFile(path, read_dictionary=text) as file:
            _check_size(path, file.metadata, schema)
            table = file.read()
    with explained(path, "has damaged pandas metadata", "write it again"):
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
        kept = [name for name in table.column_names if name not in [i for i in index if isinstance(i, str)]]
    return table if len(kept) == table.num_columns else table.select(kept)


def _check_size(path: Path, metadata: Any, schema: Any) -> None:
    """Refuse by its metadata what would be too wide, too large or no table, before any of it is read."""
    _check_width(path, metadata.num_columns)
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise InputError(
            f"{path.name} has lists or records in {name_columns(nested)}: give every number its own column."
        )
    check_unpacked(str(path), 8 * metadata.num_rows * metadata.num_columns, path.stat().st_size)


def _check_width(path: Path, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise DataFileError(
            f"{path} has {columns:,} columns; a table may have {MOST_COLUMNS:,}: if its rows are its columns, "
            "transpose it, else save the numbers with numpy.savez(path, X=X, y=y)."
        )


def _dataset(path: Path, table: Any, target: str | int | None, task: str | None, roles: Roles) -> Dataset:
    names = list(table.column_names)
    _check_names(path, names)
    if table.num_rows == 0:
        raise DataFileError(f"{path} names its columns and has no rows: at least one row is needed.")
    chosen = pick_target(path, names, target)
    aside = [name for name in (*roles.drop, roles.group, roles.time) if name is not None]
    for name in aside:
        if name == chosen or pick_target(path, names, name) != name:
            raise InputError(f"column {name!r} is the target of {path.name}: it cannot be left out or split by.")
    features = [name for name in names if name not in (chosen, *aside)]
    if not features:
        raise DataFileError(
            f"{path} has one column, {quoted([chosen])}, and nothing to predict it from: if its values are separated "
            "by semicolons or tabs, save it with commas."
        )
    values = _target_values(path, chosen, table[chosen])
    y, kind, classes = code_target(values, task, f"column {quoted([chosen])} of {path.name}")
    X, columns, notes = code_table(path.name, table, features)
    taken = describe_target(values, task, kind, f"column {quoted([chosen])}")
    return Dataset(
        name=path.stem,
        X=X,
        y=y,
        task=kind,
        classes=classes,
        features=tuple(column.name for column in columns),
        source=f"{path}, target column {quoted([chosen])}",
        description=f"Table of {table.num_rows} rows and {len(features)} feature columns.",
        columns=columns,
        target=chosen,
        groups=_codes(path, table, roles.group, "group"),
        times=_codes(path, table, roles.time, "time"),
        notes=(*taken, *notes),
    )


def _codes(path: Path, table: Any, name: str | None, role: str) -> np.ndarray | None:
    """Return the column that splits the rows, as numbers; every row must have a value."""
    if name is None:
        return None
    values = table[name].to_pylist()
    holes = [row for row, value in enumerate(values) if value is None or value != value]
    if holes:
        raise InputError(
            f"the {role} column {name!r} of {path.name} has {len(holes)} missing values, the first in row {holes[0]}: "
            "fill them in or drop those rows."
        )
    place = {value: position for position, value in enumerate(sorted(set(values)))}
    return np.array([place[value] for value in values], dtype=np.int64)


def pick_target(path: Path, names: list[str], target: str | int | None) -> str:
    """Return the name of the target column: a name, a position, or by default a column called y or target."""
    if target is None:
        usual = [name for name in DEFAULT_TARGETS if name in names]
        if len(usual) == 1:
            return usual[0]
        raise InputError(
            f"{path.name} has no target chosen: give target=, one of its columns {quoted(names)}, or a position "
            "such as -1."
        )
    if isinstance(target, str) and target not in names and target.removeprefix("-").isdecimal():
        target = int(target)
    if isinstance(target, int):
        if not -len(names) <= target < len(names):
            raise InputError(
                f"{path.name} has no column {target}: it has {len(names)}, 0 to {len(names) - 1} (or -1 for the last)."
            )
        return names[target]
    if target not in names:
        near = difflib.get_close_matches(target, names, n=1, cutoff=0.5)
        hint = f": did you mean {near[0]!r}?" if near else "."
        raise UnknownNameError(f"{path.name} has no column {target!r}{hint} Its columns are {quoted(names)}.")
    return target


def _check_text(path: Path) -> None:
    """Refuse what is not UTF-8 text, and a header too wide to be parsed."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    commas, in_header = 0, True
    try:
        with open_regular(path) as file:
            while chunk := file.read(1 << 20):
                if b"\0" in chunk:
                    raise DataFileError(f"{path} holds zero bytes and is no text: save it as comma-separated UTF-8.")
                decoder.decode(chunk)
                if in_header:
                    first, newline, _ = chunk.partition(b"\n")
                    commas, in_header = commas + first.count(b","), not newline
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path} is not UTF-8 text ({error.reason}): save it again as UTF-8.") from error
    _check_width(path, commas + 1)


def _check_header(path: Path, names: list[str]) -> None:
    """Raise if the first line of a .csv holds data; 0, 1, 2, ... is what pandas calls columns without names."""
    numbers = [name for name in names if _is_number(name)]
    positions = names == [str(position) for position in range(len(names))]
    fraction = any(not name.removeprefix("-").isdecimal() for name in numbers)
    repeated = len(set(numbers)) < len(numbers)
    if numbers and not positions and (len(numbers) == len(names) or fraction or repeated):
        raise DataFileError(
            f"{path} has no header: its first line holds the numbers {quoted(numbers)}; add a first line with a name "
            "for every column."
        )


def _check_names(path: Path, names: list[str]) -> None:
    _check_width(path, len(names))
    unnamed = [position for position, name in enumerate(names) if not name]
    if unnamed:
        raise DataFileError(
            f"{path} has no name for {name_columns(unnamed)}: name it, or leave it out if it numbers the rows "
            "(pandas: to_csv(index=False))."
        )
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise DataFileError(f"{path} names several columns {quoted(repeated)}: give every column its own name.")


def _distinct(column: Any) -> Any:
    """Return the distinct values of a column, text not as a dictionary."""
    found = pc.unique(column)
    return found.dictionary if pa.types.is_dictionary(found.type) else found


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _target_values(path: Path, name: str, column: Any) -> np.ndarray:
    holes = pc.sum(pc.is_null(column, nan_is_null=True)).as_py()
    if holes:
        row = pc.index(pc.is_null(column, nan_is_null=True), True).as_py()
        raise InputError(
            f"{path.name} has missing values in column {quoted([name])}, the target ({holes} in all, the first in row "
            f"{row}): drop those rows."
        )
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if _is_text(kind):
        longest = pc.max(pc.utf8_length(_distinct(column))).as_py() or 0
        check_unpacked(f"the text to predict in {path}", 4 * longest * len(column), path.stat().st_size)
        return np.array(column.to_pylist(), dtype=np.str_)
    return np.asarray(column.to_pylist() if pa.types.is_dictionary(column.type) else column.to_numpy())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
