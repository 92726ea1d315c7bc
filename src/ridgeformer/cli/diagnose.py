"""`ridgeformer regime` and `influence`: how far to trust a kernel and a prediction."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import InputError

if TYPE_CHECKING:
    from ridgeformer.datasets import Dataset
    from ridgeformer.influence.answer import Answer
    from ridgeformer.influence.suspects import Suspects
    from ridgeformer.regime import Architecture, CustomArchitecture, RegimeAnswer
    from ridgeformer.views.parts import Table

__all__ = ["influence", "regime"]


def regime(
    data: ui.Data,
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
    target: ui.Target = None,
    seed: ui.Seed = 0,
    html: ui.Html = None,
    json: ui.Json = False,
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
    with ui.progress_bar(json) as progress:
        found = answer_regime(
            split, architecture, model=model, width=width, widest=widest, ridge=ridge, training=training, rate=rate,
            seed=seed, dtype=torch.float32 if float32 else torch.float64,
            progress=progress,
        )  # fmt: skip
    if html is not None:
        write_page(regime_page(found), html)
    if json:
        ui.print_json(found.as_dict() | {"page": html and str(html)})
        return
    _show_regime(found)
    ui.print_page(html)


def _architecture(model: str, **options: Any) -> Architecture | CustomArchitecture:
    """Return the network of that name; "module:factory" is looked for in the working directory first."""
    from ridgeformer.regime import Architecture, CustomArchitecture

    if ":" not in model:
        return Architecture(model, **options)
    factory = ui.find_named(model)
    if not callable(factory):
        raise InputError(
            f"{model!r} is a {type(factory).__name__}; a function (features, outputs, width) was expected."
        )
    return CustomArchitecture(factory)


def _show_regime(found: RegimeAnswer) -> None:
    from ridgeformer.claims import Plot
    from ridgeformer.views.regime_page import DISTANCES, criteria_table, spectra_table, widths_table
    from ridgeformer.views.terminal import draw_curves

    console = ui.out()
    console.print(f"\n[bold]{found.sentences[0]}[/bold]\n", soft_wrap=True)
    ui.print_sentences(found.sentences[1:])

    def show(table: Table) -> None:
        console.print(ui.plain_table(table.head, table.rows))
        console.print()

    if found.criteria:
        show(criteria_table(found))
    if found.at_widths:
        show(widths_table(found))
        widths = [width for width, _ in found.at_widths]
        curves = {name: [getattr(one, name) for _, one in found.at_widths] for name in DISTANCES}
        plot = Plot("width", "distance from the limit", widths, curves, log="xy")
        console.print(draw_curves(plot, min(console.width, 80)) + "\n", markup=False)
    show(spectra_table(found))
    ui.print_notes([*found.notes, f"{found.seconds:.1f} s"])


def influence(
    data: ui.Data,
    query: Annotated[
        int | None, typer.Option(help="The row to explain, counted from 0; it is held out of the fit.")
    ] = None,
    suspects: Annotated[
        bool, typer.Option("--suspects", help="Instead, name the rows whose own target the others contradict most.")
    ] = False,
    target: ui.Target = None,
    points: Annotated[int, typer.Option(help="How many helpful and harmful points to name.", min=1)] = 5,
    preprocessing: ui.Preprocessing = "auto",
    max_rows: Annotated[
        int | None, typer.Option(help="Rows used at most; more are sampled. 2000, or 300 with --model.", min=10)
    ] = None,
    seed: ui.Seed = 0,
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
    html: ui.Html = None,
    json: ui.Json = False,
) -> None:
    """Say which training points made the prediction at one row, and how robust that answer is.

    Example: ridgeformer influence digits --query 17
    Example: ridgeformer influence digits --suspects
    Example: ridgeformer influence digits --query 17 --model mymodule:factory --width 512
    """
    with importing():
        from ridgeformer import datasets
        from ridgeformer.influence.answer import ROWS, ask, ask_network
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
    if html is not None:
        write_page(influence_page(answer, dataset), html)
    if json:
        ui.print_json(answer.as_dict() | {"page": html and str(html)})
        return
    _show_influence(answer, dataset)
    ui.print_page(html)


def _show_suspects(found: Suspects, dataset: Dataset, json: bool) -> None:
    from ridgeformer.views.terminal import blocks, side_by_side

    if json:
        ui.print_json(found.as_dict())
        return
    console = ui.out()
    ui.print_sentences(found.sentences)
    rows = [(f"row {one.row}", one.label, one.predicted, f"{one.margin:.3g}") for one in found.points]
    console.print(ui.plain_table(("row", "it says", "the others say", "by"), rows, right=("by",)))
    if dataset.image_shape is not None and found.points:
        titles = [f"row {one.row}: {one.label}?" for one in found.points]
        pictures = [blocks(dataset.X[one.row].reshape(dataset.image_shape)) for one in found.points]
        print("\n" + side_by_side(titles, pictures, console.width))
    ui.print_notes(found.notes)


def _show_influence(answer: Answer, dataset: Dataset) -> None:
    from ridgeformer.views.terminal import blocks, side_by_side

    console = ui.out()
    ui.print_sentences(answer.sentences)
    cells = (
        [(f"row {point.row}", point.label, f"{point.score:.3g}") for point in points]
        for points in (answer.helpful, answer.harmful)
    )
    pairs = zip_longest(*cells, fillvalue=("", "", ""))
    heads = ("helpful", "label", "score", "", "harmful", "label", "score")
    console.print(ui.plain_table(heads, [(*left, "", *right) for left, right in pairs], right=("score",)))
    if dataset.image_shape is not None:
        shown = [(answer.row, f"row {answer.row}: {answer.truth}, asked")]
        for helpful, harmful in zip_longest(answer.helpful, answer.harmful):
            for point, effect in ((helpful, "helps"), (harmful, "harms")):
                if point is not None:
                    shown.append((point.row, f"row {point.row}: {point.label}, {effect}"))
        pictures = [blocks(dataset.X[row].reshape(dataset.image_shape)) for row, _ in shown]
        print("\n" + side_by_side([title for _, title in shown], pictures, console.width))
    ui.print_notes(answer.notes)
