"""`ridgeformer explore`: a page on which to watch a transformer solve a regression."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeformer.cli.console import out
from ridgeformer.core.errors import RidgeformerError

__all__ = ["explore"]


def explore(
    host: Annotated[str, typer.Option(help="Where to listen; the default is this computer alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="On which port; 0 takes any that is free.", min=0, max=65535)] = 8050,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
) -> None:
    """Explore in a browser: move ridge, depth and width, draw points, look into the stream.

    Example: ridgeformer explore --port 8050
    """
    try:
        from ridgeformer.views.explorer.server import serve  # Dash is an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("dash", "flask", "werkzeug"):
            raise
        raise RidgeformerError(
            f"the explorer needs {error.name}, which is not installed: pip install 'ridgeformer[app]'."
        ) from None
    serve(host, port, browser, lambda line: out().print(line, markup=False, soft_wrap=True))
