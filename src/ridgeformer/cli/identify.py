"""`ridgeformer identify`: which algorithm does an in-context learner run?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import InputError

__all__ = ["identify"]


def identify(
    model: Annotated[
        str,
        typer.Argument(
            help="module:factory of your own (importing it runs your code), or the directory of a compiled model."
        ),
    ],
    features: Annotated[int | None, typer.Option(help="Features of a row; a compiled model knows them.", min=1)] = None,
    tasks: Annotated[
        str, typer.Option(help="separating, standard, optimised, or module:function of your own distribution.")
    ] = "separating",
    candidates: Annotated[
        list[str] | None, typer.Option(help="Families to compare, several by commas; default is all of them.")
    ] = None,
    layers: Annotated[list[str] | None, typer.Option(help="Submodules whose outputs are read; for an adapter.")] = None,
    controls: Annotated[
        bool,
        typer.Option("--controls/--no-controls", help="Run null models, a compiled control and the power analysis."),
    ] = True,
    seed: ui.Seed = 0,
    html: ui.Html = None,
    json: ui.Json = False,
) -> None:
    """Say which regression algorithm an in-context learner runs, or why that cannot be said.

    The factory takes no arguments and returns a function (X, y, Xq), a compiled or exported model, or an adapter of
    ridgeformer.identification.adapters around a torch module. It is imported from the working directory, which runs it:
    name only code that you trust.

    Example: ridgeformer identify mymodel:factory --features 5 --html page.html
    """
    with importing():
        from ridgeformer.identification import identify as ask
        from ridgeformer.views.identification_page import identification_page
        from ridgeformer.views.page import require_place, write_page

    if html is not None:
        require_place(html)
    design: Any = ui.find_named(tasks) if ":" in tasks else tasks
    with ui.progress_bar(json) as progress:
        found = ask(
            _model(model), design, ui.split_names(candidates) or "default",
            None if layers is None else ui.split_names(layers), seed, features=features,
            controls=controls, progress=progress,
        )  # fmt: skip
    if html is not None:
        write_page(identification_page(found), html)
    if json:
        ui.print_json(found.as_dict() | {"page": html and str(html)})
        return
    console = ui.out()
    console.print(f"\n[bold]{found.sentences[0]}[/bold]\n", soft_wrap=True)
    ui.print_sentences(found.sentences[1:])
    nearest = sorted(found.verdict.coordinates, key=lambda one: one.error)[:8]
    rows = [
        (one.candidate.title, f"{one.error:.2g}", f"{one.value:+.2f}", "yes" if one.excluded else "no")
        for one in nearest
    ]
    if found.verdict.best is not None:
        rows.insert(0, (found.verdict.best.title, f"{found.verdict.unexplained:.2g}", "0", "nearest"))
    console.print(
        ui.plain_table(
            ("candidate", "unexplained", "coordinate", "excluded"), rows, right=("unexplained", "coordinate")
        )
    )
    ui.print_notes([f"{found.candidates} candidates, {found.tasks.count} tasks, seed {seed}, {found.seconds:.1f} s"])
    ui.print_page(html)


def _model(name: str) -> Any:
    if ":" not in name:
        from ridgeformer.compiler import load_model

        if not Path(name).is_dir():
            raise InputError(f"{name!r} is neither module:factory nor the directory of a compiled model.")
        return load_model(name)
    factory = ui.find_named(name)
    if not callable(factory):
        raise InputError(
            f"{name!r} is a {type(factory).__name__}; a function without arguments that returns a model was expected."
        )
    return factory()
