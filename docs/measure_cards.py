"""Runs the studies that stand beside published tables and writes docs/result_cards.md: `make figures`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ridgeformer.views import Page, Section, Table
from ridgeformer.views.study_pages import reproduce

HERE = Path(__file__).parent
STUDIES = (("ntk-distance", "quick"), ("malleability", "quick"), ("identify-trained", "default"))
INTRODUCTION = """# Result cards

A result card puts a published number beside ours: the mean over seeds, its 95 % interval, what was chosen wherever the
source leaves something open, and a verdict by one rule. Seeds draw the rows and the networks. Intervals are Student's t
over seeds; those of flip rates are no narrower than the exact (Clopper-Pearson) interval of all points counted together.

| verdict | what it means |
|---|---|
| reproduced | our whole interval lies within a tenth of the published value |
| same direction | it does not, but lies wholly on the published side of "no effect" |
| opposite | it lies wholly on the other side |
| not reproduced | it contains "no effect", or the number has no direction, and it lies wholly outside that tenth |
| inconclusive | it reaches both into that tenth and out of it, or there is no interval: more seeds would tell |

A wide interval can therefore never reproduce a number. With five seeds most intervals are wide.

The source of the first two sections is the study of linearised attention (arXiv 2603.13085). These cards are from the quick presets, on digits in
place of MNIST, so that anybody can run them in minutes; they test directions and not the published values, which are of
other data. The last section puts claims about trained in-context learners beside untrained networks and the answer of
[identify](identify.md); a claim whose networks were not trained says so. Written by `make figures`; no number here is
typed by hand.
"""


def main() -> None:
    """Run them and write the page."""
    lines = [INTRODUCTION]
    for study, preset in STUDIES:
        with tempfile.TemporaryDirectory() as directory:
            lines += cards(study, preset, Path(directory))
    (HERE / "result_cards.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def cards(study: str, preset: str, directory: Path) -> list[str]:
    """Return the cards of one study; a directory with its store resumes from there."""
    _, page = reproduce(study, directory, preset=preset)
    lines = [f"## {page.title}", "", f"```sh\nridgeformer reproduce {study} --preset {preset}\n```", ""]
    for section in with_cards(page):
        lines += [*(f"- {sentence}" for sentence in section.sentences), "", *markdown(section.tables[0]), ""]
    return lines


def with_cards(page: Page) -> Iterator[Section]:
    """Yield the sections that hold result cards."""
    return (
        section
        for section in page.sections
        if section.title != "Inside" and section.tables and section.tables[0].head[-1] == "verdict"
    )


def markdown(table: Table) -> list[str]:
    """Return the cards as a table, with the readings that differ listed under it."""
    if "choices" not in table.head:
        plain = [table.head, ["---"] * len(table.head), *table.rows]
        return ["| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in plain]
    at = table.head.index("choices")
    readings = list(dict.fromkeys(row[at] for row in table.rows if row[at]))
    named = [
        (*row[:at], f"reading {readings.index(row[at]) + 1}" if row[at] else "", *row[at + 1 :]) for row in table.rows
    ]
    shown = [place for place in range(len(table.head)) if place != at or readings]
    lines = [[table.head[place].replace("choices", "reading") for place in shown], ["---"] * len(shown)]
    lines += [[row[place].replace("|", "/") for place in shown] for row in named]
    listed = [f"- Reading {number}. {text[0].upper()}{text[1:]}." for number, text in enumerate(readings, 1)]
    return [*("| " + " | ".join(line) + " |" for line in lines), "", *listed]


if __name__ == "__main__":
    main()
