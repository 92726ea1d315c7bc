"""Condition numbers of image data: two are published without a word on how they were computed, so all readings stand.

A condition number of a Gram matrix depends on what was done to the rows, on how many there are, and on where the
spectrum is cut; the source states none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import exp, isfinite, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeformer import datasets
from ridgeformer.core.errors import unknown_name
from ridgeformer.datasets import Dataset, standardise, unit_rows
from ridgeformer.regime import gram_spectrum
from ridgeformer.studies.result_cards import CardVerdict, ResultCard, cards_section, make_card
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.views import Page, Section, Table

__all__ = ["PREPARATIONS", "PUBLISHED", "STUDY", "make_cards", "make_page", "measure"]

PUBLISHED = {"mnist": 1.2e3, "cifar10": 8.7e3}
"""The condition numbers of the source."""

STAND_IN = "mnist"
"""Whose number other data are shown beside."""

Rows = NDArray[np.float64]


def _centred(X: Rows) -> Rows:
    return np.asarray(X - X.mean(axis=0))


PREPARATIONS: dict[str, Callable[[Rows], Rows]] = {
    "raw": lambda X: X,
    "unit": unit_rows,
    "centred": _centred,
    "centred, then unit": lambda X: unit_rows(_centred(X)),
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
    sample = _load(data).sample(rows, seed)
    spectrum = gram_spectrum(PREPARATIONS[preparation](np.asarray(sample.X, dtype=np.float64)))
    return [
        {
            "truncation": where,
            "directions": directions,
            "kappa": kappa if isfinite(kappa) else None,
            "kappa_of_rows": kappa**0.5 if isfinite(kappa) else None,
        }
        for where, (directions, kappa) in spectrum.conditions().items()
    ]


@lru_cache(maxsize=1)  # reading all images takes longer than the spectrum of some; points of one dataset are neighbours
def _load(data: str) -> Dataset:
    return datasets.load(data)


def make_cards(rows: list[dict[str, Any]]) -> list[ResultCard]:
    """Return a card for every reading: preparation, number of rows, truncation, and whether of X X' or of X."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in ("data", "rows", "preparation", "truncation")), []).append(row)
    of = {"kappa": "X X'", "kappa_of_rows": "X"}
    cards = []
    for (data, n, preparation, truncation), drawn in groups.items():
        stand_in = {} if data in PUBLISHED else {"data": f"{data} beside the number of {STAND_IN}"}
        choices = stand_in | {"rows": f"{n:,}, {preparation}", "truncation": truncation}
        published = PUBLISHED.get(data, PUBLISHED[STAND_IN])
        cards += [
            make_card(
                "condition numbers", f"{data}, {name}", published, [row[column] for row in drawn],
                choices, neutral=None,
            )
            for column, name in of.items()
        ]  # fmt: skip
    return cards


def make_page(rows: list[dict[str, Any]], means: list[dict[str, Any]]) -> Page:
    """Return the page: for each dataset the reading nearest to the published number, then all of them."""
    cards = make_cards(rows)
    names = list(dict.fromkeys(row["data"] for row in rows))
    by_data = {name: [card for card in cards if card.row.startswith(f"{name}, ")] for name in names}
    sections = [
        cards_section(f"{name}: every reading, the nearest first", sorted(by_data[name], key=_away)) for name in names
    ]
    return Page(
        "Condition numbers, under every reading",
        f"{', '.join(names)}; {max(row['seeds'] for row in means)} samples of each size",
        (*(_answer(name, by_data[name]) for name in names), *_answer_jointly(cards)),
        (
            *sections,
            Section("How many directions", ("Means over samples.",), _directions(means)),
        ),
    )


def _away(card: ResultCard) -> float:
    """Return how far our number is from the published one, as a factor's logarithm."""
    return float("inf") if not card.ours else abs(log(card.ours / card.published))


def _answer(name: str, cards: list[ResultCard]) -> str:
    nearest = min(cards, key=_away)
    found = [card.ours for card in cards if card.ours]
    near = sum(card.verdict is CardVerdict.REPRODUCED for card in cards)
    whose = "published" if name in PUBLISHED else f"published for {STAND_IN}"
    return (
        f"{name}: {whose} is {nearest.published:.2g}. The whole interval of {near} of {len(cards)} readings lies "
        f"within a tenth of it; all run from {min(found):.2g} to {max(found):.2g}. The nearest mean is kappa of "
        f"{nearest.row.removeprefix(f'{name}, ')} with {nearest.choices['rows']} rows cut at "
        f"{nearest.choices['truncation']}: {nearest.ours:.3g}."
    )


def _answer_jointly(cards: list[ResultCard]) -> tuple[str, ...]:
    """Say which one reading comes nearest to all published numbers at once: the source will have used one."""
    readings: dict[tuple[str, ...], list[ResultCard]] = {}
    for card in cards:
        data, _, of = card.row.partition(", ")
        if data in PUBLISHED:
            readings.setdefault((of, card.choices["rows"], card.choices["truncation"]), []).append(card)
    joint = {reading: found for reading, found in readings.items() if len(found) == len(PUBLISHED)}
    if not joint:
        return ()
    (of, rows, truncation), found = min(joint.items(), key=lambda one: max(map(_away, one[1])))
    return (
        f"The one reading nearest to both numbers is kappa of {of} with {rows} rows cut at {truncation}, within a "
        f"factor of {exp(max(map(_away, found))):.2g}; {sum(_fits(found) for found in joint.values())} of {len(joint)} "
        "readings reproduce both.",
    )


def _fits(cards: list[ResultCard]) -> bool:
    return all(card.verdict is CardVerdict.REPRODUCED for card in cards)


def _directions(means: list[dict[str, Any]]) -> Table:
    head = ("data", "rows", "preparation", "truncation", "directions", "kappa of X X'", "95 % interval")
    body = tuple(
        (
            row["data"], f"{row['rows']:,}", row["preparation"], row["truncation"], f"{row['directions']:.4g}",
            "not finite" if row["kappa"] is None else f"{row['kappa']:.3g}",
            "" if row["kappa_low"] is None else f"{max(1.0, row['kappa_low']):.3g} to {row['kappa_high']:.3g}",
        )
        for row in means
    )  # fmt: skip
    return Table(head, body)


def _grid(data: list[str], rows: list[int]) -> list[dict[str, Any]]:
    return product(data=data, preparation=list(PREPARATIONS), rows=rows)


STUDY = Study(
    name="condition-numbers",
    version=1,
    what="Condition numbers of Gram matrices under every reading, beside the two published ones.",
    function="ridgeformer.studies.condition_numbers:measure",
    presets={
        "quick": Preset(_grid(["digits"], [200, 1000]), seeds=3),
        "default": Preset(_grid(["mnist", "cifar10"], [250, 1000]), seeds=5),
        "paper": Preset(_grid(["mnist", "cifar10"], [250, 1000, 5000]), seeds=5),
    },
    within=("truncation",),
    seconds=3600.0,
    memory=8 << 30,
    page=make_page,
)
