"""`ridgeformer regime` and `ridgeformer influence`: is a network a kernel machine, and which rows made a prediction?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import importing
from ridgeformer.cli.console import (
    Data,
    Html,
    Json,
    Preprocessing,
    Seed,
    Target,
    out,
    plain_table,
    print_json,
    progress_bar,
)
from ridgeformer.core.errors import InputError

if TYPE_CHECKING:
    from ridgeformer.datasets import Dataset
    from ridgeformer.influence.answer import Answer, Point
    from ridgeformer.influence.suspects import Suspects
    from ridgeformer.regime import Architecture, CustomArchitecture, RegimeAnswer

__all__ = ["influence", "regime"]


def regime(
    data: Data,
    model: Annotated[str, typer.Option(help="mlp-attn, relu, qkv, or module:factory of your own.")] = "mlp-attn",
    width: Annotated[int, typer.Option(help="Neurons of the network that is trained.", min=1)] = 1024,
    rows: Annotated[int, typer.Option(help="Training rows drawn.", min=2)] = 200,
    test_rows: Annotated[int, typer.Option(help="Test rows drawn.", min=1)] = 100,
    widest: Annotated[int, typer.Option(help="Widest kernel at initialisation.", min=1000)] = 1_000_000,
    scale: Annotated[float, typer.Option(help="Of the weights at initialisation; 1 is the theory's.")] = 0.01,
    layers: Annotated[int, typer.Option(help="Attention layers.", min=1)] = 1,
    rank: Annotated[int | None, typer.Option(help="mlp-attn: number of leading attention directions kept.")] = None,
    heads: Annotated[int, typer.Option(help="qkv: attention heads.", min=1)] = 1,
    method: Annotated[str, typer.Option(help="descent, flow or adam.")] = "descent",
    loss: Annotated[str, typer.Option(help="mse or cross_entropy.")] = "mse",
    epochs: Annotated[int, typer.Option(help="Passes through the rows.", min=0)] = 300,
    rate: Annotated[float | None, typer.Option(help="Learning rate; found from the network without it.")] = None,
    l2: Annotated[float, typer.Option(help="Penalty on the weights.")] = 0.0,
    ridge: Annotated[float | None, typer.Option(help="Of the whitened criterion; chosen without it.")] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Train in single precision: half the memory.")] = False,
    target: Target = None,
    seed: Seed = 0,
    html: Html = None,
    json: Json = False,
) -> None:
    """Say whether a network is a kernel machine on a dataset, with the numbers behind the answer.

    Example: ridgeformer regime digits --model mlp-attn --width 1024 --scale 1
    """
    with importing():
        import torch

        from ridgeformer import datasets
        from ridgeformer.regime import Training, answer_regime
        from ridgeformer.views.page import require_place, write_page
        from ridgeformer.views.regime_page import regime_page

    architecture = _architecture(model, scale=scale, layers=layers, rank=rank, heads=heads)
    training = Training(method, loss, epochs=epochs, l2=l2)
    dataset = datasets.load(data, target=target)
    split = datasets.Split.for_networks(dataset, rows=rows, test_rows=test_rows, seed=seed, at_most=True)
    if html is not None:
        require_place(html)
    with progress_bar(json) as progress:
        found = answer_regime(
            split, architecture, model=model, width=width, widest=widest, ridge=ridge, training=training, rate=rate,
            seed=seed, dtype=torch.float32 if float32 else torch.float64,
            progress=progress,
        )  # fmt: skip
    page = None if html is None else write_page(regime_page(found), html)
    if json:
        print_json(found.as_dict() | {"page": page and str(page)})
        return
    _show_regime(found)
    if page is not None:
        out().print(f"\nWritten to {page}.", markup=False, soft_wrap=True)


def _architecture(model: str, **options: Any) -> Architecture | CustomArchitecture:
    """Return the network of that name; "module:factory" is looked for in the working directory first."""
    from ridgeformer.regime import Architecture, CustomArchitecture
    from ridgeformer.studies.task import find_object

    if ":" not in model:
        return Architecture(model, **options)
    with _working_directory():
        try:
            factory = find_object(model)
        except SyntaxError as error:
            raise InputError(f"{model!r} cannot be imported: {error}.") from None
    if not callable(factory):
        raise InputError(
            f"{model!r} is a {type(factory).__name__}; a function (features, outputs, width) was expected."
        )
    return CustomArchitecture(factory)


@contextmanager
def _working_directory() -> Iterator[None]:
    """Let modules of the working directory be imported."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _show_regime(found: RegimeAnswer) -> None:
    from ridgeformer.claims import Plot
    from ridgeformer.views.regime_page import DISTANCES, criteria_table, spectra_table, widths_table
    from ridgeformer.views.terminal import draw_curves

    console = out()
    console.print(f"\n[bold]{found.sentences[0]}[/bold]\n", soft_wrap=True)
    for sentence in found.sentences[1:]:
        console.print(f"• {sentence}\n", markup=False)
    for shown, table in (
        (found.criteria, criteria_table),
        (found.at_widths, widths_table),
        (True, spectra_table),
    ):
        if shown:
            printed = table(found)
            console.print(plain_table(printed.head, printed.rows))
            console.print()
        if shown and table is widths_table:
            widths = [width for width, _ in found.at_widths]
            curves = {name: [getattr(one, name) for _, one in found.at_widths] for name in DISTANCES}
            plot = Plot("width", "distance from the limit", widths, curves, log="xy")
            console.print(draw_curves(plot, min(console.width, 80)) + "\n", markup=False)
    for note in found.notes:
        console.print(note, style="dim", markup=False)
    console.print(f"{found.seconds:.1f} s", style="dim")


def influence(
    data: Data,
    query: Annotated[
        int | None, typer.Option(help="The row to explain, counted from 0; it is held out of the fit.")
    ] = None,
    suspects: Annotated[
        bool, typer.Option("--suspects", help="Instead, name the rows whose own target the others contradict most.")
    ] = False,
    target: Target = None,
    points: Annotated[int, typer.Option(help="How many helpful and harmful points to name.", min=1)] = 5,
    preprocessing: Preprocessing = "auto",
    max_rows: Annotated[
        int | None, typer.Option(help="Rows used at most; more are sampled. 2000, or 300 with --model.", min=10)
    ] = None,
    seed: Seed = 0,
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
    html: Html = None,
    json: Json = False,
) -> None:
    """Say which training points made the prediction at one row, and how robust that answer is.

    Example: ridgeformer influence digits --query 17
    Example: ridgeformer influence digits --suspects
    Example: ridgeformer influence digits --query 17 --model mymodule:factory --width 512
    """
    with importing():
        from ridgeformer import datasets
        from ridgeformer.influence.answer import ask
        from ridgeformer.influence.network_answer import ROWS, ask_network
        from ridgeformer.influence.suspects import ask_suspects
        from ridgeformer.regime import Training
        from ridgeformer.views.influence_page import influence_page
        from ridgeformer.views.page import require_place, write_page

    if suspects == (query is not None):
        raise InputError("give --query ROW to explain a prediction, or --suspects to find labels to check, not both.")
    architecture = None if model is None else _architecture(model, scale=scale)
    dataset = datasets.load(data, target=target)
    if query is None:
        options = {"preprocessing": preprocessing, "seed": seed, "points": points}
        _show_suspects(ask_suspects(dataset, max_rows=max_rows or 2000, **options), dataset, json)  # type: ignore[arg-type]
        return
    if html is not None:
        require_place(html)
    if architecture is None:
        answer = ask(dataset, query, max_rows=max_rows or 2000, preprocessing=preprocessing, seed=seed, points=points)
    else:
        training = Training(method, loss, epochs=epochs, l2=0.0)
        answer = ask_network(
            dataset, query, architecture, model=model or "", width=width, training=training, rate=rate,
            max_rows=max_rows or ROWS, preprocessing=preprocessing, seed=seed, points=points,
        )  # fmt: skip
    page = None if html is None else write_page(influence_page(answer, dataset), html)
    if json:
        print_json(answer.as_dict() | {"page": page and str(page)})
        return
    _show_influence(answer, dataset)
    if page is not None:
        out().print(f"\nWritten to {page}.", markup=False, soft_wrap=True)


def _show_suspects(found: Suspects, dataset: Dataset, json: bool) -> None:
    from ridgeformer.views.terminal import blocks, side_by_side

    if json:
        print_json(found.as_dict())
        return
    console = out()
    for sentence in found.sentences:
        console.print(f"• {sentence}\n", markup=False)
    rows = [(f"row {one.row}", one.label, one.predicted, f"{one.margin:.3g}") for one in found.points]
    console.print(plain_table(("row", "it says", "the others say", "by"), rows, right=("by",)))
    if dataset.image_shape is not None and found.points:
        titles = [f"row {one.row}: {one.label}?" for one in found.points]
        pictures = [blocks(dataset.X[one.row].reshape(dataset.image_shape)) for one in found.points]
        print("\n" + side_by_side(titles, pictures, console.width))
    for note in found.notes:
        console.print(note, markup=False, style="dim")


def _show_influence(answer: Answer, dataset: Dataset) -> None:
    from ridgeformer.views.terminal import blocks, side_by_side

    console = out()
    for sentence in answer.sentences:
        console.print(f"• {sentence}\n", markup=False)
    pairs = zip_longest(_cells(answer.helpful), _cells(answer.harmful), fillvalue=("", "", ""))
    heads = ("helpful", "label", "score", "", "harmful", "label", "score")
    console.print(plain_table(heads, [(*left, "", *right) for left, right in pairs], right=("score",)))
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
