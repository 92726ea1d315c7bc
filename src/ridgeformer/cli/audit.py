"""`ridgeformer audit`: from a dataset to a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ridgeformer.cli import importing
from ridgeformer.cli.console import Data, Json, Preprocessing, Seed, Target, out, plain_table, print_json, progress_bar

if TYPE_CHECKING:
    from ridgeformer.auditing import Audit

__all__ = ["audit"]


def audit(
    data: Data = "digits",
    target: Target = None,
    directory: Annotated[Path, typer.Option("--out", help="Directory of report.html.")] = Path("audit"),
    size: Annotated[
        str, typer.Option("--preset", help="quick (under a minute), default (a few minutes) or full (hours).")
    ] = "default",
    preprocessing: Preprocessing = "auto",
    max_rows: Annotated[
        int | None, typer.Option(help="Largest number of rows to use; by default the preset's.", min=10)
    ] = None,
    seed: Seed = 0,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write every figure as SVG and PDF, into OUT/figures.")
    ] = False,
    json: Json = False,
) -> None:
    """Audit a dataset: fit and certify it, compile transformers for it, and write a page on how far to trust them.

    Example: ridgeformer audit digits --out audit
    """
    with importing():
        from ridgeformer import datasets
        from ridgeformer.auditing import audit as run_audit
        from ridgeformer.auditing import preset
        from ridgeformer.views.audit_page import audit_page
        from ridgeformer.views.page import require_place, write_page
        from ridgeformer.views.paper import write_figures

    settings = replace(preset(size), seed=seed, preprocessing=preprocessing)
    if max_rows is not None:
        settings = replace(settings, max_rows=max_rows)
    require_place(directory / "report.html")
    with progress_bar(json) as progress:
        result = run_audit(datasets.load(data, target=target), settings, progress=progress)
        shown = audit_page(result)
        page = write_page(shown, directory / "report.html")
        drawn = write_figures(shown, directory / "figures") if figures else ()
    if json:
        print_json({**result.as_dict(), "page": str(page), "figures": [str(path) for path in drawn]})
        return
    _show(result, page)
    if drawn:
        out().print(f"Figures as SVG and PDF: [bold]{escape(str(directory / 'figures'))}[/bold]", soft_wrap=True)


def _show(result: Audit, page: Path) -> None:
    from ridgeformer.core.words import show_score

    console, task = out(), result.data.dataset.task
    console.print(f"\n[bold]Audit of {escape(result.data.dataset.name)}[/bold]")
    console.print(" ".join(result.data.notes) + "\n", markup=False, style="dim")
    for sentence in result.sentences:
        lead, _, rest = sentence.partition(": ")
        console.print(f"• [bold]{escape(lead)}:[/bold] {escape(rest)}\n")
    rows = [(fit.name, show_score(fit.test_score, task), show_score(fit.train_score, task)) for fit in result.fits]
    console.print(plain_table(("method", "held out", "training"), rows, right=("held out", "training")))
    console.print(f"\n{sum(result.seconds.values()):.0f} s", style="dim")
    console.print(f"The page with plots: [bold]{escape(str(page))}[/bold]", soft_wrap=True)
