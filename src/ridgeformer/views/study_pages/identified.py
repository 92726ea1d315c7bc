"""Pages of the studies of `identify`: outcomes by algorithm and by kind of null, beside the published scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ridgeformer.core.statistics import proportion_interval
from ridgeformer.core.words import count, percent
from ridgeformer.studies.reexamined_claims import CLAIMS
from ridgeformer.views.figures import PALETTE, curve
from ridgeformer.views.parts import Page, Section, Table
from ridgeformer.views.study_pages.shared import Rows, distinct, mean_curve, picture, seeds_of, where

__all__ = ["identified_compiled_page", "identified_nulls_page", "identified_power_page", "identified_trained_page"]


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
    published = {name: sum(row[f"{name}_false"] for row in rows) for name in ("sim_e", "sim_w")}
    known = ("abstains", "right class", "said to be near", "same function", "within resolution", "false")
    answer = (
        f"Of {count(cases, 'null or unlisted algorithm', 'nulls and unlisted algorithms')}, "
        f"{_fraction(outcomes['false'], cases)} got a false answer and {outcomes['abstains']} none.",
        f"The right class: {outcomes['right class']}. Said to approximate a candidate, and within the resolution: "
        f"{outcomes['said to be near']}. Named as a candidate with the same predictions to within 1 %: "
        f"{outcomes['same function']}; to within the resolution stated: {outcomes['within resolution']}.",
        f"SimE was above 0.9 for a wrong candidate in {published['sim_e']} of them, SimW in {published['sim_w']}.",
    )
    sections = [
        Section.of("By kind", _outcomes(rows, "kind", known)),
        Section.of("By output noise", _outcomes(rows, "noise", known)),
        Section.of("By number of features", _outcomes(rows, "features", known)),
    ]
    head = {
        "kind": "",
        "features": "",
        "noise": "",
        "answer": "",
        "distance": ".2g",
        "resolution": ".2g",
        "count as": "",
    }
    named = [
        (row["kind"], row["features"], row["noise"], row["answer"], row["distance"], row["resolution"], row["outcome"])
        for row in sorted(rows, key=lambda row: known.index(row["outcome"]), reverse=True)
        if row["outcome"] in known[2:]
    ]
    if named:
        text = (
            "Every null that was named. The distance is that of its noiseless predictions from the nearest named "
            "candidate, on tasks that were not used to name it, as a fraction of their size; an answer is false if "
            "that is more than the resolution it states."
        )
        sections.append(Section.of("Named nulls", text, Table.of(head, named, "named")))
    return Page.of(
        "Does identify name what is not there?", f"{count(cases, 'model')}, 95 % intervals", answer, *sections
    )


def identified_power_page(rows: Rows, means: Rows) -> Page:
    """Return the page of power: how often a compiled model is recognised, and whether the reported power is right."""
    wrong, cases = sum(row["wrong"] for row in rows), len(rows)
    body = []
    for route in distinct(rows, "route"):
        for noise in distinct(rows, "noise"):
            for tasks in distinct(rows, "tasks"):
                some = where(rows, route=route, noise=noise, tasks=tasks)
                if some:
                    body.append((route, noise, tasks, *_recognised(some)))
    both = [(reported, again) for *_, reported, again in body if reported is not None and again is not None]
    apart = [reported - again for reported, again in both]
    answer = [
        f"{sum(row['right'] for row in rows)} of {count(cases, 'model')} were recognised; {_fraction(wrong, cases)} "
        "got a wrong answer. Fewer tasks and more noise lead to abstentions, or to larger sets."
    ]
    if apart:
        answer.append(
            f"The power that a report states is on average {abs(sum(apart) / len(apart)):.2f} "
            f"{'above' if sum(apart) > 0 else 'below'} the frequency with which fresh tasks give the same answer "
            f"({len(apart)} settings; largest difference {max(map(abs, apart)):.2f})."
        )
    head = {"model": "", "output noise": ".0%", "tasks": "", "runs": "", "recognised": ".2f", "95 % interval": "",
            "power reported": ".2f", "same answer on fresh tasks": ".2f"}  # fmt: skip
    pictures = []
    for route in distinct(rows, "route"):
        traces = []
        for noise, colour in zip(distinct(rows, "noise"), PALETTE, strict=False):
            points = [one for one in body if one[0] == route and one[1] == noise]
            intervals = [proportion_interval(round(one[4] * one[3]), one[3]) for one in points]
            traces.append(
                curve([one[2] for one in points], [one[4] for one in points], f"output noise {noise:.0%}", colour,
                      markers=True, whiskers=([low for low, _ in intervals], [high for _, high in intervals]))
            )  # fmt: skip
        pictures.append(
            picture(traces, {"title": "tasks, half of them to fit", "type": "log"},
                    {"title": "fraction recognised", "range": [-0.05, 1.05]},
                    f"What to see: how many tasks {route} needs at which output noise. Whiskers: exact 95 % intervals.",
                    f"Power for {route} against tasks.")
        )  # fmt: skip
    return Page.of(
        "How many tasks does identify need?", f"{count(cases, 'model')}, 5 features, {seeds_of(rows)}", tuple(answer),
        Section.of("Recognised", *pictures), Section.of("Numbers", Table.of(head, body, "power")),
    )  # fmt: skip


def _recognised(rows: Rows) -> tuple[int, float, str, float | None, float | None]:
    """Return runs, the fraction recognised and its interval, the mean reported power, and how often others agree."""
    hits, cases = sum(row["right"] for row in rows), len(rows)
    low, high = proportion_interval(hits, cases)
    answered = [row for row in rows if row["answered"]]
    reported = [row["power"] for row in answered if row["power"] is not None]
    again = [
        other["answered"] and set(other["families"].split()) <= set(one["families"].split())
        for one in answered for other in rows if other is not one
    ]  # fmt: skip
    return (cases, hits / cases, f"{low:.2f} to {high:.2f}", sum(reported) / len(reported) if reported else None,
            sum(again) / len(again) if again else None)  # fmt: skip


def identified_trained_page(rows: Rows, means: Rows) -> Page:
    """Return the page of trained networks: what is said about each over its training, and the claims re-examined."""
    ends = [row for row in rows if row["trained"] == 1]
    starts = [row for row in rows if row["trained"] == 0]
    steps = [row for row in ends if row["network"] == "linear" and row["layers"] <= 2 and row["condition"] > 1]
    right = [row for row in steps if f"gd_covariance-{row['layers']}/k" in row["identified"].split()]
    worst = max((row["apart"] for row in right if row["apart"] is not None), default=None)
    answer = [
        f"{sum(row['reason'] is None for row in ends)} of {count(len(ends), 'trained network')} and "
        f"{sum(row['reason'] is None for row in starts)} of {len(starts)} untrained twins were given a name."
    ]
    if steps:
        answer.append(
            f"Linear attention of one or two layers on rows of condition {steps[0]['condition']:g}: "
            f"{len(right)} of {len(steps)} are identified as that many steps of covariance-preconditioned gradient "
            f"descent" + (f", with step sizes within {percent(worst)} of those of the weights." if worst else ".")
        )
    head = {"network": "", "seed": "", "trained": ".0%", "test error": ".3f", "unexplained": ".2g", "answer": ""}
    body = [
        (_architecture(row), row["seed"], row["trained"], row["test_error"], row["unexplained"], _said(row))
        for row in rows
    ]
    inside = [(_architecture(row), row["seed"], row["inside"]) for row in ends if row.get("inside")]
    sizes = [
        (_architecture(row), row["seed"],
         row["steps_by_outputs"] if len(row["steps_by_outputs"].split()) == row["layers"] else "",
         row["steps_by_weights"], row["apart"])
        for row in ends if row["network"] == "linear"
    ]  # fmt: skip
    traces = []
    for name, colour in zip(dict.fromkeys(map(_architecture, rows)), (*PALETTE, *PALETTE), strict=False):
        found = [row for row in means if _architecture(row) == name and row["trained"] > 0]
        traces.append(mean_curve(found, "trained", "unexplained", name, colour, markers=True))
    sections = [
        Section.of("Claims of the literature", *_claims(ends, starts)),
        Section.of("Over training time", picture(
            traces, {"title": "fraction of the training", "type": "log"},
            {"title": "unexplained by the nearest candidate", "type": "log"},
            "What to see: how far each network is from the nearest candidate as it is trained.",
            "Unexplained fraction over training time.")),
    ]  # fmt: skip
    if sizes:
        columns = {"network": "", "seed": "", "by outputs": "", "by weights": "", "largest difference": ".2%"}
        sections.append(Section.of("Step sizes of linear attention", Table.of(columns, sizes)))
    if inside:
        sections.append(Section.of("Inside", Table.of({"network": "", "seed": "", "verdict": ""}, inside)))
    sections.append(Section.of("Every checkpoint", Table.of(head, body, "checkpoints")))
    return Page.of(
        "Which algorithm do trained networks run?",
        f"{count(len(ends), 'network')}, {seeds_of(rows)}; five features, 20 supports", tuple(answer), *sections,
    )  # fmt: skip


def _architecture(row: Mapping[str, Any]) -> str:
    if row["network"] == "linear":
        return f"linear attention, {count(row['layers'], 'layer')}, condition {row['condition']:g}"
    parts = [word for word in ("mlp", "norm") if row[word]]
    return f"softmax, {count(row['layers'], 'layer')}" + (f", {' and '.join(parts)}" if parts else "")


def _said(row: Mapping[str, Any]) -> str:
    return str(row["answer"]) if row["reason"] is None else f"none: {row['answer']} (nearest {row['best']})"


def _claims(ends: Rows, starts: Rows) -> tuple[Any, ...]:
    """Return the claims as a table: the published measure, trained and untrained, and our answer."""
    body, texts = [], []
    for claim in CLAIMS:
        trained, null = ([row for row in some if claim.concerns(row)] for some in (ends, starts))
        body.append((f"[{claim.source}]", *claim.examine(trained, null)))
        texts.append(f"{claim.claim} [{claim.source}]; measured by the {claim.measure}.")
    names = ("source", "networks", "measure, trained", "untrained", "identify says", "verdict")
    head = dict.fromkeys(names, "")
    text = (
        "Each claim with the measure it was published with, on the networks trained here and on untrained twins, "
        "beside the answer of identify. A measure that untrained networks pass as well is no evidence."
    )
    return text, *texts, Table.of(head, body, "claims")
