"""Writes docs/identify_measured.md from the stores of the studies of `identify`.

    ridgeformer reproduce identify-compiled --preset default --out DIRECTORY/identify-compiled
    ridgeformer reproduce identify-nulls --preset default --out DIRECTORY/identify-nulls
    ridgeformer reproduce identify-nulls --preset relatives --out DIRECTORY/identify-nulls
    ridgeformer reproduce identify-power --preset default --out DIRECTORY/identify-power
    ridgeformer reproduce identify-trained --preset linear --out DIRECTORY/identify-trained
    ridgeformer reproduce identify-trained --preset default --out DIRECTORY/identify-trained
    python docs/measure_identify.py DIRECTORY

Each takes between minutes and an hour of one core; what is not in the stores yet is said on the page. A part of
which the page has more results than the store stays on it as it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.studies import find_study, intervals, table
from ridgeformer.views import Page, Table
from ridgeformer.views.study_pages import study_page

HERE = Path(__file__).parent
PARTS = (
    ("identify-compiled", "default"),
    ("identify-nulls", "default"),
    ("identify-nulls", "relatives"),
    ("identify-power", "default"),
    ("identify-trained", "linear"),
    ("identify-trained", "default"),
)
LEFT_OUT = ("Every checkpoint",)
INTRODUCTION = """# What identify is worth, measured

Written by `docs/measure_identify.py` from stored results; no number here is typed by hand. Intervals of counts are exact
(Clopper-Pearson, 95 %). How answers are counted is described on the [page of identify](identify.md#how-reliable-it-is).
"""


def main(directory: Path) -> None:
    """Read the stores and write the page."""
    lines, before = [INTRODUCTION], _sections()
    for name, preset in PARTS:
        study, store = find_study(name), directory / name / "store.db"
        tasks = study.tasks(preset)
        try:
            rows = table(study, store, preset=preset)
        except RidgeformerError:  # no store, or nothing of this preset in it
            rows = None
        command = f"```sh\nridgeformer reproduce {name} --preset {preset}\n```"
        listed = [] if rows is None else rows.to_pylist()
        done = len({tuple(row[key] for key in (*tasks[0].params, "seed")) for row in listed})
        if done < int((re.findall(r"^(\d+) of \d+ tasks", before.get(command, ""), re.MULTILINE) or ["0"])[0]):
            lines.append(before[command])
            continue
        if rows is None or not done:
            lines += [f"## {study.what}", "", command, "", f"Not yet run: 0 of {len(tasks)} tasks have a result.", ""]
            continue
        page = study_page(study, listed, intervals(rows, study.within).to_pylist())
        lines += [
            f"## {page.title}",
            "",
            command,
            "",
            f"{done} of {len(tasks)} tasks have a result. {page.subtitle}.",
            "",
        ]
        lines += markdown(page)
    (HERE / "identify_measured.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _sections() -> dict[str, str]:
    """Return the parts of the page as it is, by their commands."""
    page = HERE / "identify_measured.md"
    parts = page.read_text(encoding="utf-8").split("\n## ")[1:] if page.exists() else []
    return {"```sh" + part.split("```sh")[1].split("```")[0] + "```": f"## {part.rstrip()}\n" for part in parts}


def markdown(page: Page) -> list[str]:
    """Return the answer and the tables of a page."""
    lines = [*(f"- {sentence}" for sentence in page.answer), ""]
    for section in page.sections:
        if section.tables and section.title not in LEFT_OUT:
            lines += [f"### {section.title}", ""]
            for sentence in section.sentences:
                lines += [sentence, ""]
            for one in section.tables:
                lines += [*_rows(one), ""]
    return lines


def _rows(shown: Table) -> list[str]:
    lines = [shown.head, ["---"] * len(shown.head), *shown.rows]
    return ["| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "reproduce"))
