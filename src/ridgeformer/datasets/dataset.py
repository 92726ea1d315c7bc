"""A dataset: rows, targets, where they came from, what is odd about them; and the record of one not loaded yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray

from ridgeformer.core.errors import DtypeError, InputError, ShapeError, unknown_name
from ridgeformer.core.seeds import numpy_generator

if TYPE_CHECKING:
    from ridgeformer.datasets.columns import Column

__all__ = ["Dataset", "Entry", "Info", "Task", "find_copies", "oddities", "shares", "stratified_rows"]

Task = Literal["regression", "classification"]
TASKS = ("regression", "classification")
MOST_NAMED = 5


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows X and targets y of one task.

    Holds after construction: X is a float64 matrix with at least one row and one feature, finite but for missing
    values of a table, which are NaN; y has one entry a row; class codes are integers 0..c-1 with c = len(classes);
    names and image shape fit d.

    Attributes:
        name: Short name, such as "mnist".
        X: The rows, n x d.
        y: Float targets (n,) or (n, outputs) for regression, integer class codes (n,) for classification.
        task: "regression" or "classification".
        classes: Label of each class code; empty for regression.
        features: Name of each column of X.
        image_shape: (height, width) or (height, width, channels) if a row is an image, else None.
        source: Where the numbers came from, in one line.
        description: What the numbers are, in one line.
        columns: For a table, what each column of X is: number, boolean, date or category.
        target: Name of what is predicted.
        groups: Group of each row, as numbers: equal ones are held out together.
        times: Time of each row, as numbers: the last ones are held out.
        notes: One sentence for everything that was done to the data on reading.

    Example:
        >>> line = Dataset("line", np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]))
        >>> line
        Dataset('line', n=3, d=1, regression, 1 output)
        >>> line.targets().shape
        (3, 1)
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[Any]
    task: Task = "regression"
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    image_shape: tuple[int, ...] | None = None
    source: str = ""
    description: str = ""
    columns: tuple[Column, ...] = ()
    target: str = "the target"
    groups: NDArray[Any] | None = None
    times: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_task(self.task)
        _check_rows(self.name, self.X, holes=bool(self.columns))
        if self.task == "classification":
            _check_codes(self.name, self.y, self.n, self.classes)
        else:
            _check_values(self.name, self.y, self.n, self.classes)
        if not self.features:
            object.__setattr__(self, "features", tuple(f"x{j}" for j in range(self.d)))
        if len(self.features) != self.d:
            raise ShapeError(
                f"{self.name} has {len(self.features)} feature names for {self.d} columns: give one name a column."
            )
        if self.image_shape is not None and math.prod(self.image_shape) != self.d:
            raise ShapeError(
                f"{self.name} has image shape {self.image_shape}, which is {math.prod(self.image_shape)} pixels, "
                f"and rows of {self.d} features: the two must agree."
            )

    def __repr__(self) -> str:
        many = len(self.classes) or self.outputs
        noun = "class" if self.classes else "output"
        plural = "" if many == 1 else ("es" if self.classes else "s")
        return f"Dataset({self.name!r}, n={self.n}, d={self.d}, {self.task}, {many} {noun}{plural})"

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def outputs(self) -> int:
        """Columns of `targets()`: one a class, or one a regression target."""
        return len(self.classes) or (1 if self.y.ndim == 1 else int(self.y.shape[1]))

    def targets(self, *, other: float = -1.0) -> Float64[np.ndarray, "n r"]:
        """Return the targets as a fresh float64 matrix, one column an output, for a regression solver.

        A class becomes a row with +1 in its own column and `other` elsewhere, for two classes as well, so
        that the largest output is the prediction for any number of classes. Nothing is centred.

        Args:
            other: Value in the columns of the other classes: -1 for signed coding, 0 for one-hot. Not used
                for regression.

        Example:
            >>> pair = Dataset("pair", np.eye(2), np.array([0, 1]), "classification", ("no", "yes"))
            >>> pair.targets().tolist()
            [[1.0, -1.0], [-1.0, 1.0]]
            >>> pair.targets(other=0.0).tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        if self.task == "regression":
            return np.array(self.y, dtype=np.float64).reshape(self.n, -1)
        coded = np.full((self.n, self.outputs), other, dtype=np.float64)
        coded[np.arange(self.n), self.y] = 1.0
        return coded

    def subset(self, rows: Sequence[int] | Sequence[float] | NDArray[Any]) -> Dataset:
        """Return the given rows, by index or by a mask of n booleans, in the order given.

        The classes stay as they are, even those no row is left of.

        Raises:
            InputError: no rows, or a row that does not exist.

        Example:
            >>> Dataset("line", np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])).subset([2, 0]).y.tolist()
            [5.0, 1.0]
        """
        index = np.asarray(rows)
        if index.dtype == bool and index.shape == (self.n,):
            index = np.flatnonzero(index)
        if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
            raise InputError(
                f"rows has shape {index.shape} and dtype {index.dtype}; a list of at least one row number, or a "
                f"mask of {self.n} booleans, was expected."
            )
        outside = index[(index < -self.n) | (index >= self.n)]
        if outside.size:
            raise InputError(f"{self.name} has no row {outside[0]}: it has rows 0 to {self.n - 1}.")
        groups, times = (None if one is None else one[index] for one in (self.groups, self.times))
        return replace(self, X=self.X[index], y=self.y[index], groups=groups, times=times)

    def sample(self, n: int, seed: int) -> Dataset:
        """Return `n` rows drawn without replacement, classes in proportion, rows in their old order.

        Each class gets its share of n rounded down or up. The same seed gives the same rows.

        Raises:
            InputError: n is not between 1 and the number of rows.
        """
        if not 1 <= n <= self.n:
            raise InputError(f"cannot draw {n} rows from {self.name} without replacement: choose 1 to {self.n}.")
        return self.subset(stratified_rows(self._codes, self.n, n, numpy_generator(seed, "dataset.sample")))

    def split(self, test_fraction: float, seed: int) -> tuple[Dataset, Dataset]:
        """Return (train, test): disjoint, together every row, classes in proportion in both.

        The same seed gives the same split. Both parts have at least one row.

        Raises:
            InputError: the fraction is not strictly between 0 and 1, or there is one row only.

        Example:
            >>> line = Dataset("line", np.arange(10.0)[:, None], np.arange(10.0))
            >>> train, test = line.split(0.2, seed=0)
            >>> train.n, test.n
            (8, 2)
        """
        if not 0 < test_fraction < 1:
            raise InputError(f"test_fraction is {test_fraction}; a number strictly between 0 and 1 was expected.")
        if self.n < 2:
            raise InputError(f"{self.name} has one row, which cannot be split in two: give at least two rows.")
        size = min(max(round(self.n * test_fraction), 1), self.n - 1)
        chosen = stratified_rows(self._codes, self.n, size, numpy_generator(seed, "dataset.split"))
        in_test = np.zeros(self.n, dtype=bool)
        in_test[chosen] = True
        return self.subset(~in_test), self.subset(in_test)

    @property
    def _codes(self) -> NDArray[Any] | None:
        return self.y if self.task == "classification" else None


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise unknown_name("task", task, TASKS)


def _check_rows(name: str, X: NDArray[Any], *, holes: bool = False) -> None:
    if X.ndim != 2 or 0 in X.shape:
        raise ShapeError(
            f"{name}: X has shape {X.shape}; a matrix with at least one row and one feature was expected: "
            "flatten images to rows."
        )
    if X.dtype != np.float64:
        raise DtypeError(f"{name}: X has dtype {X.dtype}; float64 was expected: convert with X.astype(float).")
    bad = np.isinf(X) if holes else ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise InputError(
            f"{name}: X has {int(bad.sum())} entries that are NaN or infinite, the first in row {row}, column "
            f"{column}: drop those rows or fill them in."
        )


def _check_length(name: str, y: NDArray[Any], n: int) -> None:
    if y.ndim == 0 or y.shape[0] != n:
        raise ShapeError(f"{name}: y has shape {y.shape} and X has {n} rows: give one target a row.")


def _check_codes(name: str, y: NDArray[Any], n: int, classes: tuple[str, ...]) -> None:
    _check_length(name, y, n)
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise InputError(
            f"{name}: y has shape {y.shape} and dtype {y.dtype}; integer class codes of shape ({n},) were expected."
        )
    if len(classes) < 2:
        raise InputError(f"{name} has {len(classes)} classes; name at least two, in the order of their codes.")
    if y.min() < 0 or y.max() >= len(classes):
        raise InputError(
            f"{name}: y has class codes from {y.min()} to {y.max()} and {len(classes)} classes are named; codes "
            f"0 to {len(classes) - 1} were expected."
        )


def _check_values(name: str, y: NDArray[Any], n: int, classes: tuple[str, ...]) -> None:
    _check_length(name, y, n)
    if classes:
        raise InputError(f"{name} is a regression and names {len(classes)} classes: leave classes empty.")
    if y.ndim > 2 or 0 in y.shape or y.dtype != np.float64:
        raise InputError(
            f"{name}: y has shape {y.shape} and dtype {y.dtype}; float64 of shape ({n},) or ({n}, outputs) was "
            "expected."
        )
    if not np.isfinite(y).all():
        row = int(np.argwhere(~np.isfinite(y))[0][0])
        raise InputError(f"{name}: y is NaN or infinite in row {row}: drop that row or fill it in.")


def shares(counts: NDArray[Any], n: int, generator: np.random.Generator) -> Int64[np.ndarray, " classes"]:
    """Return how many of `n` rows each class gets: its proportion, rounded down or up, n in all.

    The rows that rounding leaves over go to the largest remainders; equal remainders are drawn by lot.
    Holds for 0 <= n <= sum(counts).

    Example:
        >>> shares(np.array([60, 30, 10]), 10, np.random.default_rng(0)).tolist()
        [6, 3, 1]
    """
    counts = np.asarray(counts, dtype=np.int64)
    whole, remainder = np.divmod(counts * n, counts.sum())
    order = np.lexsort((generator.random(counts.size), -remainder))
    whole[order[: n - whole.sum()]] += 1
    return whole


def stratified_rows(
    codes: NDArray[Any] | None, total: int, n: int, generator: np.random.Generator
) -> Int64[np.ndarray, " n"]:
    """Return `n` distinct rows of `total` in ascending order, in proportion to the classes `codes`.

    `codes=None` means no classes: any n rows are equally likely. Holds for 0 <= n <= total.

    Example:
        >>> rows = stratified_rows(np.array([0, 0, 0, 0, 1, 1]), 6, 3, np.random.default_rng(0))
        >>> [int((rows < 4).sum()), int((rows >= 4).sum())]
        [2, 1]
    """
    if codes is None:
        return np.sort(generator.permutation(total)[:n]).astype(np.int64)
    counts = np.bincount(codes)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
    parts = [generator.permutation(rows)[:k] for rows, k in zip(members, shares(counts, n, generator), strict=True)]
    return np.sort(np.concatenate(parts)).astype(np.int64)


SAME_THING = 1 - 1e-6
"""Correlation above which a column is the target in other numbers."""


def find_copies(dataset: Dataset) -> list[str]:
    """Return the columns that are the target in other numbers: a line through every row, or one value for each class.

    Example:
        >>> X = np.array([[1.0, 7.0], [2.0, 5.0], [3.0, 9.0], [4.0, 2.0]])
        >>> find_copies(Dataset("copied", X, 3 * X[:, 1] - 1))
        ['x1']
    """
    found = []
    targets = dataset.targets()
    for j, name in enumerate(dataset.features):
        values = dataset.X[:, j]
        distinct = np.unique(values)
        if np.isnan(values).any() or len(distinct) < 2:
            continue
        if dataset.classes:
            pairs = {(value, code) for value, code in zip(values.tolist(), dataset.y.tolist(), strict=True)}
            copied = len(pairs) == len(distinct) == len(np.unique(dataset.y)) > 1
        else:
            spread = targets.std(axis=0)
            copied = len(distinct) > 2 and bool(
                (spread > 0).all() and all(abs(np.corrcoef(values, column)[0, 1]) > SAME_THING for column in targets.T)
            )
        if copied:
            found.append(name)
    return found


def oddities(train: Dataset, test: Dataset) -> tuple[str, ...]:
    """Return one sentence for each oddity of a split: constant features, repeated rows, unseen classes.

    Example:
        >>> X = np.array([[1.0, 7.0], [2.0, 7.0], [1.0, 7.0]])
        >>> part = Dataset("part", X, np.array([0.0, 1.0, 0.0]))
        >>> for sentence in oddities(part, part.subset([0])):
        ...     print(sentence)
        1 of the 2 features is the same in every training row and says nothing: x1.
        2 of the 4 rows repeat an earlier row; 1 of the 1 held-out rows is also a training row, which flatters scores.
    """
    notes = []
    flat = np.flatnonzero((train.X[0] == train.X).all(axis=0))
    if flat.size:
        names = ", ".join(train.features[j] for j in flat[:MOST_NAMED])
        more = f" and {flat.size - MOST_NAMED} more" if flat.size > MOST_NAMED else ""
        verbs = ("is", "says") if flat.size == 1 else ("are", "say")
        notes.append(
            f"{flat.size} of the {train.d} features {verbs[0]} the same in every training row and {verbs[1]} nothing: "
            f"{names}{more}."
        )
    notes += _repeats(train, test)
    unseen = [train.classes[code] for code in np.setdiff1d(test.y, train.y)] if train.classes else []
    if unseen:
        noun = "class" if len(unseen) == 1 else "classes"
        notes.append(f"No training row is of {noun} {', '.join(unseen[:MOST_NAMED])}, so none can be predicted.")
    return tuple(notes)


def _repeats(train: Dataset, test: Dataset) -> list[str]:
    X, targets = np.vstack([train.X, test.X]), np.vstack([train.targets(), test.targets()])

    def number(rows: NDArray[Any]) -> NDArray[np.int64]:
        """Number the distinct rows."""
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)

    rows = number(X)
    distinct = int(rows.max()) + 1
    if distinct == len(X):
        return []
    note = f"{len(X) - distinct:,} of the {len(X):,} rows repeat an earlier row"
    leaked = int(np.isin(rows[train.n :], rows[: train.n]).sum())
    if leaked:
        verb = "is also a training row" if leaked == 1 else "are also training rows"
        note += f"; {leaked:,} of the {test.n:,} held-out rows {verb}, which flatters scores"
    notes = [note + "."]
    disagreeing = int(number(np.column_stack([X, targets])).max()) + 1 - distinct
    if disagreeing:
        notes.append(f"{disagreeing:,} of the repeats have another target, so no method can get every row right.")
    return notes


@dataclass(frozen=True)
class Info:
    """What is known of a named dataset before it is loaded.

    Attributes:
        name: What `load` takes.
        n: Number of rows of each part, in the order of `parts`.
        d: Number of features.
        task: "regression" or "classification".
        classes: Class labels; empty for regression.
        parts: ("train", "test") for an official split, ("train",) where there is none.
        origin: Where it comes from.
        fetched: Whether `load` works now, without fetching first.
        licence: Licence of the data, as far as its authors state one.
        citation: Whom to cite.
        description: What the numbers are, in one line.
    """

    name: str
    n: tuple[int, ...]
    d: int
    task: Task
    classes: tuple[str, ...]
    parts: tuple[str, ...]
    origin: str
    fetched: bool
    licence: str
    citation: str
    description: str

    def __str__(self) -> str:
        rows = " + ".join(f"{n:,} {part}" for n, part in zip(self.n, self.parts, strict=True))
        task = f"{self.task}, {len(self.classes)} classes" if self.classes else self.task
        ready = "yes" if self.fetched else f"no: run `ridgeformer data fetch {self.name}`"
        return "\n".join(
            [
                f"{self.name}: {self.description}",
                f"  rows      {rows if len(self.n) > 1 else format(self.n[0], ',')}, {self.d:,} features",
                f"  task      {task}",
                *([f"  classes   {', '.join(self.classes)}"] if self.classes else []),
                f"  origin    {self.origin}",
                f"  ready     {ready}",
                f"  licence   {self.licence}",
                f"  citation  {self.citation}",
            ]
        )


@runtime_checkable
class Entry(Protocol):
    """A line of the registry."""

    @property
    def name(self) -> str:
        """What `load` takes."""
        ...

    def info(self, cache_dir: str | Path | None = None) -> Info:
        """Return the record to show."""
        ...

    def load(self, part: str, cache_dir: str | Path | None = None, limit: int | None = None) -> Dataset:
        """Return one part, or `limit` of its rows with the classes in proportion."""
        ...
