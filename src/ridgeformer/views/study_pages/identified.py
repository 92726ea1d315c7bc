"""Pages of the studies of `identify`: outcomes by algorithm and by kind of null, beside the published scores."""

from __future__ import annotations

from collections import Counter

from ridgeformer.core.statistics import proportion_interval
from ridgeformer.core.words import count, percent
from ridgeformer.views.parts import Page, Section, Table
from ridgeformer.views.study_pages.shared import Rows, distinct

__all__ = ["identified_compiled_page", "identified_nulls_page"]


def _outcomes(rows: Rows, by: str, known: tuple[str, ...]) -> Table:
    """Return how often each outcome came out, one row a value of a parameter."""
    body = []
    for value in distinct(rows, by):
        found = Counter(row["outcome"] for row in rows if row[by] == value)
        body.append((value, sum(found.values()), *(found[name] for name in known)))
    return Table.of({by: "", "models": "", **dict.fromkeys(known, "")}, body, f"outcomes_by_{by}")


def _fraction(hits: int, cases: int) -> str:
    low, high = proportion_interval(hits, cases)
    return f"{hits} of {cases} ({percent(low)} to {percent(high)})"


def identified_compiled_page(rows: Rows, means: Rows) -> Page:
    """Return the page of compiled models: right, abstained, wrong, and what published scores would have said."""
    outcomes, cases = Counter(row["outcome"] for row in rows), len(rows)
    wrong = [(row["truth"], row["features"], row["noise"], row["answer"]) for row in rows if row["outcome"] == "wrong"]
    published = {name: sum(not row[f"{name}_right"] for row in rows) for name in ("sim_e", "sim_w")}
    known = ("family", "set", "special case", "abstains", "wrong")
    answer = (
        f"Of {count(cases, 'compiled model')}, {outcomes['family']} got the right family alone, {outcomes['set']} "
        f"a set with the right algorithm and depth, {outcomes['special case']} a special case of it; "
        f"{_fraction(outcomes['abstains'], cases)} got no answer and {_fraction(outcomes['wrong'], cases)} a wrong "
        "one.",
        f"The best match by SimE was another candidate for {published['sim_e']}, by SimW for {published['sim_w']}; "
        "these scores give one answer each and never abstain.",
    )
    sections = [
        Section.of("By algorithm", _outcomes(rows, "route", known)),
        Section.of("By output noise", _outcomes(rows, "noise", known)),
        Section.of("By number of features", _outcomes(rows, "features", known)),
    ]
    if wrong:
        table = Table.of({"truth": "", "features": "", "noise": "", "answer": ""}, wrong, "wrong")
        sections.append(Section.of("Wrong answers", table))
    return Page.of(
        "Does identify recognise compiled models?", f"{count(cases, 'model')}, 95 % intervals", answer, *sections
    )


def identified_nulls_page(rows: Rows, means: Rows) -> Page:
    """Return the page of nulls: abstentions and false answers by kind, beside the published scores."""
    outcomes, cases = Counter(row["outcome"] for row in rows), len(rows)
    false = [(row["kind"], row["features"], row["noise"], row["answer"]) for row in rows if row["outcome"] == "false"]
    published = {name: sum(row[f"{name}_false"] for row in rows) for name in ("sim_e", "sim_w")}
    known = ("abstains", "right class", "special case", "false")
    answer = (
        f"Of {count(cases, 'null or unlisted algorithm', 'nulls and unlisted algorithms')}, "
        f"{_fraction(outcomes['false'], cases)} got a false answer and {outcomes['abstains']} none.",
        f"SimE was above 0.9 for a wrong candidate in {published['sim_e']} of them, SimW in {published['sim_w']}.",
    )
    sections = [
        Section.of("By kind", _outcomes(rows, "kind", known)),
        Section.of("By output noise", _outcomes(rows, "noise", known)),
    ]
    if false:
        table = Table.of({"kind": "", "features": "", "noise": "", "answer": ""}, false, "false")
        sections.append(Section.of("False answers", table))
    return Page.of(
        "Does identify name what is not there?", f"{count(cases, 'model')}, 95 % intervals", answer, *sections
    )
