"""What is odd about the rows and ought to be said before any score: constant columns, repeats, unseen classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeformer.datasets import Dataset

__all__ = ["oddities"]

MOST_NAMED = 5


def oddities(train: Dataset, test: Dataset) -> tuple[str, ...]:
    """Return one sentence for every oddity of a split dataset; none if there is none.

    Example:
        >>> X = np.array([[1.0, 7.0], [2.0, 7.0], [1.0, 7.0]])
        >>> part = Dataset("part", X, np.array([0.0, 1.0, 0.0]))
        >>> for sentence in oddities(part, part.subset([0])):
        ...     print(sentence)
        1 of the 2 features is the same in every training row and says nothing: x1.
        2 of the 4 rows repeat an earlier row; 1 of the 1 held-out rows is also a training row, which flatters scores.
    """
    return (*_constant(train), *_repeated(train, test), *_unseen(train, test))


def _constant(train: Dataset) -> list[str]:
    flat = np.flatnonzero((train.X[0] == train.X).all(axis=0))
    if not flat.size:
        return []
    names = ", ".join(train.features[j] for j in flat[:MOST_NAMED])
    more = f" and {flat.size - MOST_NAMED} more" if flat.size > MOST_NAMED else ""
    verbs = (
        "is the same in every training row and says" if flat.size == 1 else "are the same in every training row and say"
    )
    return [f"{flat.size} of the {train.d} features {verbs} nothing: {names}{more}."]


def _repeated(train: Dataset, test: Dataset) -> list[str]:
    X, targets = np.vstack([train.X, test.X]), np.vstack([train.targets(), test.targets()])
    rows = _codes(X)
    distinct = int(rows.max()) + 1
    if distinct == len(X):
        return []
    said = f"{len(X) - distinct:,} of the {len(X):,} rows repeat an earlier row"
    leaked = int(np.isin(rows[train.n :], rows[: train.n]).sum())
    if leaked:
        verb = "is also a training row" if leaked == 1 else "are also training rows"
        said += f"; {leaked:,} of the {test.n:,} held-out rows {verb}, which flatters scores"
    notes = [said + "."]
    disagreeing = int(_codes(np.column_stack([X, targets])).max()) + 1 - distinct
    if disagreeing:
        notes.append(f"{disagreeing:,} of the repeats have another target, so no method can get every row right.")
    return notes


def _codes(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return a number a row, the same for equal rows, 0 to the number of distinct rows - 1."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _unseen(train: Dataset, test: Dataset) -> list[str]:
    if not train.classes:
        return []
    unseen = [train.classes[code] for code in np.setdiff1d(test.y, train.y)]
    if not unseen:
        return []
    noun = "class" if len(unseen) == 1 else "classes"
    return [f"No training row is of {noun} {', '.join(unseen[:MOST_NAMED])}, so none can be predicted."]
