"""Runs the studies that stand beside published tables and writes docs/result_cards.md: `make figures`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ridgeformer.report import Page, Section
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
            lines += [*section.sentences, "", *markdown(section), ""]
    (HERE / "result_cards.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def with_cards(page: Page) -> Iterator[Section]:
    """Yield the sections that hold result cards."""
    return (section for section in page.sections if section.table and section.table.head[-1] == "verdict")


def markdown(section: Section) -> list[str]:
    """Return a section's table."""
    table = [section.table.head, ["---"] * len(section.table.head), *section.table.rows]
    return ["| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |" for row in table]


if __name__ == "__main__":
    main()
