"""Preprocessing as pure functions: rows of unit length, columns of mean zero and variance one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.checks import as_matrix, whole
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets.dataset import Dataset, Task, oddities, stratified_rows

__all__ = ["CODINGS", "PREPROCESSING", "Split", "standardise", "unit_rows"]


def unit_rows(X: Any) -> Float64[np.ndarray, "n d"]:
    """Return X with every row divided by its Euclidean length.

    Holds for rows that are not zero. Rows of any representable size come out right: each is divided by its
    largest entry first, so no square overflows or vanishes.

    Raises:
        InputError: a row is zero and has no direction.

    Example:
        >>> unit_rows([[3.0, 4.0], [0.0, 2.0]]).tolist()
        [[0.6, 0.8], [0.0, 1.0]]
    """
    rows = _matrix(X, "X")
    largest = np.abs(rows).max(axis=1, keepdims=True)
    zero = np.flatnonzero(largest == 0)
    if zero.size:
        raise InputError(
            f"row {zero[0]} is all zeros ({zero.size} such rows in all) and has no direction: drop the zero rows "
            "before scaling rows to unit length."
        )
    rows = rows / largest
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def standardise(train: Any, *others: Any) -> tuple[Float64[np.ndarray, "_ d"], ...]:
    """Return (train, *others) with each column shifted and scaled by the mean and deviation of `train`.

    Nothing about `others` enters the statistics. A column that is constant in `train` says nothing about it
    and becomes zero everywhere. The deviation divides by n. The result is always a tuple.

    Raises:
        ShapeError: a matrix with another number of columns than `train`.

    Example:
        >>> train, test = standardise([[1.0, 5.0], [3.0, 5.0]], [[4.0, 6.0]])
        >>> train.tolist(), test.tolist()
        ([[-1.0, 0.0], [1.0, 0.0]], [[2.0, 0.0]])
    """
    fitted = _matrix(train, "train")
    constant = fitted.max(axis=0) == fitted.min(axis=0)
    mean = fitted.mean(axis=0)
    deviation = np.where(constant, 1.0, fitted.std(axis=0))
    results = []
    for position, other in enumerate((train, *others)):
        name = "train" if position == 0 else f"matrix {position} after train"
        matrix = _matrix(other, name)
        if matrix.shape[1] != fitted.shape[1]:
            raise ShapeError(
                f"{name} has {matrix.shape[1]} columns and train has {fitted.shape[1]}: give all the same columns."
            )
        results.append(np.where(constant, 0.0, (matrix - mean) / deviation))
    return tuple(results)


def _matrix(value: Any, name: str) -> Float64[np.ndarray, "n d"]:
    return as_matrix(value, name).detach().cpu().to(torch.float64).numpy()


Rows = NDArray[np.int64]

FEWEST_ROWS = 10
FEWEST_NETWORK_ROWS = 2
LARGEST = 1e100
"""Entries beyond this, or all below its inverse, have squares that overflow or vanish."""

ONE_CLASS = "the training rows are all of one class, so there is nothing to tell apart: add another class."
CODINGS = ("signed", "one_hot")
PREPROCESSING = {
    "auto": "",
    "standardise": "Every column was shifted and scaled to mean 0 and variance 1 over the training rows.",
    "unit_rows": "Every row was scaled to unit length.",
    "both": "Every column was standardised over the training rows, then every row scaled to unit length.",
    "none": "The features are used as given.",
}
"""Ways to scale the features, each with the note it leaves; "auto" is unit rows for images, else standardise."""


@dataclass(frozen=True, eq=False)
class Split:
    """Training and held-out rows, encoded, scaled and centred. Statistics come from the training rows alone.

    Attributes:
        dataset: The dataset as given.
        X, y: Training rows and targets, one column an output.
        Xt, yt: Held-out rows and targets, scaled and centred with the statistics of the training rows.
        mean: What was subtracted from the targets: their training mean, or zeros.
        classes: The name of each code in `labels`; empty for regression.
        labels, labels_t: Class codes of both parts, or None for regression.
        rows, rows_t: The number of each row in the dataset.
        notes: One sentence for everything that was done to the data or is odd about them.

    Example:
        >>> from ridgeformer.datasets import load
        >>> split = Split.of(load("wine"))
        >>> split.X.shape, split.Xt.shape, split.rows_t[:3].tolist()
        (torch.Size([125, 13]), torch.Size([53, 13]), [3, 4, 7])
    """

    dataset: Dataset
    X: Tensor
    y: Tensor
    Xt: Tensor
    yt: Tensor
    mean: Tensor
    classes: tuple[str, ...]
    labels: Tensor | None
    labels_t: Tensor | None
    rows: Rows
    rows_t: Rows
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        *,
        test_fraction: float = 0.3,
        max_rows: int = 2000,
        preprocessing: str = "auto",
        seed: int = 0,
        held_out: int | None = None,
    ) -> Split:
        """Sample, split, scale and centre a dataset.

        Args:
            dataset: What to prepare.
            test_fraction: Fraction of the rows to hold out.
            max_rows: Rows used at most; a larger dataset is sampled, classes in proportion.
            preprocessing: A key of `PREPROCESSING`.
            seed: Of the sample and of the split.
            held_out: A row to hold out in any case, last of `rows_t`. It is set aside before anything else happens,
                so neither its features nor its target enter the sample, the split or any statistic.

        Raises:
            InputError: too few rows, no such row, features that are all constant, or numbers out of range.
        """
        if dataset.n < FEWEST_ROWS:
            raise InputError(f"{dataset.name} has {dataset.n} rows; holding some out needs at least {FEWEST_ROWS}.")
        notes = []
        if dataset.n > max_rows:
            notes.append(
                f"Only {max_rows:,} of {dataset.n:,} rows were used, drawn at random with classes in proportion "
                "(--max-rows takes more)."
            )
        rows, rows_t = _draw(dataset, np.arange(dataset.n), max_rows, test_fraction, seed, held_out)
        if preprocessing == "auto":
            preprocessing = "unit_rows" if dataset.image_shape is not None else "standardise"
        split = _prepared(dataset, rows, rows_t, preprocessing, dataset.classes, other=-1.0, centre=True)
        train, test = dataset.subset(rows), dataset.subset(rows_t)
        notes += [f"{train.n:,} training rows, {test.n:,} held out.", *split.notes, *oddities(train, test)]
        if held_out is not None:
            notes.append(f"Row {held_out} was set aside before the others were sampled, split and scaled.")
        return _with_notes(split, notes)

    @classmethod
    def for_networks(
        cls,
        dataset: Dataset,
        *,
        rows: int = 200,
        test_rows: int = 100,
        seed: int = 0,
        classes: Sequence[str] | None = None,
        coding: str = "signed",
        preprocessing: str = "unit_rows",
        at_most: bool = False,
    ) -> Split:
        """Draw rows for a network: targets not centred, two classes in one column of +1 and -1.

        Args:
            dataset: What to draw from.
            rows: Training rows.
            test_rows: Held-out rows.
            seed: Of the draw.
            classes: Keep these classes only, such as ("3", "8").
            coding: For more than two classes, one column each: "signed", +1 and -1, or "one_hot", 1 and 0.
            preprocessing: A key of `PREPROCESSING`; unit rows, as published.
            at_most: Take a dataset with fewer rows whole, a third of it held out, instead of refusing it.

        Raises:
            InputError: too few rows, or training rows of one class.

        Example:
            >>> from ridgeformer.datasets import load
            >>> split = Split.for_networks(load("digits"), rows=50, test_rows=30, seed=0, classes=("3", "8"))
            >>> split.X.shape, sorted(set(split.y.flatten().tolist())), split.classes
            (torch.Size([50, 64]), [-1.0, 1.0], ('3', '8'))
        """
        rows, test_rows = whole(rows, "rows", FEWEST_NETWORK_ROWS), whole(test_rows, "test_rows", 1)
        if coding not in CODINGS:
            raise unknown_name("coding", coding, CODINGS)
        for name in classes or ():
            if name not in dataset.classes:
                raise unknown_name("class", name, dataset.classes)
        wanted = dataset.classes if classes is None else tuple(classes)
        pool = np.arange(dataset.n)
        if dataset.classes:
            pool = np.flatnonzero(np.isin(dataset.y, [dataset.classes.index(name) for name in wanted]))
        if len(pool) < FEWEST_NETWORK_ROWS + 1:
            raise InputError(f"{dataset.name} has {len(pool)} rows; at least 3 are needed, one of them to test on.")
        if at_most and len(pool) < rows + test_rows:
            test_rows = len(pool) // 3
            rows = len(pool) - test_rows
        if rows + test_rows > len(pool):
            raise InputError(
                f"{dataset.name} has {len(pool)} rows; {rows} to train on and {test_rows} to test on were asked for: "
                "ask for fewer."
            )
        total = rows + test_rows
        train, test = _draw(dataset, pool, total, test_rows / total, seed, None)
        present = tuple(dataset.classes[code] for code in np.unique(dataset.y[pool])) if dataset.classes else ()
        other = -1.0 if coding == "signed" else 0.0
        split = _prepared(dataset, train, test, preprocessing, present, other=other, centre=False)
        if split.labels is not None and len(split.labels.unique()) < 2:
            raise InputError(ONE_CLASS)
        return _with_notes(split, [f"{rows:,} training rows, {test_rows:,} test rows, of {dataset.n:,}.", *split.notes])

    def draw_for_networks(self, rows: int, test_rows: int, seed: int) -> Split:
        """Return a subset of both parts for a network, at most `rows` and `test_rows`; see `for_networks`.

        Rows are scaled to unit length. Numeric targets are scaled to mean square one, since networks at initialisation
        have outputs of that size.
        """

        def choose(labels: Tensor | None, n: int, size: int, purpose: str) -> Rows:
            codes = None if labels is None else labels.numpy()
            return stratified_rows(codes, n, min(size, n), numpy_generator(seed, purpose))

        train = choose(self.labels, len(self.X), rows, "dataset.sample")
        test = choose(self.labels_t, len(self.Xt), test_rows, "dataset.split")
        size = float(self.y.square().mean().sqrt()) or 1.0
        columns = slice(1, 2) if len(self.classes) == 2 else slice(None)

        def targets(y: Tensor) -> Tensor:
            return (y + self.mean).round()[:, columns] if self.classes else y / size

        labels, labels_t = (
            None if codes is None else codes[chosen] for codes, chosen in ((self.labels, train), (self.labels_t, test))
        )
        if labels is not None and len(labels.unique()) < 2:
            raise InputError(ONE_CLASS)
        return Split(
            dataset=self.dataset,
            X=torch.from_numpy(unit_rows(self.X[train])),
            y=targets(self.y[train]),
            Xt=torch.from_numpy(unit_rows(self.Xt[test])),
            yt=targets(self.yt[test]),
            mean=torch.zeros_like(self.mean[columns]),
            classes=self.classes,
            labels=labels,
            labels_t=labels_t,
            rows=self.rows[train],
            rows_t=self.rows_t[test],
            notes=(*self.notes, f"Of these, {len(train):,} training and {len(test):,} held-out rows, of unit length."),
        )

    @property
    def task(self) -> Task:
        """Classification or regression."""
        return self.dataset.task

    def row_scores(self, outputs: Float[Tensor, "k c"], *, train: bool = False) -> Tensor:
        """Return what every row adds to the score, which is their mean: right or wrong, or its part of R^2.

        A row without a prediction (NaN) is scored as if the mean of the targets had been predicted.
        """
        truth, labels = (self.y, self.labels) if train else (self.yt, self.labels_t)
        outputs = outputs.nan_to_num(nan=0.0).to(truth)
        if labels is not None:
            return (self.decide(outputs) == labels).double()
        spread = (truth - truth.mean(0)).square().mean(0)
        return 1 - ((truth - outputs).square() / torch.where(spread > 0, spread, 1.0)).mean(1)

    def score(self, outputs: Float[Tensor, "k c"], *, train: bool = False) -> float:
        """Return the accuracy, or R^2 averaged over the outputs."""
        return float(self.row_scores(outputs, train=train).mean())

    def error(self, outputs: Float[Tensor, "k c"], *, train: bool = False) -> float:
        """Return the fraction of rows in the wrong class, or the mean squared error."""
        if self.labels is not None:
            return 1 - self.score(outputs, train=train)
        truth = self.y if train else self.yt
        return float((outputs.to(truth) - truth).square().mean())

    def decide(self, outputs: Float[Tensor, "k c"]) -> Tensor:
        """Return the class codes that centred outputs decide for: the largest, or the sign of the only one."""
        outputs = outputs + self.mean
        return (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)

    def describe_outputs(self, outputs: Float[Tensor, " c"]) -> str:
        """Return the class, or the first target, that the centred outputs at one row amount to."""
        if self.labels is not None:
            return self.classes[int(self.decide(outputs[None])[0])]
        return f"{float(outputs[0] + self.mean[0]):.4g}"

    def describe_target(self, place: int, *, train: bool = False) -> str:
        """Return the class, or the first target, of one row of either part."""
        y, labels = (self.y, self.labels) if train else (self.yt, self.labels_t)
        return self.describe_outputs(y[place]) if labels is None else self.classes[int(labels[place])]


def _draw(
    dataset: Dataset, pool: Rows, most: int, test_fraction: float, seed: int, held_out: int | None
) -> tuple[Rows, Rows]:
    """Return the numbers of the training and held-out rows drawn from the pool; classes stay in proportion."""
    if held_out is not None:
        if isinstance(held_out, bool) or not isinstance(held_out, int) or not 0 <= held_out < dataset.n:
            raise InputError(f"{dataset.name} has no row {held_out!r}: it has rows 0 to {dataset.n - 1}.")
        pool, most = pool[pool != held_out], most - 1
    if not 0 < test_fraction < 1:
        raise InputError(f"test_fraction is {test_fraction}; a number strictly between 0 and 1 was expected.")

    def choose(among: Rows, size: int, purpose: str) -> Rows:
        codes = dataset.y[among] if dataset.classes else None
        return among[stratified_rows(codes, len(among), size, numpy_generator(seed, purpose))]

    if len(pool) > most:
        pool = choose(pool, most, "dataset.sample")
    size = min(max(round(len(pool) * test_fraction), 1), len(pool) - 1)
    test = choose(pool, size, "dataset.split")
    return np.setdiff1d(pool, test), test if held_out is None else np.append(test, held_out)


def _prepared(
    dataset: Dataset,
    rows: Rows,
    rows_t: Rows,
    preprocessing: str,
    classes: tuple[str, ...],
    *,
    other: float,
    centre: bool,
) -> Split:
    """Scale the features and encode the targets of these rows, `other` being the target of the other classes."""
    _check_scale(dataset)
    X, Xt = dataset.X[rows], dataset.X[rows_t]
    if preprocessing not in PREPROCESSING:
        raise unknown_name("preprocessing", preprocessing, list(PREPROCESSING))
    if preprocessing in ("standardise", "both"):
        X, Xt = standardise(X, Xt)
    if preprocessing in ("unit_rows", "both"):
        X, Xt = unit_rows(X), unit_rows(Xt)
    codes = [dataset.classes.index(name) for name in classes]
    y, yt = (_encoded(dataset, part, codes, other, pair=not centre) for part in (rows, rows_t))
    mean = y.mean(0) if centre else torch.zeros(y.shape[1], dtype=torch.float64)
    labels, labels_t = (
        torch.from_numpy(np.searchsorted(codes, dataset.y[part])) if codes else None for part in (rows, rows_t)
    )
    return Split(
        dataset=dataset,
        X=torch.from_numpy(X),
        y=y - mean,
        Xt=torch.from_numpy(Xt),
        yt=yt - mean,
        mean=mean,
        classes=classes,
        labels=labels,
        labels_t=labels_t,
        rows=rows,
        rows_t=rows_t,
        notes=(PREPROCESSING[preprocessing],),
    )


def _encoded(dataset: Dataset, rows: Rows, codes: list[int], other: float, *, pair: bool) -> Tensor:
    """Return the targets as columns: one a class, or with `pair` one column of +1 and -1 for two classes."""
    part = dataset.subset(rows)
    if not codes:
        return torch.from_numpy(part.targets())
    if pair and len(codes) == 2:
        return torch.from_numpy(np.where(part.y == codes[1], 1.0, -1.0)[:, None])
    return torch.from_numpy(part.targets(other=other)[:, codes])


def _with_notes(split: Split, notes: Sequence[str]) -> Split:
    return Split(**{**vars(split), "notes": tuple(notes)})


def _check_scale(dataset: Dataset) -> None:
    """Refuse numbers whose squares overflow or vanish, and features that are all constant."""
    targets = dataset.targets() if dataset.task == "regression" else np.ones(1)
    for what, values in (("features", dataset.X), ("targets", targets)):
        largest = max(float(values.max()), -float(values.min()))
        if largest > LARGEST or 0 < largest < 1 / LARGEST:
            raise InputError(
                f"the {what} of {dataset.name} reach {largest:.1e}; sizes between {1 / LARGEST:.0e} and {LARGEST:.0e} "
                "were expected: choose another unit."
            )
    if bool((dataset.X[0] == dataset.X).all()):
        raise InputError(
            f"every feature of {dataset.name} is constant, so nothing can be learnt from them: add features."
        )
