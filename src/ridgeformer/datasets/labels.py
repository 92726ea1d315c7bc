"""What a target column means: numbers to regress on, or classes to tell apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeformer.core.errors import DtypeError, InputError, ShapeError, unknown_name
from ridgeformer.datasets.dataset import Task

__all__ = ["MOST_CLASSES", "Target", "code_target", "describe_target"]

MOST_CLASSES = 50
"""Integer targets with more distinct values than this are taken as numbers."""


class Target(NamedTuple):
    """Targets as `Dataset` keeps them."""

    y: NDArray[Any]
    task: Task
    classes: tuple[str, ...]


def code_target(values: NDArray[Any], task: str | None, what: str) -> Target:
    """Return targets coded for a task; `task=None` chooses it from the values.

    Text and booleans are classes, and so are integers of two values or of the values 0..c-1 with c at most
    `MOST_CLASSES`, each twice on average: that is how classes are coded. Other integers, such as ratings of 1 to 10,
    and fractions are numbers. Classes are sorted; their codes are 0..c-1.

    Args:
        values: One target a row, or for regression a matrix with one column an output.
        task: "classification", "regression" or None.
        what: What to call the target in a message.

    Raises:
        InputError: NaN, one class only, a label of its own for every row, or a task the values do not allow.

    Example:
        >>> code_target(np.array(["no", "yes", "no"]), None, "y")
        Target(y=array([0, 1, 0]), task='classification', classes=('no', 'yes'))
        >>> code_target(np.array([0.5, 1.0]), None, "y").task
        'regression'
    """
    if task not in (None, "classification", "regression"):
        raise unknown_name("task", task, ("classification", "regression"))
    values = _column(np.asarray(values), what)
    if (task or _guess(values)) == "regression":
        return Target(_numbers(values, what), "regression", ())
    return _classes(values, what)


def _column(values: NDArray[Any], what: str) -> NDArray[Any]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise ShapeError(f"{what} has shape {values.shape}; (rows,) or (rows, outputs) was expected.")
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind not in "fiubU":
        raise DtypeError(
            f"{what} has dtype {values.dtype}; numbers or text were expected: turn dates and objects into numbers."
        )
    bad = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(1, dtype=bool)
    if bad.any():
        raise InputError(
            f"{what} has {int(bad.sum())} missing or infinite values, the first in row {int(np.argwhere(bad)[0][0])}: "
            "drop those rows or fill them in."
        )
    return values


def _guess(values: NDArray[Any]) -> Task:
    if values.ndim == 2 or values.dtype.kind == "f":
        return "regression"
    if values.dtype.kind in "Ub":
        return "classification"
    levels = np.unique(values)
    few = 2 <= len(levels) <= min(MOST_CLASSES, len(values) // 2)
    coded = len(levels) == 2 or np.array_equal(levels, np.arange(len(levels)))
    return "classification" if few and coded else "regression"


def describe_target(values: NDArray[Any], task: str | None, taken: Task, what: str) -> tuple[str, ...]:
    """Return what integers of few values were taken for, and how to change that; nothing where there is no doubt.

    Example:
        >>> describe_target(np.array([1, 2, 3] * 4), None, "regression", "stars")
        ('stars holds 3 whole numbers, 1 to 3: taken as numbers; --task classification takes them as classes.',)
    """
    values = np.asarray(values)
    if task is not None or values.dtype.kind not in "iu" or values.ndim != 1:
        return ()
    levels = np.unique(values)
    if not 2 < len(levels) <= MOST_CLASSES:
        return ()
    other = (
        ("classes", "regression", "numbers") if taken == "classification" else ("numbers", "classification", "classes")
    )
    return (
        f"{what} holds {len(levels)} whole numbers, {levels[0]} to {levels[-1]}: taken as {other[0]}; --task "
        f"{other[1]} takes them as {other[2]}.",
    )


def _numbers(values: NDArray[Any], what: str) -> NDArray[np.float64]:
    if values.dtype.kind == "U":
        first = next((text for text in values.ravel().tolist() if not _is_number(text)), values.ravel()[0])
        raise InputError(
            f"{what} holds text such as {str(first)!r}, which cannot be regressed on: use task=classification."
        )
    return values.astype(np.float64)


def _classes(values: NDArray[Any], what: str) -> Target:
    if values.ndim == 2:
        raise InputError(
            f"{what} has {values.shape[1]} columns; give one column of class labels, or use task=regression."
        )
    if values.dtype.kind == "f":
        if not np.array_equal(values, np.round(values)):
            part = values[values != np.round(values)][0]
            raise InputError(f"{what} holds {part:g}, which is no class label: use whole numbers or task=regression.")
        values = values.astype(np.int64)
    labels, codes = np.unique(values, return_inverse=True)
    if len(labels) < 2:
        raise InputError(f"{what} has one class only ({str(labels[0])!r}): at least two are needed.")
    if len(labels) == len(values) > 2:
        raise InputError(
            f"{what} has a different label in each of its {len(values)} rows: it is a name, not a class; choose "
            "another target."
        )
    return Target(codes.astype(np.int64), "classification", tuple(str(label) for label in labels.tolist()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
