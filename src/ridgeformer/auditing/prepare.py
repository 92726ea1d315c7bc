"""From a dataset to training and test matrices, with a note on everything that was done to it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.auditing.oddities import oddities
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.datasets import Dataset, standardise, unit_rows

__all__ = ["Prepared", "numbered", "prepare", "row_numbers"]

FEWEST_ROWS = 10
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training and test rows ready for a kernel; targets centred on the training mean.

    Attributes:
        dataset: What was given.
        X, y: Training rows and centred targets.
        Xt, yt: Test rows and targets centred by the same mean.
        mean: The training mean that was subtracted from the targets.
        labels, labels_t: Class codes of both parts, or None for regression.
        rows, rows_t: The number of every row in the dataset as it was given.
        notes: One sentence for everything that was done to the data.
    """

    dataset: Dataset
    X: Tensor
    y: Tensor
    Xt: Tensor
    yt: Tensor
    mean: Tensor
    labels: Tensor | None
    labels_t: Tensor | None
    rows: NDArray[np.int64]
    rows_t: NDArray[np.int64]
    notes: tuple[str, ...]

    def score(self, outputs: Tensor, *, train: bool = False) -> float:
        """Return the accuracy of the largest output, or R^2 averaged over the outputs."""
        return float(self.row_scores(outputs, train=train).mean())

    def row_scores(self, outputs: Tensor, *, train: bool = False) -> Tensor:
        """Return what every row adds to the score, which is their mean: right or wrong, or its part of R^2.

        A row without a prediction (NaN) is scored as if the mean of the targets had been predicted.
        """
        outputs = outputs.nan_to_num(nan=0.0)
        truth, labels = (self.y, self.labels) if train else (self.yt, self.labels_t)
        if labels is not None:
            return ((outputs + self.mean).argmax(1) == labels).double()
        spread = (truth - truth.mean(0)).square().mean(0)
        return 1 - ((truth - outputs).square() / torch.where(spread > 0, spread, 1.0)).mean(1)


def prepare(dataset: Dataset, settings: Settings) -> Prepared:
    """Sample, split, preprocess and centre; statistics come from the training rows only.

    Raises:
        InputError: too few rows to hold any out.
    """
    if dataset.n < FEWEST_ROWS:
        raise InputError(
            f"{dataset.name} has {dataset.n} rows; an audit holds some out and needs at least {FEWEST_ROWS}."
        )
    _check_scale(dataset)
    notes, numbers = [], np.arange(dataset.n)
    if dataset.n > settings.max_rows:
        notes.append(
            f"Only {settings.max_rows:,} of {dataset.n:,} rows were used, drawn at random with classes in proportion "
            "(--max-rows takes more)."
        )
        numbers = row_numbers(numbered(dataset).sample(settings.max_rows, settings.seed))
        dataset = dataset.subset(numbers)
    train, test = dataset.split(settings.test_fraction, settings.seed)
    rows, rows_t = (
        numbers[row_numbers(part)] for part in numbered(dataset).split(settings.test_fraction, settings.seed)
    )
    X, Xt, note = _preprocess(train.X, test.X, _choice(dataset, settings))
    y, yt = torch.from_numpy(train.targets()), torch.from_numpy(test.targets())
    mean = y.mean(0)
    classes = dataset.task == "classification"
    return Prepared(
        dataset=dataset,
        X=torch.from_numpy(X),
        y=y - mean,
        Xt=torch.from_numpy(Xt),
        yt=yt - mean,
        mean=mean,
        labels=torch.from_numpy(np.asarray(train.y)) if classes else None,
        labels_t=torch.from_numpy(np.asarray(test.y)) if classes else None,
        rows=rows,
        rows_t=rows_t,
        notes=(*notes, f"{train.n:,} rows train, {test.n:,} are held out.", note, *oddities(train, test)),
    )


def numbered(dataset: Dataset) -> Dataset:
    """Return the dataset with every row replaced by its number: a draw from it says which rows were drawn."""
    return replace(dataset, X=np.arange(dataset.n, dtype=np.float64)[:, None], features=(), image_shape=None)


def row_numbers(part: Dataset) -> NDArray[np.int64]:
    """Return the numbers of the rows drawn from a `numbered` dataset."""
    return part.X[:, 0].astype(np.int64)


def _check_scale(dataset: Dataset) -> None:
    """Refuse numbers whose squares overflow or vanish, and features that say nothing."""
    for what, values in (("features", dataset.X), ("targets", dataset.targets())):
        largest = float(np.abs(values).max())
        if largest > LARGEST or 0 < largest < 1 / LARGEST:
            raise InputError(
                f"the {what} of {dataset.name} reach {largest:.1e}; sizes between {1 / LARGEST:.0e} and {LARGEST:.0e} "
                "were expected: choose another unit."
            )
    if bool((dataset.X[0] == dataset.X).all()):
        raise InputError(
            f"every feature of {dataset.name} is constant, so nothing can be learnt from them: add features."
        )


def _choice(dataset: Dataset, settings: Settings) -> str:
    if settings.preprocessing == "auto":
        return "unit_rows" if dataset.image_shape is not None else "standardise"
    return settings.preprocessing


def _preprocess(X: np.ndarray, Xt: np.ndarray, choice: str) -> tuple[np.ndarray, np.ndarray, str]:
    if choice == "unit_rows":
        return unit_rows(X), unit_rows(Xt), "Every row was scaled to unit length."
    if choice == "standardise":
        X, Xt = standardise(X, Xt)
        return X, Xt, "Every column was shifted and scaled to mean 0 and variance 1 over the training rows."
    raise unknown_name("preprocessing", choice, ["auto", "standardise", "unit_rows"])
