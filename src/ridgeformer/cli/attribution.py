"""`ridgeformer attribution score`: how good attribution scores of any tool are, against exact refits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import DataFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["attribution"]

attribution = typer.Typer(no_args_is_help=True, help="Judge attribution scores of any tool against exact refits.")


@attribution.command()
def score(
    scores: Annotated[Path, typer.Argument(help="n x q scores: an .npy, or an .npz with the key scores.")],
    features: Annotated[
        Path, typer.Option(help="Frozen features: an .npz with the keys train (n x d) and query (q x d).")
    ],
    labels: Annotated[Path, typer.Option(help="Labels: an .npz with the keys train (n) and query (q).")],
    flipped: Annotated[
        Path | None, typer.Option(help="An .npy of training rows known to be mislabelled, for the recall.")
    ] = None,
    ridge: Annotated[float | None, typer.Option(help="Of the head; chosen by leave-one-out without it.")] = None,
    subsets: Annotated[int, typer.Option(help="Random subsets that are refitted.", min=3)] = 200,
    fraction: Annotated[float, typer.Option(help="Of the training rows that each subset keeps.")] = 0.5,
    seed: ui.Seed = 0,
    html: ui.Html = None,
    json: ui.Json = False,
) -> None:
    """Say how well scores predict what a ridge head on frozen features does when rows are removed.

    Example: ridgeformer attribution score scores.npz --features features.npz --labels labels.npz
    """
    with importing():
        from ridgeformer.datasets.npy import load_npy
        from ridgeformer.influence.attribution import judge_scores
        from ridgeformer.views.attribution_page import attribution_page, attribution_table
        from ridgeformer.views.page import require_place, write_page

    given = load_npy(scores) if scores.suffix == ".npy" else _arrays(scores, ("scores",))["scores"]
    rows, targets = _arrays(features, ("train", "query")), _arrays(labels, ("train", "query"))
    if html is not None:
        require_place(html)
    report = judge_scores(
        given, rows["train"], targets["train"], rows["query"], targets["query"], name=scores.name, ridge=ridge,
        subsets=subsets, fraction=fraction, flipped=None if flipped is None else load_npy(flipped), seed=seed,
    )  # fmt: skip
    if html is not None:
        write_page(attribution_page(report), html)
    if json:
        ui.print_json(_plain(asdict(report)) | {"page": html and str(html)})
        return
    ui.print_sentences(report.sentences)
    table = attribution_table(report)
    ui.out().print(ui.plain_table(table.head, table.rows, right=table.head[1:]))
    ui.print_page(html)


def _arrays(path: Path, keys: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return these arrays of an .npz.

    Raises:
        DataFileError: a key is missing, or the file is damaged.
    """
    from ridgeformer.datasets.npy import load_npz

    def choose(stored: list[str]) -> tuple[str, ...]:
        missing = [key for key in keys if key not in stored]
        if missing:
            raise DataFileError(
                f"{path} has no array {missing[0]!r} (it has {', '.join(stored) or 'none'}): save it with "
                f"numpy.savez(path, {', '.join(f'{key}=...' for key in keys)})."
            )
        return keys

    return load_npz(path, choose)


def _plain(value: Any) -> Any:
    """Return a record with its tensors as lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
