"""Runs the studies that stand beside published tables and writes docs/result_cards.md: `make figures`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ridgeformer.report import Page, Section, Table
from ridgeformer.studies import reproduce

HERE = Path(__file__).parent
STUDIES = ("ntk-distance", "malleability")
INTRODUCTION = """# Result cards

A result card puts a published number beside ours: the mean over seeds, a bootstrap interval, what was chosen wherever the
source leaves something open, and a verdict by one rule.

| verdict | what it means |
|---|---|
| reproduced | our interval reaches to within a tenth of the published value, and does not contain "no effect" |
| same direction | wholly on the same side of "no effect" |
| opposite | wholly on the other side |
| not reproduced | not even the sign is settled, or for a number without direction, it differs |

The source is the study of linearised attention (arXiv 2603.13085). These cards are from the quick presets, on digits in
place of MNIST, so that anybody can run them in minutes; they test directions and not the published values, which are of
other data. Written by `make figures`; no number here is typed by hand.
"""


def main() -> None:
    """Run them and write the page."""
    lines = [INTRODUCTION]
    for study in STUDIES:
        with tempfile.TemporaryDirectory() as directory:
            _, page = reproduce(study, directory, preset="quick")
        lines += [f"## {page.title}", "", f"```sh\nridgeformer reproduce {study} --preset quick\n```", ""]
        for section in with_cards(page):
            lines += [*(f"- {sentence}" for sentence in section.sentences), "", *markdown(section.table), ""]
    (HERE / "result_cards.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def with_cards(page: Page) -> Iterator[Section]:
    """Yield the sections that hold result cards."""
    return (section for section in page.sections if section.table and section.table.head[-1] == "verdict")


def markdown(table: Table) -> list[str]:
    """Return the cards as a table, with the readings that differ listed under it."""
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
