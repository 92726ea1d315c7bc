"""`ridgeformer regime`: is this network a kernel machine on these data?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from ridgeformer import datasets, views
from ridgeformer.claims import Plot
from ridgeformer.cli.console import Json, out, print_json, progress_bar
from ridgeformer.cli.models import Data, Seed, Target
from ridgeformer.core.errors import InputError
from ridgeformer.regime import Architecture, CustomArchitecture, RegimeAnswer, Training, answer_regime
from ridgeformer.studies.task import find_object
from ridgeformer.views.regime_page import DISTANCES, criteria_table, spectra_table, widths_table, write_regime_page
from ridgeformer.views.terminal_plot import draw
from ridgeformer.views.writing import require_place

__all__ = ["named_architecture", "regime"]


def regime(
    data: Data,
    model: Annotated[str, typer.Option(help="mlp-attn, relu, qkv, or module:factory of your own.")] = "mlp-attn",
    width: Annotated[int, typer.Option(help="Neurons of the network that is trained.", min=1)] = 1024,
    rows: Annotated[int, typer.Option(help="Training rows drawn.", min=2)] = 200,
    test_rows: Annotated[int, typer.Option(help="Test rows drawn.", min=1)] = 100,
    widest: Annotated[int, typer.Option(help="Widest kernel at initialisation.", min=1000)] = 1_000_000,
    scale: Annotated[float, typer.Option(help="Of the weights at initialisation; 1 is the theory's.")] = 0.01,
    layers: Annotated[int, typer.Option(help="Attention layers.", min=1)] = 1,
    rank: Annotated[int | None, typer.Option(help="mlp-attn: keep the top so many directions.")] = None,
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
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page, with plots.")] = None,
    json: Json = False,
) -> None:
    """Say whether a network is a kernel machine on a dataset, with the numbers behind the answer.

    Example: ridgeformer regime digits --model mlp-attn --width 1024 --scale 1
    """
    architecture = named_architecture(model, scale=scale, layers=layers, rank=rank, heads=heads)
    training = Training(method, loss, epochs=epochs, l2=l2)
    dataset = datasets.load(data, target=target)
    if html is not None:
        require_place(html)
    with progress_bar(json) as progress:
        found = answer_regime(
            dataset, architecture, model=model, width=width, rows=rows, test_rows=test_rows, widest=widest,
            ridge=ridge, training=training, rate=rate, seed=seed, dtype=torch.float32 if float32 else torch.float64,
            progress=progress,
        )  # fmt: skip
    page = None if html is None else write_regime_page(found, html)
    if json:
        print_json(found.as_dict() | {"page": page and str(page)})
        return
    _show(found)
    if page is not None:
        out().print(f"\nWritten to {page}.", markup=False, soft_wrap=True)


def named_architecture(model: str, **options: Any) -> Architecture | CustomArchitecture:
    """Return the network of that name; "module:factory" is looked for in the working directory first."""
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


def _show(found: RegimeAnswer) -> None:
    console = out()
    console.print(f"\n[bold]{found.sentences[0]}[/bold]\n", soft_wrap=True)
    for sentence in found.sentences[1:]:
        console.print(f"• {sentence}\n", markup=False)
    if found.criteria:
        _print_table(console, criteria_table(found))
    if found.at_widths:
        _print_table(console, widths_table(found))
        _show_plot(console, found)
    _print_table(console, spectra_table(found))
    for note in found.notes:
        console.print(note, style="dim", markup=False)
    console.print(f"{found.seconds:.1f} s", style="dim")


def _show_plot(console: Console, found: RegimeAnswer) -> None:
    widths = [width for width, _ in found.at_widths]
    curves = {name: [getattr(one, name) for _, one in found.at_widths] for name in DISTANCES}
    plot = Plot("width", "distance from the limit", widths, curves, log="xy")
    console.print(draw(plot, min(console.width, 80)) + "\n", markup=False)


def _print_table(console: Console, shown: views.Table) -> None:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in shown.head:
        table.add_column(name)
    for row in shown.rows:
        table.add_row(*row)
    console.print(table)
    console.print()
