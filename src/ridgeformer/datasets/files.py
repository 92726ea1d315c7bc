"""The user's own files: .npz, .npy, .csv and .parquet. Plain numbers only, never a pickle."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeformer.core.errors import DataFileError, DtypeError, InputError, ShapeError, UnknownNameError, unknown_name
from ridgeformer.core.reading import check_unpacked, explained, open_regular
from ridgeformer.datasets.dataset import Dataset
from ridgeformer.datasets.labels import code_target, describe_target
from ridgeformer.datasets.npy import load_npy, load_npz

__all__ = ["ENDINGS", "PICKLES", "load_file", "read_npy", "read_npz"]

ENDINGS = (".npz", ".npy", ".csv", ".parquet")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib", ".dill")


def load_file(
    path: str | Path,
    *,
    target: str | int | None = None,
    task: str | None = None,
    part: str = "train",
    drop: Sequence[str] = (),
    group: str | None = None,
    time: str | None = None,
) -> Dataset:
    r"""Return the dataset in a file, chosen by its ending.

    Args:
        path: An .npz, .npy, .csv or .parquet file.
        target: What to predict: a column name or position of a table (default: the column y or target), a key of an
            .npz (default: y, or y_train), a column position of an .npy (default: the last).
        task: "classification" or "regression"; by default text, booleans and integers coded as classes
            are classes, anything else is numbers; see `code_target`.
        part: "train" or "test"; "test" needs an .npz with x_test and y_test.
        drop: For a table: columns to leave out.
        group: For a table: the column whose equal values are held out together, such as a patient.
        time: For a table: the column by which the last rows are held out.

    Raises:
        DataFileError: the file is missing, damaged, a pickle or of another kind.
        InputError: its content cannot be used; the message names the column.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "heights.csv"
        ...     _ = path.write_text("age,height\n1,0.75\n2,0.87\n3,0.96\n")
        ...     load_file(path, target="height")
        Dataset('heights', n=3, d=1, regression, 1 output)
    """
    if part not in ("train", "test"):
        raise unknown_name("part", part, ("train", "test"))
    path = Path(path).expanduser()
    with explained(path, "cannot be read"):
        ending = _check_path(path)
        if ending in (".csv", ".parquet") and part == "train":
            from ridgeformer.datasets import tables  # pyarrow takes a while to import

            read = tables.read_csv if ending == ".csv" else tables.read_parquet
            return read(path, target, task, tables.Roles(tuple(drop), group, time))
        if drop or group or time:
            raise InputError(f"{path.name} has no named columns: drop, group and time are for .csv and .parquet files.")
        return _load(path, ending, target, task, part)


def _load(path: Path, ending: str, target: str | int | None, task: str | None, part: str) -> Dataset:
    if ending == ".npz":
        return read_npz(path, target, task, part)
    if part != "train":
        raise InputError(
            f"{path.name} has no {part} part; only an .npz with x_test and y_test has: load it whole and call split()."
        )
    return read_npy(path, target, task)


def _check_path(path: Path) -> str:
    """Return the ending, in lower case, of a regular file with something in it."""
    ending = path.suffix.lower()
    if ending in PICKLES:
        raise DataFileError(
            f"{path} is a pickle by its name; opening a pickle runs code it contains, so it is never opened here: save "
            "the arrays with numpy.savez(path, X=X, y=y)."
        )
    with open_regular(path) as file:
        if ending not in ENDINGS:
            raise DataFileError(
                f"{path} ends in {ending or 'nothing'}; {', '.join(ENDINGS)} were expected: convert it first."
            )
        if not file.read(1):
            raise DataFileError(f"{path} is empty: save it again.")
    return ending


PIXELS = 64
"""Features from which rows of small whole numbers, a square number of them, are images."""

SPARSE = ("data", "indices", "indptr", "shape")
"""Keys of a sparse matrix in SciPy's compressed rows, beside which y is the target."""

WHOLE = (("X", "y"), ("x", "y"), ("data", "target"))
"""Keys of features and target in an .npz without a split."""

SPLIT = (("x_{}", "y_{}"), ("X_{}", "y_{}"))
"""Keys in an .npz with a split; {} is "train" or "test"."""


def read_npz(path: Path, target: str | int | None, task: str | None, part: str) -> Dataset:
    """Return two arrays of an .npz: by default X and y, or x_train and y_train (x_test, y_test).

    An array with more than two axes holds images: rows are flattened, and bytes are scaled to [0, 1].

    Args:
        path: The file.
        target: Key of the target; the features are then X, its usual companion, or the only other array.
        task: "classification", "regression", or None to choose from the target.
        part: "train" or "test"; "test" needs the keys of a split.

    Raises:
        DataFileError: not a complete .npz, or one with pickled objects.
        InputError: no such key, or arrays that do not fit.
    """
    sparse: list[str] = []

    def pick(keys: list[str]) -> tuple[str, ...]:
        y_key = str(target or "y")
        if part == "train" and {*SPARSE, y_key} <= set(keys) and y_key not in SPARSE:
            sparse.append(y_key)
            return (*SPARSE, y_key)
        return _pick_keys(path, keys, target, part)

    arrays = load_npz(path, pick)
    if sparse:
        return _dataset(path, _dense(path, arrays), arrays[sparse[0]], task, ("the sparse matrix", sparse[0]))
    (x_key, X), (y_key, y) = arrays.items()
    return _dataset(path, X, y, task, (x_key, y_key))


def _dense(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return a sparse matrix in compressed rows as an ordinary one."""
    from scipy.sparse import csr_array

    with explained(path, "holds no complete sparse matrix in compressed rows", "save data, indices, indptr and shape"):
        rows, columns = (int(size) for size in arrays["shape"])
        check_unpacked(str(path), 8 * rows * columns, path.stat().st_size)
        matrix = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns))
        matrix.check_format()
        return np.asarray(matrix.toarray())


def read_npy(path: Path, target: str | int | None, task: str | None) -> Dataset:
    """Return the matrix of an .npy: one column the target (the last by default), the others the features.

    Raises:
        DataFileError: not a complete .npy, or one with pickled objects.
        InputError: not a matrix, or no such column.
    """
    matrix = load_npy(path)
    if matrix.dtype.names or matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ShapeError(
            f"{path} has shape {matrix.shape} and dtype {matrix.dtype}; a matrix with a feature column and a target "
            "column was expected: save two arrays with numpy.savez(path, X=X, y=y) instead."
        )
    columns = matrix.shape[1]
    try:
        position = -1 if target is None else int(target)
    except ValueError:
        raise InputError(
            f"target is {target!r}; an .npy has no column names: give a position, 0 to {columns - 1}."
        ) from None
    if not -columns <= position < columns:
        raise InputError(
            f"{path.name} has no column {position}: it has {columns}, 0 to {columns - 1} (or -1 for the last)."
        )
    position %= columns
    return _dataset(path, np.delete(matrix, position, axis=1), matrix[:, position], task, ("", f"column {position}"))


def _dataset(path: Path, X: NDArray[Any], y: NDArray[Any], task: str | None, keys: tuple[str, str]) -> Dataset:
    what = f"{keys[0] or 'the matrix'} of {path.name}"
    if X.dtype.kind not in "fiub":
        raise DtypeError(f"{what} has dtype {X.dtype}; real numbers were expected: turn text and dates into numbers.")
    if X.ndim < 2 or 0 in X.shape:
        raise ShapeError(f"{what} has shape {X.shape}; (rows, features) was expected: reshape one feature to (-1, 1).")
    coded, kind, classes = code_target(y, task, f"{keys[1]} of {path.name}")
    if len(coded) != len(X):
        raise ShapeError(f"{what} has {len(X)} rows and {keys[1]} has {len(coded)}: give one target a row.")
    shape, notes = (X.shape[1:] if X.ndim > 2 else None), describe_target(y, task, kind, keys[1])
    side = isqrt(X.shape[1])
    if X.ndim == 2 and X.dtype.kind in "iu" and side * side == X.shape[1] >= PIXELS and 0 <= X.min() <= X.max() <= 255:
        shape = (side, side)
        notes = (*notes, f"Rows of {X.shape[1]} whole numbers from 0 to {X.max()} taken as images of {side} x {side}.")
    images = shape is not None
    scaled = images and X.dtype == np.uint8
    rows = X.reshape(len(X), -1).astype(np.float64)
    return Dataset(
        name=path.stem,
        X=rows / 255.0 if scaled else rows,
        y=coded,
        task=kind,
        classes=classes,
        image_shape=shape,
        source=f"{path}, target {keys[1]}" + (", pixels / 255" if scaled else ""),
        description=f"{'Images' if images else 'Rows'} of {rows.shape[1]} features, {len(rows)} in all.",
        target=keys[1],
        notes=notes,
    )


def _pick_keys(path: Path, keys: list[str], target: str | int | None, part: str) -> tuple[str, str]:
    """Return the keys of features and target."""
    split = [(x.format(part), y.format(part)) for x, y in SPLIT]
    pairs = [*WHOLE, *split] if part == "train" else split
    if target is None:
        found = next(((x, y) for x, y in pairs if x in keys and y in keys), None)
        if found is None:
            raise InputError(
                f"{path.name} has the keys {', '.join(keys) or '(none)'}; {_spelled(pairs)} were expected for the "
                f"{part} part: rename them, or give target=KEY."
            )
        return found
    if target not in keys:
        near = difflib.get_close_matches(str(target), keys, n=1, cutoff=0.5)
        hint = f": did you mean {near[0]!r}?" if near else "."
        raise UnknownNameError(f"{path.name} has no key {target!r}{hint} Its keys are {', '.join(keys)}.")
    others = [x for x, y in pairs if y == target and x in keys] or [x for x in ("X", "x") if x in keys and x != target]
    others = others or [key for key in keys if key != target]
    if len(others) != 1:
        raise InputError(
            f"{path.name} has the keys {', '.join(keys)}; with target {target!r} the features are not clear: name "
            "them X."
        )
    return others[0], str(target)


def _spelled(pairs: list[tuple[str, str]]) -> str:
    return " or ".join(f"{x} and {y}" for x, y in pairs)
