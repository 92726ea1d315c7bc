"""The page of judged attribution scores: the sentences, and the methods side by side."""

from __future__ import annotations

from ridgeformer.core.words import count, number
from ridgeformer.influence.attribution import AttributionReport
from ridgeformer.views.figures import bars, draw
from ridgeformer.views.parts import Page, Picture, Section, Table

__all__ = ["attribution_page", "attribution_table"]


def attribution_table(report: AttributionReport) -> Table:
    """Return one row a method: rank correlation with its interval, effect of removal, recall of flipped labels."""
    columns = {"method": "", "rank correlation": ".3f", "from": ".3f", "to": ".3f"}
    columns |= {f"falls by, {gone} removed": ".3g" for gone in report.counts}
    known = report.methods[0].recall is not None
    rows = [
        (
            one.name,
            one.agreement.mean,
            one.agreement.low,
            one.agreement.high,
            *one.removed,
            *([one.recall] if known else []),
        )
        for one in report.methods
    ]
    return Table.of(columns | ({"mislabelled rows found": ".0%"} if known else {}), rows, "attribution")


def attribution_page(report: AttributionReport) -> Page:
    """Return the page."""
    names = [one.name for one in report.methods]
    scored = [one.agreement for one in report.methods]
    ends = ([one.low if one.low is not None else one.mean for one in scored],
            [one.high if one.high is not None else one.mean for one in scored])  # fmt: skip
    picture = Picture(
        draw(
            [bars([one.mean for one in scored], names, "rank correlation", whiskers=ends)],
            "rank correlation with exact refits",
            "",
        ),
        "What to see: 1 is a method that ranks every subset of the training rows as exact refits do; a useful one is "
        "to the right of random scores and of cosine similarity.",
        ", ".join(f"{one.name} {one.agreement.mean:.3f}" for one in report.methods),
        "rank_correlation",
    )
    return Page(
        f"How good are {names[0]}?",
        f"{count(report.rows, 'training row')}, {count(report.queries, 'query', 'queries')}, "
        f"{count(report.subsets, 'subset')}, ridge {number(report.ridge)}",
        report.sentences,
        (Section("Against exact refits", [picture, attribution_table(report)]),),
    )
