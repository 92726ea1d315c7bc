"""The first step of a model: scikit-learn's transformers that turn the columns of a dataset into features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from ridgeformer.core.checks import ArrayLike, as_matrix
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.datasets.dataset import Dataset

__all__ = ["PREPROCESSING", "choose_preprocessing", "make_encoder", "standardise", "unit_rows"]

PREPROCESSING = {
    "auto": "",
    "standardise": "Every column was shifted and scaled to mean 0 and variance 1 over the training rows.",
    "unit_rows": "Every row was scaled to unit length.",
    "both": "Every column was standardised over the training rows, then every row scaled to unit length.",
    "none": "The features are used as given.",
}
"""Ways to scale the features, each with the note it leaves; "auto" is unit rows for images and counts, else
standardise."""

WIDE, MOST_LEVELS = 64, 20
"""Features from which non-negative rows with many zeros are counts or pixels; columns a category has at most."""


def choose_preprocessing(dataset: Dataset, preprocessing: str) -> str:
    """Return the way that "auto" stands for, or the one given.

    Standardised pixels or counts have entries of any size in columns that are nearly always zero, which leave the range
    of an exponential; their rows are scaled to unit length instead.

    Raises:
        UnknownNameError: no such way.
    """
    if preprocessing not in PREPROCESSING:
        raise unknown_name("preprocessing", preprocessing, list(PREPROCESSING))
    if preprocessing != "auto":
        return preprocessing
    counts = dataset.d >= WIDE and not dataset.columns and float(dataset.X.min()) >= 0
    sparse = counts and float((dataset.X == 0).mean()) > 0.1
    return "unit_rows" if dataset.image_shape is not None or sparse else "standardise"


def make_encoder(dataset: Dataset, rows: NDArray[np.int64], preprocessing: str) -> Pipeline:
    """Return the pipeline of scikit-learn's transformers for a dataset, not yet fitted.

    Holes are filled with the median of the training rows and marked; a category becomes one column a level, rare and
    unknown levels together; columns that are constant over the training rows are dropped before they are scaled.

    Args:
        dataset: What the columns are.
        rows: Training rows, which decide whether there are constant columns to drop.
        preprocessing: A key of `PREPROCESSING` but "auto".

    Example:
        >>> from ridgeformer.datasets import load
        >>> wine = load("wine")
        >>> make_encoder(wine, np.arange(wine.n), "standardise")
        Pipeline(steps=[('scale', StandardScaler())])
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler

    text = [j for j, column in enumerate(dataset.columns) if column.kind == "category"]
    numbers = [j for j in range(dataset.d) if j not in set(text)]
    part = dataset.X[rows][:, numbers]
    steps: list[tuple[str, Any]] = []
    if np.isnan(dataset.X[:, numbers]).any():
        steps.append(("fill", SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)))
    if preprocessing in ("standardise", "both"):
        flat = (part[0] == part).all(axis=0) | np.isnan(part).all(axis=0)
        if flat.any() and not flat.all():
            steps.append(("vary", VarianceThreshold()))
        steps.append(("scale", StandardScaler()))
    if text:
        categories = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=MOST_LEVELS, sparse_output=False
        )
        parts = [("text", categories, text)]
        if numbers:
            parts.insert(0, ("numbers", Pipeline(steps) if steps else "passthrough", numbers))
        steps = [("columns", ColumnTransformer(parts))]
    if preprocessing in ("unit_rows", "both"):
        steps.append(("unit", Normalizer()))
    return Pipeline(steps or [("as_given", "passthrough")])


def unit_rows(X: ArrayLike) -> Float64[np.ndarray, "n d"]:
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


def standardise(train: ArrayLike, *others: ArrayLike) -> tuple[Float64[np.ndarray, "_ d"], ...]:
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
