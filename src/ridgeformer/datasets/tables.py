"""The user's tables, .csv and .parquet: numbers in named columns, one of them the target."""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from ridgeformer.datasets.dataset import Dataset
from ridgeformer.datasets.labels import code_target
from ridgeformer.errors import DataFileError, InputError, UnknownNameError

__all__ = ["read_csv", "read_parquet"]

DEFAULT_TARGETS = ("y", "target")
_MOST_NAMED = 8


def read_csv(path: Path, target: str | int | None, task: str | None) -> Dataset:
    """Return a comma-separated table whose first line names the columns.

    Raises:
        DataFileError: empty, no header, rows of different length, not text.
        InputError: the target or a feature column cannot be used; the message names it.
    """
    _check_text(path)
    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "skip"

    # One block for the whole file: types are guessed from the first block, and a later one may differ.
    block = min(max(path.stat().st_size, 1 << 20), 2**31 - 1)
    try:
        table = pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=block),
            parse_options=pa.csv.ParseOptions(invalid_row_handler=note, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
        )
        names = [name.strip() for name in table.column_names]
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(
            f"{path} cannot be read as comma-separated text ({_line(error)}): save it with a header line and commas."
        ) from error
    if ragged:
        first = ragged[0]
        raise DataFileError(
            f"{path} has {first.actual_columns} values in line {first.number} and {first.expected_columns} columns in "
            f"its header ({len(ragged)} such lines): give every line the same number of values."
        )
    _check_header(path, names)
    return _dataset(path, table.rename_columns(names), target, task)


def read_parquet(path: Path, target: str | int | None, task: str | None) -> Dataset:
    """Return a parquet table; an index that pandas stored with it is left out.

    Raises:
        DataFileError: truncated, or not a parquet file.
        InputError: the target or a feature column cannot be used; the message names it.
    """
    try:
        with pa.parquet.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(f"{path} is not a complete parquet file ({_line(error)}): write it again.") from error
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    kept = [name for name in table.column_names if name not in [i for i in index if isinstance(i, str)]]
    return _dataset(path, table if len(kept) == table.num_columns else table.select(kept), target, task)


def _dataset(path: Path, table: Any, target: str | int | None, task: str | None) -> Dataset:
    names = list(table.column_names)
    _check_names(path, names)
    if table.num_rows == 0:
        raise DataFileError(f"{path} names its columns and has no rows: at least one row is needed.")
    chosen = _pick(path, names, target)
    features = [name for name in names if name != chosen]
    if not features:
        raise DataFileError(
            f"{path} has one column, {chosen!r}, and nothing to predict it from: if its values are separated by "
            "semicolons or tabs, save it with commas."
        )
    _check_cells(path, table, features)
    y, kind, classes = code_target(_target_values(table[chosen]), task, f"column {chosen!r} of {path.name}")
    return Dataset(
        name=path.stem,
        X=np.column_stack([_floats(table[name]) for name in features]),
        y=y,
        task=kind,
        classes=classes,
        features=tuple(features),
        source=f"{path}, target column {chosen!r}",
        description=f"Table of {table.num_rows} rows and {len(features)} feature columns.",
    )


def _pick(path: Path, names: list[str], target: str | int | None) -> str:
    """Return the name of the target column: a name, a position, or by default a column called y or target."""
    if target is None:
        usual = [name for name in DEFAULT_TARGETS if name in names]
        if len(usual) == 1:
            return usual[0]
        raise InputError(
            f"{path.name} has no target chosen: give target=, one of its columns {_listed(names)}, or a position "
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
        raise UnknownNameError(f"{path.name} has no column {target!r}{hint} Its columns are {_listed(names)}.")
    return target


def _check_text(path: Path) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                if b"\0" in chunk:
                    raise DataFileError(f"{path} holds zero bytes and is no text: save it as comma-separated UTF-8.")
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path} is not UTF-8 text ({error.reason}): save it again as UTF-8.") from error


def _check_header(path: Path, names: list[str]) -> None:
    """Raise if the first line of a .csv holds data; 0, 1, 2, ... is what pandas calls columns without names."""
    numbers = [name for name in names if _is_number(name)]
    positions = names == [str(position) for position in range(len(names))]
    fraction = any(not name.removeprefix("-").isdecimal() for name in numbers)
    repeated = len(set(numbers)) < len(numbers)
    if numbers and not positions and (len(numbers) == len(names) or fraction or repeated):
        raise DataFileError(
            f"{path} has no header: its first line holds the numbers {_listed(numbers)}; add a first line with a name "
            "for every column."
        )


def _check_names(path: Path, names: list[str]) -> None:
    unnamed = [str(position) for position, name in enumerate(names) if not name]
    if unnamed:
        raise DataFileError(
            f"{path} has no name for column {', '.join(unnamed)}: name it, or leave it out if it numbers the rows "
            "(pandas: to_csv(index=False))."
        )
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise DataFileError(f"{path} names several columns {_listed(repeated)}: give every column its own name.")


def _check_cells(path: Path, table: Any, features: list[str]) -> None:
    """Refuse holes, text and infinite values, all that is wrong in one message."""
    problems = [*_missing(table), *_text(table, features)]
    if problems:
        raise InputError(f"{path.name} has {'; it has '.join(problems)}.")
    endless = [name for name in features if not np.isfinite(_floats(table[name])).all()]
    if endless:
        raise InputError(f"{path.name} has infinite values in {_columns(endless)}: replace them or drop those rows.")


def _missing(table: Any) -> list[str]:
    counts = {name: pc.sum(pc.is_null(table[name], nan_is_null=True)).as_py() for name in table.column_names}
    holes = [name for name, count in counts.items() if count]
    if not holes:
        return []
    row = pc.index(pc.is_null(table[holes[0]], nan_is_null=True), True).as_py()
    return [
        f"missing values in {_columns(holes)} ({sum(counts.values())} in all, the first in row {row}): fill them in or "
        "drop those rows"
    ]


def _text(table: Any, features: list[str]) -> list[str]:
    other = [name for name in features if not _is_numeric(table[name].type)]
    if not other:
        return []
    values = [value for value in table[other[0]].to_pylist() if value is not None]
    example = next((value for value in values if not _is_number(str(value))), values[0] if values else "nothing")
    return [
        f"no numbers in feature {_columns(other)} (type {table[other[0]].type}, such as {str(example)!r}): turn text "
        "and dates into numbers or leave the column out"
    ]


def _is_numeric(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _floats(column: Any) -> np.ndarray:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _target_values(column: Any) -> np.ndarray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_decimal(kind):
        return _floats(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=np.str_)
    return np.asarray(column.to_pylist() if pa.types.is_dictionary(column.type) else column.to_numpy())


def _columns(names: list[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + _listed(names)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
