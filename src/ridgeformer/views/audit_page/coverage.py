"""How uncertain predictions are, on the page of an audit: coverage on held-out rows beside the nominal level."""

from __future__ import annotations

from ridgeformer.auditing.coverage import HeldOutCoverage
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import number, percent
from ridgeformer.views.figures import GREY, PALETTE, bars, draw
from ridgeformer.views.parts import Form, Picture, Section, Table

__all__ = ["coverage_section"]

MOST_BARS = 15
"""Subgroups drawn; the table has them all."""


def coverage_section(found: HeldOutCoverage | Skipped, target: str) -> Section:
    """Return the section on intervals, or sets of classes, of the certified fit; `target` is the target's name."""
    title = "How uncertain predictions are"
    if isinstance(found, Skipped):
        return Section(title, (f"Left out: {found.reason}",), anchor="coverage")
    everything, (low, high) = found.everything, found.everything.interval
    what = "sets of classes" if found.sets else "intervals"
    said = (
        f"have their class in a {percent(found.level)} set"
        if found.sets
        else f"lie in their {percent(found.level)} interval"
    )
    if high < found.level:
        verdict = "fewer than asked for: held-out rows differ from training rows, or from what the guarantee assumes"
    elif low > found.level:
        verdict = f"more than asked for: these {what} could be narrower"
    else:
        verdict = "in agreement with the level asked for"
    width = "classes in a set" if found.sets else f"width, in units of {target}"
    average = f"A set has {number(everything.width)} classes on average"
    if everything.width < 1:
        average += "; some are empty, because the fit errs less often than the level allows"
    if not found.sets:
        average = f"An interval is {number(everything.width)} wide on average, in units of {target}"
    rows = (everything, *found.groups)
    columns: dict[str, Form] = {"rows": "", "held out": ",", "covered": ",", "fraction": percent}
    columns |= {"from": percent, "to": percent, f"mean {width}": number}
    table = Table.of(
        columns,
        [(part.name, part.rows, part.covered, part.covered / part.rows, *part.interval, part.width) for part in rows],
        "coverage",
    )
    caution = (
        " Held-out rows are later than the training rows or of other groups, so they are not exchangeable with them "
        "and nothing is guaranteed here."
        if found.ordered
        else ""
    )
    return Section(
        title,
        (
            f"Of {everything.rows:,} held-out rows, {everything.covered:,} {said} "
            f"({percent(everything.covered / everything.rows)}, 95 % interval {percent(low)} to {percent(high)}): "
            f"{verdict}. {average}.",
            f"These {what} are made by jackknife+ from exact leave-one-out of the training rows: for rows like those, "
            f"coverage is at least {percent(2 * found.level - 1)} by theorem and about {percent(found.level)} in "
            "practice. Temperature and ridge were chosen on the same rows, which the theorem does not allow for."
            f"{caution}",
            _picture(found),
            table,
        ),
        anchor="coverage",
    )


def _picture(found: HeldOutCoverage) -> Picture:
    rows = (everything := found.everything, *found.groups[:MOST_BARS])
    at, look = 100 * found.level, {"color": PALETTE[2], "dash": "dash", "width": 2}
    line = {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": look}
    return Picture(
        draw(
            [
                bars(
                    [100 * part.covered / part.rows for part in rows[::-1]],
                    [part.name for part in rows[::-1]],
                    "covered",
                    [*[GREY] * (len(rows) - 1), PALETTE[0]],
                    whiskers=(
                        [100 * part.interval[0] for part in rows[::-1]],
                        [100 * part.interval[1] for part in rows[::-1]],
                    ),
                ),
            ],
            {"title": "held-out rows covered, %", "range": [0, 101]},
            {"automargin": True, "type": "category"},  # classes may be called 0, 1, 2
            height=45 * len(rows) + 110,
            hovermode="closest",
            shapes=[line],
        ),
        f"What to see: {percent(everything.covered / everything.rows)} of all held-out rows are covered, beside the "
        f"line at {percent(found.level)}. Whiskers are 95 % intervals. The promise is about all rows together: the "
        "bar of a subgroup may lie to the left of the line.",
        "Bars: the fraction of held-out rows covered, in all and by subgroup, with 95 % intervals.",
        "coverage",
    )
