"""What to do: one or two sentences from rules that are tested on data made for each case."""

from __future__ import annotations

import numpy as np

from ridgeformer.auditing.field import FEW_ROWS, METHODS, OWN, Field, Scored
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import listed, percent
from ridgeformer.datasets import Split
from ridgeformer.datasets.columns import quoted
from ridgeformer.datasets.dataset import find_copies
from ridgeformer.influence.suspects import Suspects

__all__ = ["advise", "simplest"]

MANY_REPEATS = 0.1
"""Fraction of the held-out rows from which repeats of training rows are worth a warning."""

SIMPLE = ("linear", "smoother", "neighbours", OWN, "gaussian", "centres", "forest", "boosting")
"""From simple to complex: among methods that cannot be told apart the first is recommended."""


def simplest(methods: tuple[Scored, ...]) -> Scored:
    """Return the simplest of these methods."""
    return min((one for one in methods if one.key in SIMPLE), key=lambda one: SIMPLE.index(one.key))


def advise(split: Split, field: Field, suspects: Suspects | Skipped | None) -> tuple[str, ...]:
    """Return what to do with these data, most important first.

    Args:
        split: The data.
        field: All methods on the held-out rows.
        suspects: Labels that the fit contradicts, or None or the reason if they were not looked for.
    """
    target, learnt = split.dataset.target, field.learnt
    advice = []
    if copies := find_copies(split.dataset.subset(split.rows)):
        are, they = ("is", "it is") if len(copies) == 1 else ("are", "they are")
        advice.append(
            f"make sure that {quoted(copies)} {are} known before {target} is, because {they} the same thing in other "
            "numbers; if not, leave out with --drop, since no score here means anything then"
        )
    repeated = _repeated(split)
    if repeated >= MANY_REPEATS * len(split.rows_t):
        advice.append(
            f"look at repeated rows: {repeated:,} of the {len(split.rows_t):,} held-out rows are also training rows, "
            "target included; if they are copies, drop them or keep them together with --group, since scores are too "
            "good then"
        )
    if not learnt:
        if len(field.rows) < FEW_ROWS:
            advice.append(f"collect more rows: {len(field.rows)} held-out rows cannot tell any method from a constant")
        else:
            advice.append(
                f"nothing was learnt: no method predicts {target} better than a constant beyond chance, so use none; "
                "find other features"
            )
    else:
        kept = tuple(one for one in field.unbeaten if one in learnt)
        best = simplest(kept) if kept else field.best
        name, rest = best.spoken, [one.spoken for one in kept if one is not best]
        tied = (
            f", the simplest method that none beats ({listed(rest, 'or')} cannot be told apart from it)" if rest else ""
        )
        alone = ": every other method here is worse" if field.unbeaten == (best,) else ""
        advice.append(f"use {name}{tied or alone}")
        if len(field.rows) < FEW_ROWS:
            advice.append(f"collect more rows before relying on it: {len(field.rows)} held-out rows decide little")
    if field.task == "regression":
        extreme, held = _extremes(field)
        if held > 0.5:
            advice.append(
                f"look at the extreme values of {target}: {extreme:,} of the {len(field.rows):,} held-out rows "
                f"{'holds' if extreme == 1 else 'hold'} {percent(held)} of its variance and so decide every score; "
                "predict its logarithm or its rank, or clip it"
            )
    if isinstance(suspects, Suspects) and learnt and suspects.points:
        rows = listed([f"{point.row}" for point in suspects.points[:5]])
        noun = "row" if len(suspects.points) == 1 else "rows"
        advice.append(f"check these labels first, which the other rows contradict most: {noun} {rows}")
    return tuple(advice)


def _repeated(split: Split) -> int:
    """Return how many held-out rows are also training rows, target included."""
    both = np.column_stack([split.dataset.X, split.dataset.targets()])
    seen = {row.tobytes() for row in both[split.rows]}
    return sum(row.tobytes() in seen for row in both[split.rows_t])


def _extremes(field: Field) -> tuple[int, float]:
    """Return a hundredth of the held-out rows, one at least, and the most of the target's variance they hold."""
    square = ((field.truth - field.truth.mean(0)) ** 2).sum(1)
    count = max(1, len(square) // 100)
    return count, float(np.sort(square)[-count:].sum() / (square.sum() or 1.0))


assert set(SIMPLE) | {"constant"} == set(METHODS)
