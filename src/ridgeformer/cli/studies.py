"""`ridgeformer studies` and `ridgeformer reproduce`: resumable parameter sweeps, and their pages."""

from __future__ import annotations

import json as json_
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import InputError

if TYPE_CHECKING:
    from ridgeformer.studies import Progress, Report, StoredResult, Study

__all__ = ["reproduce", "studies"]

studies = typer.Typer(no_args_is_help=True, help="Run resumable parameter sweeps: list, show, run, export.")

Name = Annotated[str, typer.Argument(help="A study's name, or module:STUDY of your own.")]
StoreFile = Annotated[Path, typer.Option("--store", help="The file results are kept in.")]
Processes = Annotated[int, typer.Option(help="Number of worker processes on this machine.", min=0)]
Retry = Annotated[bool, typer.Option("--retry", help="Try recorded failures again.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON lines: progress, then the end.")]

EVERY = 1.0
"""Seconds between two JSON lines."""


@studies.command("list")
def list_(json: ui.Json = False) -> None:
    """List the studies.

    Example: ridgeformer studies list
    """
    with importing():
        from ridgeformer.studies import STUDIES

    if json:
        ui.print_json([_facts(study) for study in STUDIES.values()])
        return
    rows = [
        (study.name, ", ".join(f"{name} {len(preset):,}" for name, preset in study.presets.items()), study.what)
        for study in STUDIES.values()
    ]
    ui.out().print(ui.plain_table(("name", "tasks", "what"), rows))


@studies.command("show")
def show(
    name: Name,
    store: Annotated[Path | None, typer.Option("--store", help="Also count the results in this store.")] = None,
    json: ui.Json = False,
) -> None:
    """Describe a study and the state of a store: tasks done, missing and failed.

    Example: ridgeformer studies show depth-accuracy
    """
    with importing():
        from ridgeformer.studies import find_study

    study = find_study(name)
    facts = _facts(study)
    if store is not None:
        facts["store"] = _standing(study, store)
    if json:
        ui.print_json(facts)
        return
    console = ui.out()
    console.print(f"{study.name} (version {study.version}): {study.what}", markup=False)
    for preset, count in facts["presets"].items():
        known = f", {facts['store']['done'][preset]} done" if store is not None else ""
        console.print(f"  {preset:<8} {count:,} tasks{known}", markup=False)
    if store is not None:
        for line in facts["store"]["failed"]:
            console.print(f"  {line['status']}: {line['params']}, seed {line['seed']}: {line['error']}", markup=False)
        for line in facts["store"]["versions"]:
            console.print(f"  {line}", markup=False)


@studies.command("run")
def run(
    name: Name,
    store: StoreFile,
    preset: Annotated[str, typer.Option(help="Which size: quick, default or paper.")] = "default",
    processes: Processes = 0,
    workers: ui.Workers = 0,
    scheduler: ui.Scheduler = None,
    retry: Retry = False,
    quiet: Quiet = False,
    json: JsonLines = False,
) -> None:
    """Compute the tasks missing from the store; running again resumes.

    Example: ridgeformer studies run depth-accuracy --preset quick --store depth.db --processes 2
    """
    with importing():
        from ridgeformer.studies import run as run_study

    again = f"ridgeformer studies run {name} --preset {preset} --store {store}"
    with _watched(again, quiet=quiet, json=json) as watch:
        report = run_study(
            name, store=store, preset=preset, processes=processes, workers=workers, scheduler=scheduler, retry=retry,
            watch=watch,
        )  # fmt: skip
    _print_end(report, json=json)


@studies.command("export")
def export(
    name: Name,
    store: StoreFile,
    path: Annotated[Path, typer.Option("--out", help="The file to write.")],
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    preset: Annotated[str | None, typer.Option(help="Only the tasks of this preset; by default all.")] = None,
    means: Annotated[bool, typer.Option("--intervals", help="Means over seeds with 95 % intervals.")] = False,
    version: Annotated[int | None, typer.Option(help="Export the results of another version of the study.")] = None,
    json: ui.Json = False,
) -> None:
    """Write a tidy table: parameters, seeds and values.

    Example: ridgeformer studies export depth-accuracy --store depth.db --format csv --out depth.csv
    """
    with importing():
        from ridgeformer.studies import export as write_table
        from ridgeformer.studies import find_study, intervals, table

    rows = table(name, store, preset=preset, version=version)
    if means:
        rows = intervals(rows, find_study(name).within)
    write_table(rows, path, format=format)
    facts = {"path": str(path), "rows": rows.num_rows, "columns": rows.column_names}
    ui.print_json(facts) if json else ui.out().print(f"{rows.num_rows:,} rows: {path}", markup=False, soft_wrap=True)


def _facts(study: Study) -> dict[str, Any]:
    sizes = {name: len(preset) for name, preset in study.presets.items()}
    return {"name": study.name, "version": study.version, "what": study.what, "presets": sizes}


def _standing(study: Study, path: Path) -> dict[str, Any]:
    """Return the state of a store: tasks done a preset, failures, versions."""
    from ridgeformer.studies import Store, TaskStatus

    with Store(path, write=False) as store:
        rows, census = list(store.results(study.name, study.version)), store.census(study.name)
    done = {row.key for row in rows if row.status == TaskStatus.DONE}
    return {
        "done": {name: sum(task.key in done for task in study.tasks(name)) for name in study.presets},
        "failed": [_failure(row) for row in rows if row.key not in done],
        "versions": [f"{n} results of version {v}, ridgeformer {lib}" for (v, lib), n in sorted(census.items())],
    }


def reproduce(
    name: Annotated[str, typer.Argument(help="A study; `ridgeformer studies list` shows them.")],
    preset: Annotated[str, typer.Option(help="Which size: quick, default or paper.")] = "quick",
    seeds: Annotated[int | None, typer.Option(help="Seeds a point, instead of the preset's number.")] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option("--set", help="Other values of a parameter, such as data=mnist or rows=100,250; can be repeated."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--out", help="Directory of store, tables and report.html; reproduce/NAME by default."),
    ] = None,
    processes: Processes = 0,
    workers: ui.Workers = 0,
    scheduler: ui.Scheduler = None,
    retry: Retry = False,
    quiet: Quiet = False,
    json: JsonLines = False,
) -> None:
    """Run a study and write its page with plots and its tables; running again resumes.

    Example: ridgeformer reproduce width-rank --preset quick --processes 2
    Example: ridgeformer reproduce ntk-distance --set data=mnist --set width=16,1024 --seeds 5
    """
    with importing():
        from ridgeformer.studies import find_study
        from ridgeformer.views.study_pages import reproduce as run_and_show

    where = Path("reproduce") / name if directory is None else directory
    options = "".join(f" --set {one}" for one in changed or ()) + ("" if seeds is None else f" --seeds {seeds}")
    again = f"ridgeformer reproduce {name} --preset {preset}{options} --out {where}"
    study = find_study(name).with_options(preset, seeds=seeds, **_axes(changed or ()))
    with _watched(again, quiet=quiet, json=json) as watch:
        report, page = run_and_show(
            study, where, preset=preset, processes=processes, workers=workers, scheduler=scheduler, retry=retry,
            watch=watch,
        )  # fmt: skip
    if not json:
        console = ui.out()
        console.print(f"\n[bold]{escape(page.title)}[/bold]\n")
        ui.print_sentences(page.answer)
        console.print(f"The page with plots: [bold]{escape(str(where / 'report.html'))}[/bold]\n", soft_wrap=True)
    _print_end(report, json=json, page={"answer": list(page.answer), "page": str(where / "report.html")})


def _axes(changed: Iterable[str]) -> dict[str, list[Any]]:
    """Parse "name=value,value"; values that are JSON become numbers or booleans."""
    axes: dict[str, list[Any]] = {}
    for one in changed:
        name, equals, values = one.partition("=")
        if not (name and equals and values):
            raise InputError(f"--set {one}: name=value or name=value,value was expected.")
        axes[name] = []
        for value in values.split(","):
            try:
                axes[name].append(json_.loads(value))
            except json_.JSONDecodeError:
                axes[name].append(value)
    return axes


@contextmanager
def _watched(again: str, *, quiet: bool, json: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a callback that shows progress; after Ctrl-C print the command that resumes, then re-raise."""
    printed = 0.0
    with ui.progress_bar(quiet or json) as bar:

        def watch(progress: Progress) -> None:
            nonlocal printed
            left = ""
            if progress.remaining is not None:
                left = f", {timedelta(seconds=round(progress.remaining))} left"
            words = f"{progress.done:,} done, {progress.running} running, {progress.failed} failed{left}"
            bar(progress.done + progress.failed, progress.total, words)
            if json and time.monotonic() - printed >= EVERY:
                printed = time.monotonic()
                _line({"event": "progress", **vars(progress)})

        try:
            yield watch
        except KeyboardInterrupt:
            print(f"\ninterrupted; finished tasks are stored. To resume: {again}", file=sys.stderr)
            raise


def _print_end(report: Report, *, json: bool, page: dict[str, Any] | None = None) -> None:
    """Print a summary of the run; failures make the exit code 1."""
    failures = [_failure(row) for row in report.failures]
    if json:
        facts = {name: value for name, value in vars(report).items() if name not in ("failures", "store")}
        _line({"event": "end", **facts, "store": str(report.store), "failures": failures, **(page or {})})
    else:
        console = ui.out()
        for note in report.notes:
            console.print(f"note: {note}", markup=False)
        kept = report.total - len(failures)
        console.print(
            f"{report.study}: {kept:,} of {report.total:,} tasks have a result, {report.computed:,} of them computed "
            f"now in {report.seconds:.1f} s.",
            markup=False,
        )
        for line in failures:
            console.print(f"  {line['status']}: {line['params']}, seed {line['seed']}: {line['error']}", markup=False)
        if failures:
            console.print(f"{len(failures)} tasks have none; --retry tries them again.", markup=False)
    if failures:
        raise typer.Exit(1)


def _failure(row: StoredResult) -> dict[str, Any]:
    return {"params": row.params, "seed": row.seed, "status": row.status, "error": row.error.splitlines()[-1]}


def _line(value: dict[str, Any]) -> None:
    print(json_.dumps(value), flush=True)
