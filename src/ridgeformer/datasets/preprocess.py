"""Preprocessing as pure functions: rows of unit length, columns of mean zero and variance one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from ridgeformer.core.checks import as_matrix
from ridgeformer.core.errors import InputError, ShapeError

__all__ = ["standardise", "unit_rows"]


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
