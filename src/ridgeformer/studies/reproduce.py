"""`reproduce`: a study from nothing to a page with its plots, its tables beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ridgeformer.core.errors import InputError
from ridgeformer.studies.registry import find_study
from ridgeformer.studies.run import Report, run
from ridgeformer.studies.study import Study
from ridgeformer.studies.tables import export, intervals, table
from ridgeformer.views import Page, write_page

__all__ = ["reproduce"]


def reproduce(study: Study | str, directory: Any, *, preset: str = "quick", **options: Any) -> tuple[Report, Page]:
    """Run a study into `directory` and write report.html, results.csv and intervals.csv there.

    Args:
        study: A study that has a page, or its name.
        directory: Where `store.db` and what is written go; running again resumes.
        preset: Which size of the study.
        options: As in `run`: processes, workers, scheduler, retry, watch.

    Raises:
        InputError: a study without a page.
    """
    study, directory = find_study(study), Path(directory)
    if study.page is None:
        raise InputError(f"{study.name} has no page: run it with `ridgeformer studies run {study.name}`.")
    store = directory / "store.db"
    report = run(study, store=store, preset=preset, **options)
    rows = table(study, store, preset=preset)
    means = intervals(rows, study.within)
    export(rows, directory / "results.csv")
    export(means, directory / "intervals.csv")
    page: Page = study.page(rows.to_pylist(), means.to_pylist())
    write_page(page, directory / "report.html")
    return report, page
