"""What every command shares: where text goes, how progress is shown, how JSON is printed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["Json", "out", "print_json", "progress_bar"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def out() -> Console:
    """Return a console on standard output as it is now, so that tests and pipes see it."""
    return Console(file=sys.stdout, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON; numbers JSON cannot hold become null."""
    print(json.dumps(_finite(value), indent=2, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[int, int | None, str], None]]:
    """Yield a function (done, total, what) that draws a bar on standard error while there is a terminal."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def update(done: int, total: int | None, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what)

        yield update
