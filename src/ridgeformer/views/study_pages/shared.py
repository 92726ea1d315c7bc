"""What the pages of studies share: selecting rows, curves of means with intervals, and result cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ridgeformer.core.words import count
from ridgeformer.studies.result_cards import ResultCard
from ridgeformer.views.figures import PALETTE, Axis, Trace, curve, draw
from ridgeformer.views.parts import Picture, Section, Table

__all__ = ["Rows", "cards_section", "distinct", "mean_curve", "picture", "seeds_of", "where"]

Rows: TypeAlias = Sequence[Mapping[str, Any]]  # rows of `studies.table` or of `studies.intervals`


def where(rows: Rows, /, **values: Any) -> list[Mapping[str, Any]]:
    """Return the rows with these values.

    Example:
        >>> where([{"width": 1, "error": 0.5}, {"width": 2, "error": 0.1}], width=2)
        [{'width': 2, 'error': 0.1}]
    """
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def distinct(rows: Rows, name: str) -> list[Any]:
    """Return the different values of a column in order."""
    return sorted({row[name] for row in rows})


def seeds_of(rows: Rows) -> str:
    """Return the number of seeds in words."""
    return count(len(distinct(rows, "seed")), "seed")


def mean_curve(
    rows: Rows, x: str, y: str, name: str, colour: str = PALETTE[0], *, unit: int | float = 1, **options: Any
) -> Trace:
    """Return a column of means as a curve along another column, with the 95 % intervals where there are any."""
    shown = sorted((row for row in rows if row[y] is not None), key=lambda row: row[x])
    values = [unit * row[y] for row in shown]
    if values and all(row.get(f"{y}_{end}") is not None for row in shown for end in ("low", "high")):
        low, high = ([unit * row[f"{y}_{end}"] for row in shown] for end in ("low", "high"))
        options = {"whiskers": (low, high)} | options
    return curve([row[x] for row in shown], values, name, colour, **options)


def picture(traces: Iterable[Trace], x: str | Axis, y: str | Axis, caption: str, alt: str) -> Picture:
    """Return curves as a picture; those without a point are left out."""
    return Picture(draw([trace for trace in traces if len(trace["x"])], x, y), caption, alt)


def cards_section(title: str, cards: Iterable[ResultCard], sentences: Iterable[str] = ()) -> Section:
    """Return result cards as a section; choices that all cards share are listed once, above the table."""
    cards = tuple(cards)
    shared = {
        name: choice
        for name, choice in (cards[0].choices if cards else {}).items()
        if all(card.choices.get(name) == choice for card in cards)
    }
    rows = []
    for card in cards:
        ours = "nothing measured" if card.ours is None else f"{card.ours:.4g}"
        interval = "one seed" if card.low is None else f"{card.low:.4g} to {card.high:.4g}"
        choices = _listed({name: choice for name, choice in card.choices.items() if name not in shared})
        rows.append((card.table, card.row, f"{card.published:.4g}", ours, interval, choices, card.verdict.value))
    silent = (f"Choices where the source is silent: {_listed(shared)}.",) if shared else ()
    head = ("table", "number", "published", "ours", "95 % interval", "choices", "verdict")
    return Section(title, (*sentences, *silent, Table(head, tuple(rows))))


def _listed(choices: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {choice}" for name, choice in choices.items())
