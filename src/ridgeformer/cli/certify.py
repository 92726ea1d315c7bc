"""`ridgeformer certify`: how near a saved model's answers on a dataset are proved to be to exact ridge regression."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ridgeformer.cli.console import Json, out, print_json
from ridgeformer.cli.models import Data, Directory, MaxRows, Preprocessing, Seed, Target, prepare_for
from ridgeformer.compiler import load_model
from ridgeformer.compiler.certificate import certify as run_certify

__all__ = ["certify"]


def certify(
    directory: Directory,
    data: Data,
    target: Target = None,
    preprocessing: Preprocessing = "auto",
    max_rows: MaxRows = 300,
    seed: Seed = 0,
    tolerance: Annotated[
        float, typer.Option(help="Largest proved distance that counts as accurate, relative to the largest prediction.")
    ] = 0.01,
    curves: Annotated[bool, typer.Option(help="With --json: add what was measured at every step.")] = False,
    json: Json = False,
) -> None:
    """Prove how near a compiled model is to exact ridge regression; exit code 1 if that or a check fails.

    Example: ridgeformer certify model digits
    """
    model = load_model(directory)
    prepared = prepare_for(model, data, target, preprocessing, max_rows, seed)
    certificate = run_certify(model, prepared.X, prepared.y, prepared.Xt, tolerance=tolerance)
    if json:
        facts: dict[str, Any] = {"data": prepared.dataset.name, **certificate.as_dict()}
        print_json(facts if curves else {key: value for key, value in facts.items() if key != "curves"})
    else:
        verdict, _, rest = str(certificate).partition("\n")
        out().print(verdict, style="bold green" if certificate.holds else "bold red", markup=False, soft_wrap=True)
        out().print(rest, markup=False, soft_wrap=True)
        for note in prepared.notes:
            out().print(f"[dim]{note}[/dim]")
    if not certificate.holds:
        raise typer.Exit(1)
