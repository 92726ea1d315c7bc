"""Rows and targets as the networks of this room want them, with the choices the sources leave open made by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, as_targets, whole
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.datasets import Dataset
from ridgeformer.regime.rows import normalise_rows

__all__ = ["Problem", "make_problem", "problem_from"]

FEWEST_ROWS = 2
CODINGS = ("signed", "one_hot")


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and test rows in float64, one column of targets an output.

    Attributes:
        X, y: Training rows and targets.
        Xt, yt: Test rows and targets.
        classification: Whether the largest output (the sign, for one output) is a class.
    """

    X: Tensor
    y: Tensor
    Xt: Tensor
    yt: Tensor
    classification: bool

    def error(self, outputs: Float[Tensor, "k c"], *, test: bool) -> float:
        """Return the share of rows in the wrong class, or the mean squared error."""
        y = self.yt if test else self.y
        outputs = outputs.to(y)
        if not self.classification:
            return float((outputs - y).square().mean())
        if y.shape[1] == 1:
            return float(((outputs > 0) != (y > 0)).double().mean())
        return float((outputs.argmax(1) != y.argmax(1)).double().mean())


def make_problem(X: Any, y: Any, Xt: Any, yt: Any, *, classification: bool, unit_rows: bool = True) -> Problem:
    """Return a problem from matrices, checked.

    Args:
        X: Training rows (n, d).
        y: Targets (n,) or (n, c); for classes one column a class, or one column of two signs.
        Xt: Test rows.
        yt: Test targets.
        classification: Whether targets code classes.
        unit_rows: Scale all rows to unit length, as published.

    Raises:
        InputError: fewer than two rows, a zero row that was to be normalised, or one class only.

    Example:
        >>> make_problem([[3.0, 4.0], [0.0, 2.0]], [1, -1], [[1.0, 0.0]], [1], classification=True).X[0]
        tensor([0.6000, 0.8000], dtype=torch.float64)
    """
    X = as_matrix(X).detach().to(torch.float64)
    Xt = as_query(Xt, X, "Xt").detach()
    if X.shape[0] < FEWEST_ROWS:
        raise InputError(f"X has {X.shape[0]} row; a kernel between rows needs at least {FEWEST_ROWS}: give more rows.")
    y, yt = _columns(as_targets(y, X)), _columns(as_targets(yt, Xt, "yt"))
    if y.shape[1] != yt.shape[1]:
        raise ShapeError(f"y has {y.shape[1]} columns and yt {yt.shape[1]}: give both the same outputs.")
    if classification:
        _require_classes(y)
    if unit_rows:
        X, Xt = normalise_rows(X), normalise_rows(Xt, "Xt")
    return Problem(X, y, Xt, yt, classification)


def problem_from(
    dataset: Dataset,
    *,
    rows: Any,
    test_rows: Any,
    seed: int,
    classes: Sequence[str] | None = None,
    coding: Any = "signed",
    unit_rows: bool = True,
) -> Problem:
    """Draw a problem from a dataset: some rows to train on, others to test on, classes in proportion.

    Two classes become one column of +-1 and more become one column each.

    Args:
        dataset: Where from.
        rows: Training rows.
        test_rows: Test rows.
        seed: Seed of the draw.
        classes: Keep these classes only, such as ("3", "8").
        coding: "signed", +1 and -1, or "one_hot", 1 and 0, for more than two classes.
        unit_rows: Scale all rows to unit length, as published.

    Raises:
        InputError: too few rows, or one class.

    Example:
        >>> from ridgeformer.datasets import load
        >>> problem = problem_from(load("digits"), rows=50, test_rows=30, seed=0, classes=("3", "8"))
        >>> problem.X.shape, sorted(set(problem.y.flatten().tolist()))
        (torch.Size([50, 64]), [-1.0, 1.0])
    """
    rows, test_rows = whole(rows, "rows", FEWEST_ROWS), whole(test_rows, "test_rows", 1)
    if coding not in CODINGS:
        raise unknown_name("coding", coding, CODINGS)
    if classes is not None:
        dataset = _keep(dataset, classes)
    if rows + test_rows > dataset.n:
        raise InputError(
            f"{dataset.name} has {dataset.n} rows; {rows} to train on and {test_rows} to test on were asked for: "
            "ask for fewer."
        )
    drawn = dataset.sample(rows + test_rows, seed)
    train, test = drawn.split(test_rows / drawn.n, seed)
    present = np.unique(dataset.y) if dataset.task == "classification" else None
    y, yt = _coded(train, present, coding), _coded(test, present, coding)
    return make_problem(train.X, y, test.X, yt, classification=present is not None, unit_rows=unit_rows)


def _coded(part: Dataset, present: NDArray[Any] | None, coding: str) -> NDArray[np.float64]:
    """Return targets: as they are for regression, one column of +-1 for two classes, else one column a class."""
    if present is None:
        return part.targets()
    if len(present) == 2:
        return np.where(part.y == present[1], 1.0, -1.0)
    return part.targets(other=-1.0 if coding == "signed" else 0.0)[:, present]


def _keep(dataset: Dataset, classes: Sequence[str]) -> Dataset:
    missing = [name for name in classes if name not in dataset.classes]
    if missing:
        raise unknown_name("class", missing[0], dataset.classes)
    codes = [dataset.classes.index(name) for name in classes]
    return dataset.subset(np.isin(dataset.y, codes))


def _columns(y: Tensor) -> Tensor:
    return y[:, None] if y.ndim == 1 else y


def _require_classes(y: Tensor) -> None:
    found = y.argmax(1).unique() if y.shape[1] > 1 else (y > 0).unique()
    if len(found) < 2:
        raise InputError(
            "the training rows are all of one class, so there is nothing to tell apart: add another class."
        )
