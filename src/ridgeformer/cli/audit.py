"""`ridgeformer audit`: the main job, from a dataset to a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ridgeformer import datasets, report
from ridgeformer.audit import Audit, Settings
from ridgeformer.audit import audit as run_audit
from ridgeformer.audit.answer import show_score
from ridgeformer.cli.console import Json, out, print_json, progress_bar

__all__ = ["audit"]


def audit(
    data: Annotated[str, typer.Argument(help="A dataset's name, or a .csv, .parquet, .npz or .npy file.")] = "digits",
    target: Annotated[str | None, typer.Option(help="For a file: the column or key to predict.")] = None,
    directory: Annotated[Path, typer.Option("--out", help="Where report.html goes.")] = Path("audit"),
    preprocessing: Annotated[str, typer.Option(help="auto, unit_rows or standardise.")] = "auto",
    max_rows: Annotated[int, typer.Option(help="Rows used at most; more are sampled.", min=10)] = 2000,
    seed: Annotated[int, typer.Option(help="Of the split and of every random step.", min=0)] = 0,
    json: Json = False,
) -> None:
    """Audit a dataset: certified fit, baselines, spectrum, depth, and a page with plots.

    Example: ridgeformer audit digits --out audit
    """
    settings = Settings(seed=seed, max_rows=max_rows, preprocessing=preprocessing)
    with progress_bar(json) as progress:
        result = run_audit(datasets.load(data, target=target), settings, progress=progress)
        page = report.write(result, directory)
    if json:
        print_json({**result.as_dict(), "page": str(page)})
        return
    _show(result, page)


def _show(result: Audit, page: Path) -> None:
    console, task = out(), result.data.dataset.task
    console.print(f"\n[bold]Audit of {escape(result.data.dataset.name)}[/bold]\n")
    for sentence in result.sentences:
        console.print(f"• {sentence}\n", markup=False)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for head in ("predictor", "held out", "training", "temperature", "ridge"):
        table.add_column(head)
    for fit in result.fits:
        table.add_row(
            fit.name,
            show_score(fit.test_score, task),
            show_score(fit.train_score, task),
            "" if fit.temperature is None else f"{fit.temperature:.3g}",
            "" if fit.ridge is None else f"{fit.ridge:.1e}",
        )
    console.print(table)
    console.print(f"\nThe page with plots: [bold]{escape(str(page))}[/bold]", soft_wrap=True)
