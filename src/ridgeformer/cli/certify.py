"""`ridgeformer certify`: what is certain about a saved model's answers on a dataset."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ridgeformer.cli.console import Json, out, print_json
from ridgeformer.cli.models import Data, Directory, MaxRows, Preprocessing, Seed, Target, prepare_for
from ridgeformer.compiler import load
from ridgeformer.compiler.certificate import certify as run_certify

__all__ = ["certify"]


def certify(
    directory: Directory,
    data: Data,
    target: Target = None,
    preprocessing: Preprocessing = "auto",
    max_rows: MaxRows = 300,
    seed: Seed = 0,
    curves: Annotated[bool, typer.Option(help="With --json: add what was measured at every step.")] = False,
    json: Json = False,
) -> None:
    """Certify a compiled model on a dataset; exit code 1 if a check does not hold.

    Example: ridgeformer certify model digits
    """
    model = load(directory)
    prepared = prepare_for(model, data, target, preprocessing, max_rows, seed)
    certificate = run_certify(model, prepared.X, prepared.y, prepared.Xt)
    if json:
        facts: dict[str, Any] = {"data": prepared.dataset.name, **certificate.as_dict()}
        print_json(facts if curves else {key: value for key, value in facts.items() if key != "curves"})
    else:
        out().print(str(certificate), markup=False, soft_wrap=True)
        for note in prepared.notes:
            out().print(f"[dim]{note}[/dim]")
    if not certificate.holds:
        raise typer.Exit(1)
