"""Result cards: a published number beside ours, the choices its source left open, and a verdict by one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ridgeformer.core.errors import InputError
from ridgeformer.core.statistics import mean_interval

__all__ = ["CardVerdict", "ResultCard", "make_card", "verdict_of"]


class CardVerdict(StrEnum):
    """How our number stands to the published one."""

    REPRODUCED = "reproduced"
    SAME_DIRECTION = "same direction"
    NOT_REPRODUCED = "not reproduced"
    OPPOSITE = "opposite"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class ResultCard:
    """One published number and ours.

    Attributes:
        table, row: Which table or figure of the source, and which number of it.
        ours: Our mean over seeds; None if nothing could be measured.
        low, high: 95 % interval of it; None with fewer than two seeds.
        choices: What was chosen at each point the source leaves open, by name.
    """

    table: str
    row: str
    published: float
    ours: float | None
    low: float | None
    high: float | None
    choices: Mapping[str, str]
    verdict: CardVerdict


def verdict_of(
    published: int | float,
    ours: int | float | None,
    low: int | float | None,
    high: int | float | None,
    *,
    neutral: int | float | None = 0.0,
    tolerance: float = 0.1,
) -> CardVerdict:
    """Return the verdict on a published number, by equivalence: a wide interval can never reproduce anything.

    Reproduced: the whole interval lies within `tolerance` of the published value. Otherwise, same direction and
    opposite: the whole interval lies on one side of the neutral value, which settles the direction and not the
    value. Otherwise, not reproduced: the whole interval lies outside the tolerance. Inconclusive is everything else:
    an interval that reaches both into the tolerance and out of it, and a number without an interval.

    `tolerance` is a fraction of the published value. `neutral` means "no effect": 0 for a difference, 1 for a ratio;
    None if the number has no direction, and is reproduced or not.

    Example:
        >>> [verdict_of(2.0, ours, ours - 0.1, ours + 0.1).value for ours in (2.1, 1.0, 0.05, -1.0)]
        ['reproduced', 'same direction', 'not reproduced', 'opposite']
        >>> verdict_of(2.0, 2.0, -1.0, 5.0).value
        'inconclusive'
        >>> verdict_of(33.3, 40.0, 39.0, 41.0, neutral=None).value
        'not reproduced'
    """
    published = float(published)
    if not isfinite(published):
        raise InputError(f"published is {published}; the source's finite number was expected.")
    if ours is None or low is None or high is None or not isfinite(ours):
        return CardVerdict.INCONCLUSIVE
    slack = tolerance * abs(published)
    if published - slack <= low and high <= published + slack:
        return CardVerdict.REPRODUCED
    if neutral is not None and published != neutral and not low <= neutral <= high:
        return CardVerdict.SAME_DIRECTION if (ours > neutral) == (published > neutral) else CardVerdict.OPPOSITE
    apart = high < published - slack or low > published + slack
    return CardVerdict.NOT_REPRODUCED if apart else CardVerdict.INCONCLUSIVE


def make_card(
    table: str,
    row: str,
    published: float,
    drawn: Iterable[float | None],
    choices: Mapping[str, str],
    *,
    neutral: float | None = 0.0,
    tolerance: float = 0.1,
    interval: Callable[[NDArray[np.float64]], tuple[float | None, float | None]] = mean_interval,
) -> ResultCard:
    """Return the card of a number that was measured once a seed; seeds without a value are left out.

    `interval` turns the values into a 95 % interval of their mean.

    Example:
        >>> make_card("table 2", "gap", 1.0, [1.02, 0.98, 1.0], {"seeds": "3"}).verdict.value
        'reproduced'
        >>> make_card("table 2", "gap", 1.0, [1.2, 0.8, 1.0], {"seeds": "3"}).verdict.value  # 0.5 to 1.5
        'same direction'
    """
    values = np.array([value for value in drawn if value is not None and isfinite(value)], dtype=np.float64)
    ours = float(values.mean()) if values.size else None
    low, high = interval(values)
    verdict = verdict_of(published, ours, low, high, neutral=neutral, tolerance=tolerance)
    return ResultCard(table, row, published, ours, low, high, dict(choices), verdict)
