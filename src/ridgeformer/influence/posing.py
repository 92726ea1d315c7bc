"""A question about one row of a dataset, ready for a fit: it is held out, and training rows keep their numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.auditing.prepare import Prepared, numbered, prepare, row_numbers
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.errors import InputError
from ridgeformer.datasets import Dataset

__all__ = ["Posed", "pose_row"]


@dataclass(frozen=True, eq=False)
class Posed:
    """Prepared data and the row asked about.

    Attributes:
        data: prepared as for an audit, the row asked about among the held-out rows.
        row: its number in the dataset.
        place: its place among the held-out rows.
        numbers: the number in the dataset of every training row.
        source: the training rows before anything was done to them.
    """

    data: Prepared
    row: int
    place: int
    numbers: NDArray[np.int64]
    source: NDArray[np.float64]

    @property
    def truth(self) -> str:
        """The class or the target of the row asked about, as one would write it."""
        if self.data.labels_t is not None:
            return self.data.dataset.classes[int(self.data.labels_t[self.place])]
        return f"{float(self.data.yt[self.place, 0] + self.data.mean[0]):.4g}"

    def said(self, outputs: Tensor) -> str:
        """Return what the outputs at a row, centred as the targets are, say in words."""
        outputs = outputs + self.data.mean
        return self.data.dataset.classes[int(outputs.argmax())] if self.data.labels is not None else f"{outputs[0]:.4g}"


def pose_row(dataset: Dataset, row: Any, settings: Settings) -> Posed:
    """Prepare the dataset as an audit does, with `row` held out whichever part the split put it in.

    Scales and means that preparation takes from the training rows may have seen it; the fit does not.

    Raises:
        InputError: no such row, training rows of one class only, or none of the row's own class.

    Example:
        >>> from ridgeformer import datasets
        >>> posed = pose_row(datasets.load("wine"), 7, Settings())
        >>> 7 in posed.numbers, len(posed.numbers) == len(posed.data.X)
        (False, True)
    """
    row = _row(dataset, row)
    kept = np.arange(dataset.n)
    notes: tuple[str, ...] = ()
    if dataset.n > settings.max_rows:
        others = numbered(dataset).subset(kept != row).sample(settings.max_rows - 1, settings.seed)
        kept = np.sort(np.append(row_numbers(others), row))
        notes = (f"{len(kept):,} of {dataset.n:,} rows were drawn at random, classes in proportion.",)
    data = prepare(dataset.subset(kept), settings)
    train, test = kept[data.rows], kept[data.rows_t]
    if row in train:
        place = int(np.flatnonzero(train == row)[0])
        data, train, test = _held_out(data, place), np.delete(train, place), np.append(test, row)
        notes += (f"Row {row} was taken out of the training rows.",)
    posed = Posed(
        replace(data, notes=data.notes + notes), row, int(np.flatnonzero(test == row)[0]), train, dataset.X[train]
    )
    _check_classes(posed)
    return posed


def _row(dataset: Dataset, row: Any) -> int:
    if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < dataset.n:
        raise InputError(f"{dataset.name} has no row {row!r}: it has rows 0 to {dataset.n - 1}.")
    return row


def _held_out(data: Prepared, place: int) -> Prepared:
    """Return the data with one training row moved behind the held-out rows."""
    keep = torch.arange(len(data.X)) != place
    moved: dict[str, Any] = {"X": data.X[keep], "y": data.y[keep]}
    moved |= {"rows": data.rows[keep.numpy()], "rows_t": np.append(data.rows_t, data.rows[place])}
    moved |= {"Xt": torch.cat([data.Xt, data.X[~keep]]), "yt": torch.cat([data.yt, data.y[~keep]])}
    if data.labels is not None and data.labels_t is not None:
        moved |= {"labels": data.labels[keep], "labels_t": torch.cat([data.labels_t, data.labels[~keep]])}
    return replace(data, **moved)


def _check_classes(posed: Posed) -> None:
    data = posed.data
    if data.labels is None or data.labels_t is None:
        return
    if len(data.labels.unique()) < 2:
        raise InputError(
            f"the training rows of {data.dataset.name} are all of one class: add rows of another class, or predict "
            "another column."
        )
    own = data.labels_t[posed.place]
    if not bool((data.labels == own).any()):
        raise InputError(
            f"row {posed.row} of {data.dataset.name} is of class {data.dataset.classes[int(own)]}, which no training "
            "row is of, so no point can speak for it: add rows of that class, or ask about another row."
        )
