"""Tidy tables from a store: parameters, seeds and values, and means with intervals over seeds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from ridgeformer.core.errors import InputError, RidgeformerError, unknown_name
from ridgeformer.core.statistics import LEVEL, mean_interval, proportion_interval
from ridgeformer.studies.registry import find_study
from ridgeformer.studies.store import Store, StoredResult
from ridgeformer.studies.study import Study
from ridgeformer.studies.task import TaskStatus, as_json

__all__ = ["export", "intervals", "table"]

FORMATS: dict[str, Callable[[pa.Table, Path], object]] = {"csv": csv.write_csv, "parquet": parquet.write_table}


def table(study: Study | str, store: str | Path, *, preset: str | None = None, version: int | None = None) -> pa.Table:
    """Return one row for every row of every result: parameters, seed, values; failures have none.

    The order is that of the parameters' values, so that two stores with the same results give the same table. Without
    a `preset` all tasks are in it, without a `version` those of the study's own.
    """
    study = find_study(study)
    with Store(store, write=False) as kept:
        found = list(kept.results(study.name, study.version if version is None else version))
    if preset is not None:
        keys = {task.key for task in study.tasks(preset)}
        found = [row for row in found if row.key in keys]
    found = sorted((row for row in found if row.status == TaskStatus.DONE), key=_order)
    params = list(dict.fromkeys(name for row in found for name in row.point))
    rows = []
    for row in found:
        for values in row.rows:
            if twice := next((name for name in values if name in (*params, "seed")), None):
                raise InputError(f"a value and a parameter are both called {twice!r}: rename one of them in the study.")
            rows.append(dict.fromkeys(params) | row.point | {"seed": row.seed} | values)
    if not rows:
        raise InputError(f"{store} has no results of {study.name} yet: run the study first.")
    return _as_table(rows)


def intervals(rows: pa.Table, within: Sequence[str] = (), *, level: float = LEVEL) -> pa.Table:
    """Return the mean of every value over the seeds, with its confidence interval.

    Numbers get Student's t interval, and values that are true or false the exact (Clopper-Pearson) interval of their
    fraction; `ridgeformer.core.statistics` says how often these hold.

    The rows are those of `table`, and `within` names values that are coordinates, such as a step. Returned are
    parameters, coordinates, `seeds` (how many), and for each number its mean, `_low` and `_high`, empty with one seed.

    Example:
        >>> rows = pa.table({"width": [1, 1], "seed": [0, 1], "error": [2.0, 4.0]})
        >>> intervals(rows).to_pylist()
        [{'width': 1, 'seeds': 2, 'error': 3.0, 'error_low': -9.70..., 'error_high': 15.70...}]
    """
    names = rows.column_names
    params, values = names[: names.index("seed")], names[names.index("seed") + 1 :]
    by = [*params, *within]
    numbers = [name for name in values if name not in within and not pa.types.is_string(rows.schema.field(name).type)]
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in rows.to_pylist():
        groups.setdefault(as_json([record[name] for name in by]), []).append(record)
    found = []
    for group in groups.values():
        row = {name: group[0][name] for name in by} | {"seeds": len(group)}
        for name in numbers:
            drawn = np.array([record[name] for record in group if record[name] is not None], dtype=np.float64)
            low, high = mean_interval(drawn, level=level)
            if drawn.size > 1 and pa.types.is_boolean(rows.schema.field(name).type):
                low, high = proportion_interval(int(drawn.sum()), drawn.size, level=level)
            row |= {name: float(drawn.mean()) if drawn.size else None, f"{name}_low": low, f"{name}_high": high}
        found.append(row)
    return _as_table(found)


def export(rows: pa.Table, path: str | Path, *, format: str = "csv") -> Path:
    """Write a table as csv or parquet, in one step, and return the path.

    Example:
        >>> with tempfile.TemporaryDirectory() as here:
        ...     export(pa.table({"x": [0.1]}), Path(here) / "x.csv").read_text().split()
        ['"x"', '0.1']
    """
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as work:
            FORMATS[format](rows, Path(work) / "table")
            os.replace(Path(work) / "table", path)
    except OSError as error:
        raise RidgeformerError(f"{path} cannot be written ({error.strerror}): give another path.") from None
    return path


def _order(row: StoredResult) -> list[tuple[str, str, float, str]]:
    """Return what rows are sorted by: each parameter in its turn, numbers by size, then the seed."""
    pairs = [*row.point.items(), ("seed", row.seed)]
    return [
        (name, "", float(value), "") if isinstance(value, int | float) else (name, "text", 0.0, as_json(value))
        for name, value in pairs
    ]


def _as_table(rows: list[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    """Return a column; what csv cannot hold, and a mixture, becomes JSON text."""
    try:
        column = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        column = None
    nested = column is None or pa.types.is_nested(column.type)
    return pa.array([as_json(value) for value in values]) if nested else column
