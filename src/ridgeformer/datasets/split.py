"""`Split`: the one place where rows are sampled, held out, encoded, scaled and centred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets.dataset import Dataset, Task, oddities, stratified_rows
from ridgeformer.datasets.encoding import PREPROCESSING, choose_preprocessing, make_encoder, unit_rows

__all__ = ["CODINGS", "Split", "number_folds"]


Rows = NDArray[np.int64]

FEWEST_ROWS = 10
FEWEST_NETWORK_ROWS = 2
LARGEST = 1e100
"""Entries beyond this, or all below its inverse, have squares that overflow or vanish."""

ONE_CLASS = "the training rows are all of one class, so there is nothing to tell apart: add another class."
CODINGS = ("signed", "one_hot")


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
        encoder: The fitted pipeline of scikit-learn's transformers from rows of `dataset.X` to rows of X.
        preprocessing: The key of `PREPROCESSING` that was taken.

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
    encoder: Any = None
    preprocessing: str = "none"

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
        fold: tuple[int, int] | None = None,
    ) -> Split:
        """Sample, split, scale and centre a dataset.

        Rows of one group are held out together, and with times the last rows are held out.

        Args:
            dataset: What to prepare.
            test_fraction: Fraction of the rows to hold out; 0 trains on all of them, and `Xt` is `X`.
            max_rows: Rows used at most; a larger dataset is sampled, classes in proportion.
            preprocessing: A key of `PREPROCESSING`.
            seed: Of the sample and of the split.
            held_out: A row to hold out in any case, last of `rows_t`. It is set aside before anything else happens,
                so neither its features nor its target enter the sample, the split or any statistic.
            fold: (k, of): hold out fold k of this number of folds, instead of a fraction.

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
        rows, rows_t = _draw(dataset, np.arange(dataset.n), max_rows, test_fraction, seed, held_out, fold)
        split = _prepared(dataset, rows, rows_t, preprocessing, dataset.classes, other=-1.0, centre=True)
        train, test = dataset.subset(rows), dataset.subset(rows_t)
        parts = f"{train.n:,} training rows, {test.n:,} held out"
        if test_fraction == 0 and fold is None:
            parts = f"{train.n:,} training rows, none held out"
        elif dataset.times is not None:
            parts += ", the last ones in time"
        elif dataset.groups is not None:
            parts += ", no group in both parts"
        notes = [*dataset.notes, *notes, f"{parts}.", *split.notes, *oddities(train, test)]
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
        preprocessing: str = "auto",
        at_most: bool = False,
    ) -> Split:
        """Draw rows for a network: two classes in one column of +1 and -1, numeric targets of mean 0 and variance 1.

        Args:
            dataset: What to draw from.
            rows: Training rows.
            test_rows: Held-out rows.
            seed: Of the draw.
            classes: Keep these classes only, such as ("3", "8").
            coding: For more than two classes, one column each: "signed", +1 and -1, or "one_hot", 1 and 0.
            preprocessing: A key of `PREPROCESSING`; "auto" is unit rows, as published, for images and counts, and for
                columns of different units "both".
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
        train, test = _draw(dataset, pool, total, test_rows / total, seed, None, None)
        present = tuple(dataset.classes[code] for code in np.unique(dataset.y[pool])) if dataset.classes else ()
        other = -1.0 if coding == "signed" else 0.0
        if preprocessing == "auto" and choose_preprocessing(dataset, "auto") != "unit_rows":
            preprocessing = "both"
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

    def with_training_rows(self, count: int, *, seed: int = 0) -> Split:
        """Return the split with this many of its training rows at most, classes in proportion, scaled by these alone.

        The held-out rows stay.

        Example:
            >>> from ridgeformer.datasets import load
            >>> split = Split.of(load("wine")).with_training_rows(50)
            >>> split.X.shape, split.Xt.shape
            (torch.Size([50, 13]), torch.Size([53, 13]))
        """
        codes = None if self.labels is None else self.labels.numpy()
        size = min(whole(count, "count", 2), len(self.rows))
        rows = self.rows[stratified_rows(codes, len(self.rows), size, numpy_generator(seed, "dataset.sample"))]
        split = _prepared(self.dataset, rows, self.rows_t, self.preprocessing, self.classes, other=-1.0, centre=True)
        return _with_notes(split, self.notes)

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
    dataset: Dataset,
    pool: Rows,
    most: int,
    test_fraction: float,
    seed: int,
    held_out: int | None,
    fold: tuple[int, int] | None,
) -> tuple[Rows, Rows]:
    """Return the numbers of the training and held-out rows drawn from the pool; classes stay in proportion."""
    if held_out is not None:
        if isinstance(held_out, bool) or not isinstance(held_out, int) or not 0 <= held_out < dataset.n:
            raise InputError(f"{dataset.name} has no row {held_out!r}: it has rows 0 to {dataset.n - 1}.")
        pool, most = pool[pool != held_out], most - 1
    if not 0 <= test_fraction < 1:
        raise InputError(f"test_fraction is {test_fraction}; a number from 0 to below 1 was expected.")

    def choose(among: Rows, size: int, purpose: str) -> Rows:
        codes = dataset.y[among] if dataset.classes else None
        return among[stratified_rows(codes, len(among), size, numpy_generator(seed, purpose))]

    if len(pool) > most:
        pool = choose(pool, most, "dataset.sample")
    size = min(max(round(len(pool) * test_fraction), 1), len(pool) - 1)
    if fold is not None:
        test = pool[number_folds(dataset, pool, fold[1], seed) == fold[0]]
    elif test_fraction == 0:
        return pool, pool if held_out is None else np.array([held_out])
    elif dataset.times is not None:
        test = np.sort(pool[np.argsort(dataset.times[pool], kind="stable")[-size:]])
    elif dataset.groups is not None:
        test = pool[number_folds(dataset, pool, max(2, round(1 / test_fraction)), seed) == 0]
    else:
        test = choose(pool, size, "dataset.split")
    return np.setdiff1d(pool, test), test if held_out is None else np.append(test, held_out)


def number_folds(dataset: Dataset, rows: Rows, folds: int, seed: int) -> Rows:
    """Return the number of the fold that each of these rows belongs to, 0 to `folds` - 1.

    Classes are spread evenly over the folds; rows of one group share a fold; with times, folds are successive periods.

    Raises:
        InputError: fewer groups than folds.

    Example:
        >>> from ridgeformer.datasets import load
        >>> np.bincount(number_folds(load("wine"), np.arange(178), 5, seed=0)).tolist()
        [36, 36, 36, 35, 35]
    """
    generator = numpy_generator(seed, "dataset.folds")
    numbers = np.empty(len(rows), dtype=np.int64)
    if dataset.times is not None:
        numbers[np.argsort(dataset.times[rows], kind="stable")] = np.arange(len(rows)) * folds // len(rows)
        return numbers
    if dataset.groups is not None:
        names, members = np.unique(dataset.groups[rows], return_inverse=True)
        if len(names) < folds:
            raise InputError(
                f"{dataset.name} has {len(names)} groups; {folds} or more are needed to hold some out: choose another "
                "group column."
            )
        sizes, load = np.bincount(members), np.zeros(folds)
        for group in np.lexsort((generator.random(len(names)), -sizes)):
            lightest = int(load.argmin())
            numbers[members == group] = lightest
            load[lightest] += sizes[group]
        return numbers
    codes = dataset.y[rows] if dataset.classes else np.zeros(len(rows))
    numbers[np.lexsort((generator.random(len(rows)), codes))] = np.arange(len(rows)) % folds
    return numbers


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
    preprocessing = choose_preprocessing(dataset, preprocessing)
    encoder = make_encoder(dataset, rows, preprocessing)
    X, Xt = encoder.fit_transform(dataset.X[rows]), encoder.transform(dataset.X[rows_t])
    if not centre and preprocessing in ("unit_rows", "both"):
        unit_rows(np.vstack([X, Xt]))  # networks have no use for rows of zeros
    codes = [dataset.classes.index(name) for name in classes]
    y, yt = (_encoded(dataset, part, codes, other, pair=not centre) for part in (rows, rows_t))
    notes = [PREPROCESSING[preprocessing]]
    if not centre and not codes:
        middle, spread = y.mean(0), y.std(0, correction=0)
        y, yt = ((part - middle) / torch.where(spread > 0, spread, 1.0) for part in (y, yt))
        notes.append("The target was shifted and scaled to mean 0 and variance 1 over the training rows.")
    mean = y.mean(0) if centre else torch.zeros(y.shape[1], dtype=torch.float64)
    labels, labels_t = (
        torch.from_numpy(np.searchsorted(codes, dataset.y[part])) if codes else None for part in (rows, rows_t)
    )
    return Split(
        dataset=dataset,
        X=torch.from_numpy(np.ascontiguousarray(X)),
        y=y - mean,
        Xt=torch.from_numpy(np.ascontiguousarray(Xt)),
        yt=yt - mean,
        mean=mean,
        classes=classes,
        labels=labels,
        labels_t=labels_t,
        rows=rows,
        rows_t=rows_t,
        notes=tuple(notes),
        encoder=encoder,
        preprocessing=preprocessing,
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
        largest = float(np.nanmax(np.abs(values)))
        if largest > LARGEST or 0 < largest < 1 / LARGEST:
            raise InputError(
                f"the {what} of {dataset.name} reach {largest:.1e}; sizes between {1 / LARGEST:.0e} and {LARGEST:.0e} "
                "were expected: choose another unit."
            )
    if bool((dataset.X[0] == dataset.X).all()):
        raise InputError(
            f"every feature of {dataset.name} is constant, so nothing can be learnt from them: add features."
        )
