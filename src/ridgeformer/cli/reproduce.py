"""`ridgeformer reproduce`: a study, run and shown as a page."""

from __future__ import annotations

from collections.abc import Iterable
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ridgeformer import studies
from ridgeformer.cli.console import out
from ridgeformer.cli.watching import Processes, Quiet, Retry, Scheduler, Workers, say_end, watched
from ridgeformer.core.errors import InputError

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str, typer.Argument(help="A study with a page; `ridgeformer studies list` shows them.")],
    preset: Annotated[str, typer.Option(help="Which size: quick, default or paper.")] = "quick",
    seeds: Annotated[int | None, typer.Option(help="Repetitions of every point, instead of the preset's.")] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option("--set", help="Other values of a parameter, such as data=mnist or rows=100,250; can be repeated."),
    ] = None,
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
    Example: ridgeformer reproduce ntk-distance --set data=mnist --set width=16,1024 --seeds 5
    """
    where = Path("reproduce") / name if directory is None else directory
    options = "".join(f" --set {one}" for one in changed or ()) + ("" if seeds is None else f" --seeds {seeds}")
    again = f"ridgeformer reproduce {name} --preset {preset}{options} --out {where}"
    study = studies.find_study(name).with_options(preset, seeds=seeds, **_axes(changed or ()))
    with watched(again, quiet=quiet, json=json) as watch:
        report, page = studies.reproduce(
            study, where, preset=preset, processes=processes, workers=workers, scheduler=scheduler, retry=retry,
            watch=watch,
        )  # fmt: skip
    if not json:
        console = out()
        console.print(f"\n[bold]{escape(page.title)}[/bold]\n")
        for sentence in page.answer:
            console.print(f"• {sentence}\n", markup=False)
        console.print(f"The page with plots: [bold]{escape(str(where / 'report.html'))}[/bold]\n", soft_wrap=True)
    say_end(report, json=json, page={"answer": list(page.answer), "page": str(where / "report.html")})


def _axes(changed: Iterable[str]) -> dict[str, list[Any]]:
    """Return what "name=value,value" says, numbers as numbers."""
    axes: dict[str, list[Any]] = {}
    for one in changed:
        name, equals, values = one.partition("=")
        if not (name and equals and values):
            raise InputError(f"--set {one}: name=value or name=value,value was expected.")
        axes[name] = [_value(value) for value in values.split(",")]
    return axes


def _value(text: str) -> Any:
    try:
        return loads(text)
    except JSONDecodeError:
        return text
