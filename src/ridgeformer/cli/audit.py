"""`ridgeformer audit`: from a dataset to a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing

if TYPE_CHECKING:
    from ridgeformer.auditing import Audit

__all__ = ["audit"]


def audit(
    data: ui.Data = "digits",
    target: ui.Target = None,
    task: ui.Task = None,
    drop: ui.Drop = None,
    group: ui.Group = None,
    time: ui.Time = None,
    directory: Annotated[Path, typer.Option("--out", help="Directory of report.html.")] = Path("audit"),
    size: Annotated[
        str, typer.Option("--preset", help="quick (under a minute), default (a few minutes) or full (hours).")
    ] = "default",
    preprocessing: ui.Preprocessing = "auto",
    max_rows: Annotated[
        int | None, typer.Option(help="Largest number of rows to use; by default the preset's.", min=10)
    ] = None,
    seed: ui.Seed = 0,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write every figure as SVG and PDF, into OUT/figures.")
    ] = False,
    json: ui.Json = False,
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
    with ui.progress_bar(json) as progress:
        roles = {"target": target, "task": task, "drop": ui.split_names(drop), "group": group, "time": time}
        given = {name: value for name, value in roles.items() if value}
        load = ", ".join([repr(data), *(f"{name}={value!r}" for name, value in given.items())])
        dataset = datasets.load(data, **given)  # type: ignore[arg-type]
        result = run_audit(dataset, settings, load=f"rf.datasets.load({load})", progress=progress)
        shown = audit_page(result)
        page = write_page(shown, directory / "report.html")
        drawn = write_figures(shown, directory / "figures") if figures else ()
    if json:
        ui.print_json({**result.as_dict(), "page": str(page), "figures": [str(path) for path in drawn]})
        return
    _show(result, page)
    if drawn:
        ui.out().print(f"Figures as SVG and PDF: [bold]{escape(str(directory / 'figures'))}[/bold]", soft_wrap=True)


def _show(result: Audit, page: Path) -> None:
    from ridgeformer.core.words import show_score

    console, task = ui.out(), result.data.dataset.task
    console.print(f"\n[bold]Audit of {escape(result.data.dataset.name)}[/bold]")
    for note in result.data.notes:
        console.print(f"- {note}", markup=False, style="dim")
    console.print()
    for sentence in result.sentences:
        lead, _, rest = sentence.partition(": ")
        console.print(f"• [bold]{escape(lead)}:[/bold] {escape(rest)}\n")
    rows = [(fit.name, show_score(fit.test_score, task), show_score(fit.train_score, task)) for fit in result.fits]
    console.print(ui.plain_table(("method", "held out", "training"), rows, right=("held out", "training")))
    console.print("\nTo repeat the score of the kernel of attention:\n", style="dim")
    console.print(result.snippet, markup=False, soft_wrap=True, style="dim")
    console.print(f"\n{sum(result.seconds.values()):.0f} s", style="dim")
    console.print(f"The page with plots: [bold]{escape(str(page))}[/bold]", soft_wrap=True)
