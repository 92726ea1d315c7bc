"""`ridgeformer circuits`: make known circuits, answer with a baseline, score answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing

if TYPE_CHECKING:
    from ridgeformer.circuits import Score

__all__ = ["circuits"]

circuits = typer.Typer(no_args_is_help=True, help="Known circuits, for testing interpretability methods.")

Family = Annotated[Path, typer.Argument(metavar="DIR", help="A directory made by `ridgeformer circuits make`.")]
Only = Annotated[str, typer.Option(help="Circuits whose names contain this.")]


@circuits.command("make")
def make(
    into: Annotated[Path, typer.Option("--out", help="Where the circuits go, a directory each.")],
    seed: Annotated[int, typer.Option(help="Of the family.", min=0)] = 0,
    limit: Annotated[int | None, typer.Option(help="Make the first ones only.", min=1)] = None,
) -> None:
    """Make 64 models whose circuits are known: exported to TransformerLens, with ground truth, data and a card each.

    Example: ridgeformer circuits make --out known
    """
    with importing():
        from ridgeformer.circuits import load_names, save_family

    save_family(into, seed, lambda name: ui.out().print(f"  {name}", markup=False, highlight=False), limit)
    ui.out().print(f"\n[bold]{len(load_names(into))} known circuits in {into}[/bold]", soft_wrap=True)


@circuits.command("answer")
def answer(
    directory: Family,
    into: Annotated[Path, typer.Option("--out", help="Where the answers go, as JSON.")],
    method: Annotated[
        str, typer.Option(help="random, weight norm, activity, composition, gradient attribution, activation patching.")
    ],
    only: Only = "",
) -> None:
    """Let a baseline answer which heads, gated sublayers and edges carry data to the prediction.

    Example: ridgeformer circuits answer known --method "gradient attribution" --out answers.json
    """
    with importing():
        from ridgeformer.circuits import METHODS, load_circuit, save_answers
        from ridgeformer.core.errors import unknown_name

    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    answers = {name: METHODS[method](load_circuit(directory, name)) for name in _names(directory, only)}
    save_answers(into, answers, method)
    ui.out().print(f"\n[bold]answers to {len(answers)} circuits in {into}[/bold]", soft_wrap=True)


@circuits.command("score")
def score(
    directory: Family,
    answers: Annotated[Path, typer.Argument(help="A JSON file of answers.")],
    json: ui.Json = False,
) -> None:
    """Score answers: ROC AUC, precision and recall of nodes and edges, and how well probes and patches work.

    Example: ridgeformer circuits score known answers.json
    """
    with importing():
        from ridgeformer.circuits import load_answers, load_circuit, mean_score
        from ridgeformer.circuits import score as grade

    found: dict[str, Score] = {}
    hidden = set()
    for name, given in load_answers(answers).items():
        known = load_circuit(directory, name)
        found[name] = grade(known, given)
        hidden |= {name} if known.recipe.hidden else set()
    halves = {
        "plain": [one for name, one in found.items() if name not in hidden],
        "rotated and distracted": [one for name, one in found.items() if name in hidden],
    }
    means = {half: mean_score(scores) for half, scores in halves.items() if scores}
    if json:
        each = {name: mean_score([one]) for name, one in found.items()}
        ui.print_json({"circuits": len(found), "means": means, "each": each})
        return
    for half, figures in means.items():
        ui.out().print(f"\n[bold]{half}: {len(halves[half])} circuits[/bold]")
        ui.print_facts({name: f"{value:.3f}" for name, value in figures.items() if value is not None}, 18)


def _names(directory: Path, only: str) -> list[str]:
    from ridgeformer.circuits import load_names
    from ridgeformer.core.errors import InputError

    found = [name for name in load_names(directory) if only in name]
    if not found:
        raise InputError(f"no circuit in {directory} has {only!r} in its name: leave --only out, or give another part.")
    return found
