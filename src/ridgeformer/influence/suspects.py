"""Suspect labels: the training rows whose own target the fit without them contradicts most, exactly and all at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ridgeformer.datasets import Dataset, Split
from ridgeformer.solving import Fit, solve
from ridgeformer.solving.tuning import choose_attention

__all__ = ["Suspect", "Suspects", "ask_suspects", "find_suspects", "label_margins"]

DEVIATIONS, LEAST_SPREAD = 4.0, 0.01
"""Robust standard deviations beyond which a number is suspect (1.4826 times the median absolute deviation). Each counts
as a hundredth of the target's own at least: a smaller error is no wrong label."""


@dataclass(frozen=True)
class Suspect:
    """One row: its number in the dataset, what it says, what the other rows say, and by how much they disagree.

    `margin` is the lead of the predicted class's output over the own class's, or the error in robust standard
    deviations.
    """

    row: int
    label: str
    predicted: str
    margin: float


@dataclass(frozen=True)
class Suspects:
    """The rows whose target the others contradict.

    Attributes:
        name: Of the dataset.
        rows: Training rows examined.
        contradicted: How many of them the leave-one-out prediction contradicts.
        points: The worst of these.
        notes: What was done to the data.
    """

    name: str
    rows: int
    contradicted: int
    points: tuple[Suspect, ...]
    notes: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in words."""
        if not self.contradicted:
            return (f"None of the {self.rows:,} rows of {self.name} is contradicted by the others.",)
        verb = "has" if self.contradicted == 1 else "have"
        return (
            f"{self.contradicted:,} of the {self.rows:,} rows of {self.name} {verb} a target that the fit to all other "
            "rows contradicts; each prediction is exact, made without the row itself.",
            f"Check row {self.points[0].row} first: it says {self.points[0].label}, the others say "
            f"{self.points[0].predicted}.",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return asdict(self)


def find_suspects(split: Split, fit: Fit, most: int = 20) -> Suspects:
    """Return the training rows that their leave-one-out predictions contradict most.

    A class is suspect where another class's output is larger without the row; a number, where its leave-one-out error
    is beyond four robust standard deviations.

    Example:
        >>> from ridgeformer.datasets import load
        >>> found = ask_suspects(load("wine"))
        >>> found.contradicted < 10, found.rows
        (True, 178)
    """
    outputs, margin = split.y - fit.leave_one_out.reshape(len(split.X), -1), label_margins(split, fit)
    bad = margin > (DEVIATIONS if split.labels is None else 0.0)
    order = margin.argsort(descending=True)[: min(most, int(bad.sum()))]
    points = tuple(
        Suspect(
            int(split.rows[place]),
            split.describe_target(int(place), train=True),
            split.describe_outputs(outputs[place]),
            float(margin[place]),
        )
        for place in order
    )
    return Suspects(split.dataset.name, len(split.X), int(bad.sum()), points, split.notes)


def label_margins(split: Split, fit: Fit) -> Tensor:
    """Return how far the other rows contradict each training row, exactly, from the leave-one-out predictions.

    For a class it is the lead of the largest other output over its own; for a number, its error in robust standard
    deviations.
    """
    residual = fit.leave_one_out.reshape(len(split.X), -1)
    if split.labels is not None:
        full = split.y - residual + split.mean
        own = full.gather(1, split.labels[:, None])[:, 0]
        return full.scatter(1, split.labels[:, None], -torch.inf).max(1).values - own
    error = residual.abs().max(1).values
    centred = (residual - residual.median(0).values).abs()
    spread = float(1.4826 * centred.median())
    return error / (max(spread, LEAST_SPREAD * float(split.y.std(correction=0))) or 1.0)


def ask_suspects(
    dataset: Dataset, *, max_rows: int = 2000, preprocessing: str = "auto", seed: int = 0, points: int = 20
) -> Suspects:
    """Fit all rows of a dataset, up to `max_rows`, as an audit does; return those that the others contradict most."""
    split = Split.of(dataset, test_fraction=0.0, max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    kernel, ridge = choose_attention(split, seed=seed)
    fit = solve(kernel, split.X, split.y, ridge, algorithm="direct")
    return find_suspects(split, fit, points)
