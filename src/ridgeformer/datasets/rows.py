"""Which rows a sample takes: every class in its proportion, each class through its own shuffle."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray

__all__ = ["shares", "stratified_rows"]


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
