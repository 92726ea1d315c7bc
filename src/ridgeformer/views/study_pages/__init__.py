"""The page of a study, and `reproduce`, which runs a study and writes its page and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ridgeformer.core.words import count, number
from ridgeformer.studies import Report, Study, export, find_study, intervals, run, table
from ridgeformer.views.page import write_page
from ridgeformer.views.parts import Page, Section, Table
from ridgeformer.views.study_pages.compiled import depth_accuracy_page, width_rank_page
from ridgeformer.views.study_pages.identified import (
    identified_compiled_page,
    identified_nulls_page,
    identified_power_page,
    identified_trained_page,
)
from ridgeformer.views.study_pages.influences import influence_over_time_page, interventions_page, malleability_page
from ridgeformer.views.study_pages.networks import condition_numbers_page, loss_surface_page, ntk_distance_page
from ridgeformer.views.study_pages.shared import Rows, seeds_of

__all__ = ["PAGES", "reproduce", "study_page"]

PAGES: dict[str, Callable[[Rows, Rows], Page]] = {
    "depth-accuracy": depth_accuracy_page,
    "width-rank": width_rank_page,
    "ntk-distance": ntk_distance_page,
    "condition-numbers": condition_numbers_page,
    "malleability": malleability_page,
    "interventions": interventions_page,
    "influence-over-time": influence_over_time_page,
    "loss-surface": loss_surface_page,
    "identify-compiled": identified_compiled_page,
    "identify-nulls": identified_nulls_page,
    "identify-power": identified_power_page,
    "identify-trained": identified_trained_page,
}
"""Pages by the name of their study, made of the rows of its table and of their means; others get a table of means."""


def reproduce(
    study: Study | str, directory: str | Path, *, preset: str = "quick", **options: Any
) -> tuple[Report, Page]:
    """Run a study into `directory` and write report.html, results.csv and intervals.csv there.

    The directory also holds `store.db`, so that running again resumes; `options` are those of `studies.run`.
    """
    study, directory = find_study(study), Path(directory)
    store = directory / "store.db"
    report = run(study, store=store, preset=preset, **options)
    rows = table(study, store, preset=preset)
    means = intervals(rows, study.within)
    export(rows, directory / "results.csv")
    export(means, directory / "intervals.csv")
    page = study_page(study, rows.to_pylist(), means.to_pylist())
    write_page(page, directory / "report.html")
    return report, page


def study_page(study: Study, rows: Rows, means: Rows) -> Page:
    """Return the page of a study: its own, or one table of means and intervals."""
    if study.name in PAGES:
        return PAGES[study.name](rows, means)

    def cell(value: Any) -> str:
        return number(value) if isinstance(value, int | float) else str(value)

    means_table = Table.of(dict.fromkeys(means[0], cell), [list(row.values()) for row in means])
    section = Section.of("Means and 95 % intervals over seeds", means_table)
    return Page.of(study.name, f"{count(len(rows), 'row')}, {seeds_of(rows)}", (study.what,), section)
