"""Columns of a table as people have them: numbers, booleans, dates, text categories, identifiers, holes.

A table is kept as one float64 matrix: categories as the position of their level, dates as days, holes as NaN. What a
model makes of that (one column a level, medians for holes) belongs to the model: `ridgeformer.datasets.encoding`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ridgeformer.core.errors import InputError

__all__ = ["Column", "code_like", "code_table", "name_columns", "quoted"]

Kind = Literal["number", "boolean", "date", "category"]

FEW_ROWS, MANY_LEVELS = 10, 20
"""Fewest rows for a column to be an identifier; text with more levels is one if most rows have their own."""

MOST_NAMED, LONGEST_NAME = 8, 60
IDENTIFIER = re.compile(r"(^|[_\s-])(id|uuid|guid|key|index|nr|no|number)$", re.IGNORECASE)
DAY = 86_400e6


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: Its name.
        kind: "number", "boolean" (0 and 1), "date" (days since 1970) or "category" (position in `levels`).
        levels: The values of a category, sorted.
    """

    name: str
    kind: Kind = "number"
    levels: tuple[str, ...] = ()


def code_table(
    file: str, table: pa.Table, names: Sequence[str]
) -> tuple[NDArray[np.float64], tuple[Column, ...], tuple[str, ...]]:
    """Return the columns of these names as numbers, what each is, and one sentence for everything done to them.

    Identifiers and columns without any value are left out, which is said. Every column that cannot be used is named in
    one error, with the number of its bad values and the row of the first.

    Raises:
        InputError: infinite values, numbers with some text among them, or types that are neither number, text nor date.
    """
    problems: list[str] = []
    columns: list[Column] = []
    values: list[NDArray[np.float64]] = []
    left_out: list[str] = []
    for name in names:
        coded = _code(name, table[name], problems)
        if coded is None:
            continue
        why = _useless(name, *coded)
        if why:
            left_out.append(f"{quoted([name])} ({why})")
        else:
            values.append(coded[0])
            columns.append(coded[1])
    if problems:
        raise InputError(f"{file}: {'; '.join(problems)}.")
    if not columns:
        raise InputError(f"{file} has no column to predict from: {'; '.join(left_out)}.")
    X = np.column_stack(values)
    return X, tuple(columns), _notes(X, columns, left_out)


def code_like(file: str, table: pa.Table, columns: Sequence[Column]) -> NDArray[np.float64]:
    """Return a new table as the columns of a known one; a level never seen before gets a position of its own.

    Raises:
        InputError: a column is not there, or holds something else.
    """
    absent = [column.name for column in columns if column.name not in table.column_names]
    if absent:
        raise InputError(f"{file} has no {name_columns(absent)}, which the model predicts from: add it.")
    problems: list[str] = []
    values = []
    for column in columns:
        coded = _code(column.name, table[column.name], problems, text=column.kind == "category")
        if coded is None:
            continue
        found, now = coded
        if now.kind != column.kind and {now.kind, column.kind} != {"number", "boolean"} and np.isfinite(found).any():
            problems.append(f"column {quoted([column.name])} holds {now.kind} values where {column.kind} was expected")
        elif column.kind == "category":
            place = {level: position for position, level in enumerate(column.levels)}
            known = np.array([place.get(level, len(place)) for level in now.levels] + [np.nan])
            found = known[np.where(np.isnan(found), -1, found).astype(int)]
        values.append(found)
    if problems:
        raise InputError(f"{file}: {'; '.join(problems)}.")
    return np.column_stack(values)


def _code(
    name: str, column: Any, problems: list[str], *, text: bool = False
) -> tuple[NDArray[np.float64], Column] | None:
    """Return a column as numbers with NaN for holes; None after a problem was noted."""
    kind, types = column.type, pa.types
    if text and not types.is_dictionary(kind):
        column = column.cast(pa.string())
        kind = column.type
    if types.is_boolean(kind):
        return _floats(column.cast(pa.uint8())), Column(name, "boolean")
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        found = _floats(column)
        endless = np.isinf(found)
        if endless.any():
            problems.append(
                f"column {quoted([name])} has {int(endless.sum())} infinite values, the first in row "
                f"{int(endless.argmax())}: replace them or drop those rows"
            )
            return None
        return found, Column(name)
    if types.is_date(kind) or types.is_timestamp(kind):
        return _floats(column.cast(pa.timestamp("us")).cast(pa.int64())) / DAY, Column(name, "date")
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        return _code_text(name, column, problems, text=text)
    if types.is_null(kind):
        return np.full(len(column), np.nan), Column(name)
    problems.append(f"column {quoted([name])} has type {kind}, which is no number, text or date: leave it out")
    return None


def _code_text(name: str, column: Any, problems: list[str], *, text: bool) -> tuple[NDArray[np.float64], Column] | None:
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    encoded = encoded.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no rows at all
        return np.full(len(column), np.nan), Column(name)
    positions = _floats(encoded.indices)
    written = [str(value) for value in encoded.dictionary.to_pylist()]
    used = sorted({written[int(place)] for place in np.unique(positions[~np.isnan(positions)])})
    numbers = [level for level in used if _is_number(level)]
    if not text and used and len(numbers) == len(used):
        found = np.array([*map(float, written), np.nan])[np.where(np.isnan(positions), -1, positions).astype(int)]
        return found, Column(name)
    place = {level: position for position, level in enumerate(used)}
    recode = np.array([*(place.get(level, np.nan) for level in written), np.nan], dtype=np.float64)
    codes = recode[np.where(np.isnan(positions), -1, positions).astype(int)]
    if not text and 2 * len(numbers) >= len(used) > 0:
        odd = np.isin(codes, [place[level] for level in used if level not in numbers])
        first = int(odd.argmax())
        problems.append(
            f"column {quoted([name])} holds numbers except in {int(odd.sum())} rows, the first in row {first} "
            f"({quoted([used[int(codes[first])]])}): correct them, leave them empty, or leave the column out"
        )
        return None
    return codes, Column(name, "category", tuple(used))


def _useless(name: str, values: NDArray[np.float64], column: Column) -> str:
    """Return why a column says nothing about new rows, or nothing."""
    seen = values[~np.isnan(values)]
    if not seen.size:
        return "no value in any row"
    if len(values) < FEW_ROWS or column.kind in ("boolean", "date"):
        return ""
    distinct = len(np.unique(seen))
    if column.kind == "category":
        own = distinct == len(values) or (distinct > MANY_LEVELS and 2 * distinct > len(seen))
        return "text of its own in most rows, an identifier" if own else ""
    whole = distinct == len(values) and bool((seen == np.round(seen)).all())
    if whole and np.ptp(seen) == len(seen) - 1 and bool((np.diff(seen) > 0).all()):
        return "it numbers the rows"
    return "a whole number of its own in every row, an identifier" if whole and IDENTIFIER.search(name) else ""


def _notes(X: NDArray[np.float64], columns: Sequence[Column], left_out: Sequence[str]) -> tuple[str, ...]:
    notes = [f"Left out: {', '.join(left_out)}."] if left_out else []
    text = [f"{quoted([one.name])} ({len(one.levels)} values)" for one in columns if one.kind == "category"]
    if text:
        notes.append(f"Text taken as categories, one column a value: {_cut(text)}.")
    dates = [quoted([one.name]) for one in columns if one.kind == "date"]
    if dates:
        notes.append(f"Dates taken as days: {_cut(dates)}.")
    holes = np.isnan(X).sum(axis=0)
    filled = [
        f"{quoted([one.name])} ({count:,} rows)" for one, count in zip(columns, holes.tolist(), strict=True) if count
    ]
    if filled:
        notes.append(
            f"Missing values: {_cut(filled)}; filled with the median of the training rows and marked in a column of "
            "their own, or a level of their own for text."
        )
    return tuple(notes)


def _cut(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def name_columns(names: Sequence[object]) -> str:
    """Return "column 'a'" or "columns 'a', 'b'"."""
    return ("column " if len(names) == 1 else "columns ") + quoted(names)


def quoted(names: Sequence[object]) -> str:
    """Return the first few names; one may be as long as a file."""
    return _cut([repr(name if len(str(name)) <= LONGEST_NAME else f"{str(name)[:LONGEST_NAME]}...") for name in names])


def _floats(column: Any) -> NDArray[np.float64]:
    found = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.array(found, dtype=np.float64)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
