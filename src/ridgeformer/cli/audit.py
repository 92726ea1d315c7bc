"""`ridgeformer audit`: the main job, from a dataset to a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ridgeformer import datasets, views
from ridgeformer.auditing import Audit, preset
from ridgeformer.auditing import audit as run_audit
from ridgeformer.cli.console import Json, out, print_json, progress_bar
from ridgeformer.core.words import show_score
from ridgeformer.views.page import require_place
from ridgeformer.views.paper import write_figures

__all__ = ["audit"]


def audit(
    data: Annotated[str, typer.Argument(help="A dataset's name, or a .csv, .parquet, .npz or .npy file.")] = "digits",
    target: Annotated[str | None, typer.Option(help="For a file: the column or key to predict.")] = None,
    directory: Annotated[Path, typer.Option("--out", help="Where report.html goes.")] = Path("audit"),
    size: Annotated[
        str, typer.Option("--preset", help="quick (under a minute), default (a few minutes) or full (hours).")
    ] = "default",
    preprocessing: Annotated[str, typer.Option(help="auto, unit_rows or standardise.")] = "auto",
    max_rows: Annotated[
        int | None, typer.Option(help="Rows used at most; more are sampled. By default as the preset has it.", min=10)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of every random step.", min=0)] = 0,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write every figure as SVG and PDF, into OUT/figures.")
    ] = False,
    json: Json = False,
) -> None:
    """Audit a dataset: fit and certify it, compile transformers for it, say how far it can be trusted; ends in a page.

    Example: ridgeformer audit digits --out audit
    """
    settings = replace(preset(size), seed=seed, preprocessing=preprocessing)
    if max_rows is not None:
        settings = replace(settings, max_rows=max_rows)
    require_place(directory / "report.html")
    with progress_bar(json) as progress:
        result = run_audit(datasets.load(data, target=target), settings, progress=progress)
        page = views.write(result, directory)
        drawn = write_figures(views.audit_page(result), directory / "figures") if figures else ()
    if json:
        print_json({**result.as_dict(), "page": str(page), "figures": [str(path) for path in drawn]})
        return
    _show(result, page)
    if drawn:
        out().print(f"Figures as SVG and PDF: [bold]{escape(str(directory / 'figures'))}[/bold]", soft_wrap=True)


def _show(result: Audit, page: Path) -> None:
    console, task = out(), result.data.dataset.task
    console.print(f"\n[bold]Audit of {escape(result.data.dataset.name)}[/bold]")
    console.print(" ".join(result.data.notes) + "\n", markup=False, style="dim")
    for sentence in result.sentences:
        lead, _, rest = sentence.partition(": ")
        console.print(f"• [bold]{escape(lead)}:[/bold] {escape(rest)}\n")
    table = Table(box=None, header_style="dim", pad_edge=False)
    for head, justify in (("method", "left"), ("held out", "right"), ("training", "right")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]
    for fit in result.fits:
        table.add_row(fit.name, show_score(fit.test_score, task), show_score(fit.train_score, task))
    console.print(table)
    console.print(f"\n{sum(result.seconds.values()):.0f} s", style="dim")
    console.print(f"The page with plots: [bold]{escape(str(page))}[/bold]", soft_wrap=True)
