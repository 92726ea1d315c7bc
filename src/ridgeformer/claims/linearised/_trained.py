"""The rows that networks of two of these claims are trained on."""

from __future__ import annotations

from ridgeformer import datasets
from ridgeformer.datasets import Split

__all__ = ["ROWS", "three_or_eight"]

ROWS = 60


def three_or_eight(sample: int = 0) -> Split:
    """Return digits 3 and 8: 60 rows to train on, 60 to test on, of unit length, targets +-1."""
    return Split.for_networks(datasets.load("digits"), rows=ROWS, test_rows=ROWS, seed=sample, classes=("3", "8"))
