"""`ridgeformer demo`: one page, three transformers, points to drag."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("ridgeformer-demo.html"),
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """Write one page on which you drag points and three transformers answer, and open it in a browser.

    The page holds the weights and runs the forward passes itself; it needs no server and makes no request.

    Example: ridgeformer demo --out demo.html --no-open
    """
    with importing():
        from ridgeformer.views.demo import write_demo
        from ridgeformer.views.page import require_place

    require_place(out)
    path = write_demo(out).resolve()
    ui.out().print(f"Written to {path} ({path.stat().st_size / 1000:.0f} kB).", markup=False, soft_wrap=True)
    if browser and not webbrowser.open(path.as_uri()):
        ui.out().print("No browser could be started: open that file in one.", markup=False)
