"""`ridgeformer influence`: which training points made a prediction, and how firm that answer is."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.cli.console import Json, out, print_json
from ridgeformer.cli.regime import named_architecture
from ridgeformer.datasets import Dataset
from ridgeformer.influence.answer import Answer, Point, ask
from ridgeformer.influence.network_answer import ROWS, ask_network
from ridgeformer.regime import Training
from ridgeformer.views.influence_page import influence_page
from ridgeformer.views.page import require_place, write_page
from ridgeformer.views.terminal import blocks, side_by_side

__all__ = ["influence"]


def influence(
    data: Annotated[str, typer.Argument(help="A dataset's name, or a .csv, .parquet, .npz or .npy file.")],
    query: Annotated[int, typer.Option(help="The row to explain, counted from 0; it is held out of the fit.")],
    target: Annotated[str | None, typer.Option(help="For a file: the column or key to predict.")] = None,
    points: Annotated[int, typer.Option(help="How many helpful and harmful points to name.", min=1)] = 5,
    preprocessing: Annotated[str, typer.Option(help="auto, unit_rows or standardise.")] = "auto",
    max_rows: Annotated[
        int | None, typer.Option(help="Rows used at most; more are sampled. 2000, or 300 with --model.", min=10)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of every random step.", min=0)] = 0,
    model: Annotated[
        str | None,
        typer.Option(help="Ask a network by its tangent kernel: mlp-attn, relu, qkv, or module:factory of your own."),
    ] = None,
    width: Annotated[int, typer.Option(help="With --model: neurons of the network.", min=1)] = 1024,
    scale: Annotated[float, typer.Option(help="With --model: of the weights at initialisation.")] = 1.0,
    epochs: Annotated[int, typer.Option(help="With --model: passes through the rows; 0 trains nothing.", min=0)] = 300,
    method: Annotated[str, typer.Option(help="With --model: descent, flow or adam.")] = "descent",
    loss: Annotated[str, typer.Option(help="With --model: mse or cross_entropy.")] = "mse",
    rate: Annotated[float | None, typer.Option(help="With --model: learning rate; found without it.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page, with images.")] = None,
    json: Json = False,
) -> None:
    """Say which training points made the prediction at one row, and how firm that answer is.

    Example: ridgeformer influence digits --query 17
    Example: ridgeformer influence digits --query 17 --model mymodule:factory --width 512
    """
    architecture = None if model is None else named_architecture(model, scale=scale)
    dataset = datasets.load(data, target=target)
    if html is not None:
        require_place(html)
    rows = max_rows or (Settings().max_rows if model is None else ROWS)
    settings = Settings(seed=seed, max_rows=rows, preprocessing=preprocessing)
    if architecture is None:
        answer = ask(dataset, query, settings, points=points)
    else:
        training = Training(method, loss, epochs=epochs, l2=0.0)
        answer = ask_network(
            dataset, query, architecture, settings, model=model or "", width=width, training=training, rate=rate,
            points=points,
        )  # fmt: skip
    page = None if html is None else write_page(influence_page(answer, dataset), html)
    if json:
        print_json(answer.as_dict() | {"page": page and str(page)})
        return
    _show(answer, dataset)
    if page is not None:
        out().print(f"\nWritten to {page}.", markup=False, soft_wrap=True)


def _show(answer: Answer, dataset: Dataset) -> None:
    console = out()
    for sentence in answer.sentences:
        console.print(f"• {sentence}\n", markup=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("helpful", "label", "score", "", "harmful", "label", "score"):
        table.add_column(head, justify="right" if head == "score" else "left")
    for left, right in zip_longest(_cells(answer.helpful), _cells(answer.harmful), fillvalue=("", "", "")):
        table.add_row(*left, "", *right)
    console.print(table)
    if dataset.image_shape is not None:
        shown = [(answer.row, f"row {answer.row}: {answer.truth}, asked")]
        sides = zip_longest(_titled(answer.helpful, "helps"), _titled(answer.harmful, "harms"))
        shown += [one for pair in sides for one in pair if one is not None]
        pictures = [blocks(dataset.X[row].reshape(dataset.image_shape)) for row, _ in shown]
        print("\n" + side_by_side([title for _, title in shown], pictures, console.width))
    for note in answer.notes:
        console.print(note, markup=False, style="dim")


def _cells(points: tuple[Point, ...]) -> list[tuple[str, str, str]]:
    return [(f"row {point.row}", point.label, f"{point.score:.3g}") for point in points]


def _titled(points: tuple[Point, ...], what: str) -> list[tuple[int, str]]:
    return [(point.row, f"row {point.row}: {point.label}, {what}") for point in points]
