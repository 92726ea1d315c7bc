"""Condition numbers of image data under every interpretation: the two published ones come without a method.

A condition number of a Gram matrix depends on what was done to the rows, on how many there are, and on where the
spectrum is cut; the source states none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeformer.core.errors import unknown_name
from ridgeformer.datasets import standardise, unit_rows
from ridgeformer.regime import gram_spectrum
from ridgeformer.studies.result_cards import CardVerdict, ResultCard, make_card
from ridgeformer.studies.study import Preset, Study, load_once, product

__all__ = ["PREPARATIONS", "PUBLISHED", "STUDY", "make_cards", "measure", "nearest_joint_reading", "times_away"]

PUBLISHED = {"mnist": 1.2e3, "cifar10": 8.7e3}  # the condition numbers of the source
STAND_IN = "mnist"  # whose number other data are shown beside
Rows = NDArray[np.float64]


PREPARATIONS: dict[str, Callable[[Rows], Rows]] = {
    "raw": lambda X: X,
    "unit": unit_rows,
    "centred": lambda X: X - X.mean(axis=0),
    "centred, then unit": lambda X: unit_rows(X - X.mean(axis=0)),
    "standardised": lambda X: standardise(X)[0],
}
"""What may have been done to the rows."""


def measure(data: str, preparation: str, rows: int, seed: int) -> list[dict[str, Any]]:
    """Return the condition number of a sample's Gram matrix, and its root, at every usual truncation.

    Example:
        >>> found = measure("digits", "unit", 100, seed=0)
        >>> found[0]["truncation"], found[0]["kappa"] > found[1]["kappa"] > 1
        ('rank', True)
    """
    if preparation not in PREPARATIONS:
        raise unknown_name("preparation", preparation, PREPARATIONS)
    sample = load_once(data).sample(rows, seed)
    spectrum = gram_spectrum(PREPARATIONS[preparation](np.asarray(sample.X, dtype=np.float64)))
    found = []
    for where, (directions, condition) in spectrum.conditions().items():
        kappa = condition if isfinite(condition) else None
        root = None if kappa is None else kappa**0.5
        found.append({"truncation": where, "directions": directions, "kappa": kappa, "kappa_of_rows": root})
    return found


def make_cards(rows: Sequence[Mapping[str, Any]]) -> list[ResultCard]:
    """Return a card for every interpretation: preparation, number of rows, truncation, and whether of X X' or of X."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in ("data", "rows", "preparation", "truncation")), []).append(row)
    of = {"kappa": "X X'", "kappa_of_rows": "X"}
    cards = []
    for (data, n, preparation, truncation), drawn in groups.items():
        stand_in = {} if data in PUBLISHED else {"data": f"{data} beside the number of {STAND_IN}"}
        choices = stand_in | {"rows": f"{n:,}, {preparation}", "truncation": truncation}
        published = PUBLISHED.get(data, PUBLISHED[STAND_IN])
        for column, name in of.items():
            values = [row[column] for row in drawn]
            card = make_card("condition numbers", f"{data}, {name}", published, values, choices, neutral=None)
            cards.append(card)
    return cards


def times_away(card: ResultCard) -> float:
    """Return the distance of our number from the published one, as the logarithm of their ratio."""
    return float("inf") if not card.ours else abs(log(card.ours / card.published))


def nearest_joint_reading(cards: Sequence[ResultCard]) -> tuple[tuple[str, ...], float, int, int] | None:
    """Return the one interpretation that comes nearest to all published numbers at once: the source used one.

    With it come its `times_away`, how many interpretations reproduce all numbers, and how many there are. None where no
    interpretation has been measured on all published datasets.
    """
    readings: dict[tuple[str, ...], list[ResultCard]] = {}
    for card in cards:
        data, _, of = card.row.partition(", ")
        if data in PUBLISHED:
            readings.setdefault((of, card.choices["rows"], card.choices["truncation"]), []).append(card)
    joint = {reading: found for reading, found in readings.items() if len(found) == len(PUBLISHED)}
    if not joint:
        return None
    reproduced = sum(all(card.verdict is CardVerdict.REPRODUCED for card in found) for found in joint.values())
    distances = {reading: max(map(times_away, found)) for reading, found in joint.items()}
    nearest = min(distances, key=distances.__getitem__)
    return nearest, distances[nearest], reproduced, len(joint)


def _grid(data: list[str], rows: list[int]) -> list[dict[str, Any]]:
    return product(data=data, preparation=list(PREPARATIONS), rows=rows)


STUDY = Study(
    name="condition-numbers",
    version=1,
    what="Condition numbers of Gram matrices under every interpretation, beside the two published ones.",
    function="ridgeformer.studies.condition_numbers:measure",
    presets={
        "quick": Preset(_grid(["digits"], [200, 1000]), seeds=3),
        "default": Preset(_grid(["mnist", "cifar10"], [250, 1000]), seeds=5),
        "paper": Preset(_grid(["mnist", "cifar10"], [250, 1000, 5000]), seeds=5),
    },
    within=("truncation",),
    seconds=3600.0,
    memory=8 << 30,
)
