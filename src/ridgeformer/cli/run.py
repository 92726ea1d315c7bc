"""`ridgeformer run`: a saved model's answers on a dataset."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ridgeformer.auditing.answer import show_score
from ridgeformer.auditing.prepare import Prepared
from ridgeformer.cli.console import Json, out, print_json
from ridgeformer.cli.models import Data, Directory, MaxRows, Preprocessing, Seed, Target, prepare_for
from ridgeformer.compiler import CompiledTransformer, load_model
from ridgeformer.compiler.certificate.problem import pose_true
from ridgeformer.views.viewer import few_rows, trace_view, write_viewer

__all__ = ["run"]


def run(
    directory: Directory,
    data: Data,
    target: Target = None,
    preprocessing: Preprocessing = "auto",
    max_rows: MaxRows = 300,
    seed: Seed = 0,
    html: Annotated[Path | None, typer.Option(help="Write a page to watch it work on a few of the rows.")] = None,
    json: Json = False,
) -> None:
    """Run a compiled model: training rows are its supports, held-out rows its queries.

    Example: ridgeformer run model digits --html trace.html
    """
    model = load_model(directory)
    prepared = prepare_for(model, data, target, preprocessing, max_rows, seed)
    facts = _facts(model, prepared)
    if html is not None:
        facts |= _page(model, prepared, html, seed)
    print_json(facts) if json else _show(facts)


def _facts(model: CompiledTransformer, data: Prepared) -> dict[str, Any]:
    begin = time.perf_counter()
    with torch.no_grad():
        outputs = model(data.X, data.y, data.Xt).to(torch.float64)
    seconds = time.perf_counter() - begin
    exact = pose_true(model, data.X, data.y, data.Xt).f
    size = float(exact.square().mean().sqrt())
    worst = float((outputs - exact).abs().max())
    return {
        "data": data.dataset.name,
        "notes": list(data.notes),
        "task": data.dataset.task,
        "program": model.program.name,
        "steps": model.spec.steps,
        "supports": len(data.X),
        "queries": len(data.Xt),
        "held_out_score": data.score(outputs),
        "direct_score": data.score(exact),
        "largest_difference": worst,
        "typical_output": size,
        "same_decisions": _same(data, outputs, exact),
        "seconds": seconds,
    }


def _page(model: CompiledTransformer, data: Prepared, path: Path, seed: int) -> dict[str, Any]:
    """Write the trace viewer of the model on a sample of the rows; say where it is and what it shows."""
    X, y, Xq = few_rows(data.X, data.y, data.Xt, seed=seed)
    view = trace_view(model, X, y, Xq, name=data.dataset.name)
    return {"page": str(write_viewer(view, path)), "watched": [len(X), len(Xq)]}


def _same(data: Prepared, outputs: torch.Tensor, exact: torch.Tensor) -> float | None:
    """Return the share of queries for which both name the same class, or None for regression."""
    if data.labels is None:
        return None
    return float(((outputs + data.mean).argmax(1) == (exact + data.mean).argmax(1)).double().mean())


def _show(facts: dict[str, Any]) -> None:
    console = out()
    score = show_score(facts["held_out_score"], facts["task"])
    console.print(f"\n[bold]The transformer reaches {score} on held-out rows.[/bold]")
    lines = {
        "the direct solve reaches": show_score(facts["direct_score"], facts["task"]),
        "largest difference between them": f"{facts['largest_difference']:.1e}, outputs being about "
        f"{facts['typical_output']:.2g}",
        "supports and queries": f"{facts['supports']} and {facts['queries']}",
        "steps": f"{facts['steps']} of {facts['program']}, {facts['seconds']:.2f} s",
    }
    if facts["same_decisions"] is not None:
        lines["same class as the direct solve"] = f"{100 * facts['same_decisions']:.1f} %"
    for name, value in lines.items():
        console.print(f"  {name:<34} {value}", soft_wrap=True, markup=False)
    for note in facts["notes"]:
        console.print(f"  [dim]{note}[/dim]")
    if "page" in facts:
        supports, queries = facts["watched"]
        page = f"Watch it on {supports} supports and {queries} queries: {facts['page']}"
        console.print(page, soft_wrap=True, markup=False)
