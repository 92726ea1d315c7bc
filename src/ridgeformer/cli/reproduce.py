"""`ridgeformer reproduce`: a study, run and shown as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ridgeformer import studies
from ridgeformer.cli.console import out
from ridgeformer.cli.watching import Processes, Quiet, Retry, Scheduler, Workers, say_end, watched

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str, typer.Argument(help="A study with a page: depth-accuracy, width-rank or malleability.")],
    preset: Annotated[str, typer.Option(help="Which size: quick, default or paper.")] = "quick",
    directory: Annotated[
        Path | None, typer.Option("--out", help="Where store, tables and report.html go; reproduce/NAME without it.")
    ] = None,
    processes: Processes = 0,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    retry: Retry = False,
    quiet: Quiet = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines: progress, then the end.")] = False,
) -> None:
    """Run a study and write its page with plots and its tables; running again resumes.

    Example: ridgeformer reproduce width-rank --preset quick --processes 2
    """
    where = Path("reproduce") / name if directory is None else directory
    again = f"ridgeformer reproduce {name} --preset {preset} --out {where}"
    with watched(again, quiet=quiet, json=json) as watch:
        report, page = studies.reproduce(
            name, where, preset=preset, processes=processes, workers=workers, scheduler=scheduler, retry=retry,
            watch=watch,
        )  # fmt: skip
    if not json:
        console = out()
        console.print(f"\n[bold]{escape(page.title)}[/bold]\n")
        for sentence in page.answer:
            console.print(f"• {sentence}\n", markup=False)
        console.print(f"The page with plots: [bold]{escape(str(where / 'report.html'))}[/bold]\n", soft_wrap=True)
    say_end(report, json=json, page={"answer": list(page.answer), "page": str(where / "report.html")})
