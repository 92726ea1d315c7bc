"""`ridgeformer studies`: long work that survives: list, show, run, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ridgeformer import studies as rooms
from ridgeformer.cli.console import Json, out, print_json
from ridgeformer.cli.watching import Processes, Quiet, Retry, Scheduler, Workers, say_end, watched
from ridgeformer.studies import Store, Study

__all__ = ["studies"]

studies = typer.Typer(no_args_is_help=True, help="Run long work that survives: list, show, run, export.")

Name = Annotated[str, typer.Argument(help="A study's name, or module:STUDY of your own.")]
StoreFile = Annotated[Path, typer.Option("--store", help="The file results are kept in.")]


@studies.command("list")
def list_(json: Json = False) -> None:
    """List the studies.

    Example: ridgeformer studies list
    """
    if json:
        print_json([_facts(study) for study in rooms.STUDIES.values()])
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for head in ("name", "tasks", "what"):
        table.add_column(head)
    for study in rooms.STUDIES.values():
        sizes = ", ".join(f"{name} {len(preset):,}" for name, preset in study.presets.items())
        table.add_row(study.name, sizes, study.what)
    out().print(table)


@studies.command("show")
def show(
    name: Name,
    store: Annotated[Path | None, typer.Option("--store", help="Also say what this store has of it.")] = None,
    json: Json = False,
) -> None:
    """Describe a study, and what a store has of it: done, missing and failed.

    Example: ridgeformer studies show depth-accuracy
    """
    study = rooms.find_study(name)
    facts = _facts(study)
    if store is not None:
        facts["store"] = _standing(study, store)
    if json:
        print_json(facts)
        return
    console = out()
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
    workers: Workers = 0,
    scheduler: Scheduler = None,
    retry: Retry = False,
    quiet: Quiet = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines: progress, then the end.")] = False,
) -> None:
    """Compute what the store does not have yet; running again resumes.

    Example: ridgeformer studies run depth-accuracy --preset quick --store depth.db --processes 2
    """
    again = f"ridgeformer studies run {name} --preset {preset} --store {store}"
    with watched(again, quiet=quiet, json=json) as watch:
        report = rooms.run(
            name, store=store, preset=preset, processes=processes, workers=workers, scheduler=scheduler, retry=retry,
            watch=watch,
        )  # fmt: skip
    say_end(report, json=json)


@studies.command("export")
def export(
    name: Name,
    store: StoreFile,
    path: Annotated[Path, typer.Option("--out", help="The file to write.")],
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    preset: Annotated[str | None, typer.Option(help="Only this preset's tasks; all there are without it.")] = None,
    means: Annotated[bool, typer.Option("--intervals", help="Means over seeds with 95 % intervals.")] = False,
    version: Annotated[int | None, typer.Option(help="Results of another version of the study.")] = None,
    json: Json = False,
) -> None:
    """Write a tidy table: parameters, seeds and values.

    Example: ridgeformer studies export depth-accuracy --store depth.db --format csv --out depth.csv
    """
    rows = rooms.table(name, store, preset=preset, version=version)
    if means:
        rows = rooms.intervals(rows, rooms.find_study(name).within)
    rooms.export(rows, path, format=format)
    facts = {"path": str(path), "rows": rows.num_rows, "columns": rows.column_names}
    print_json(facts) if json else out().print(f"{rows.num_rows:,} rows: {path}", markup=False, soft_wrap=True)


def _facts(study: Study) -> dict[str, Any]:
    sizes = {name: len(preset) for name, preset in study.presets.items()}
    return {"name": study.name, "version": study.version, "what": study.what, "presets": sizes}


def _standing(study: Study, path: Path) -> dict[str, Any]:
    """Return what a store has of a study."""
    with Store(path, write=False) as store:
        rows, census = list(store.results(study.name, study.version)), store.census(study.name)
    done = {row.key for row in rows if row.status == rooms.Status.DONE}
    return {
        "done": {name: sum(task.key in done for task in study.tasks(name)) for name in study.presets},
        "failed": [
            {"params": row.params, "seed": row.seed, "status": row.status, "error": row.error.splitlines()[-1]}
            for row in rows
            if row.key not in done
        ],
        "versions": [f"{n} results of version {v}, ridgeformer {lib}" for (v, lib), n in sorted(census.items())],
    }
