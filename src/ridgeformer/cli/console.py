"""What all commands share: options with one meaning everywhere, tables, progress and JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer.models import OptionInfo

from ridgeformer.core.errors import InputError, unknown_name


def known_data(value: str | None) -> str | None:
    """Check that a dataset's name is known, or that its file can be opened, before torch is imported."""
    from ridgeformer import datasets

    if value is not None:
        datasets.require_known(value)
    return value


def dataset_names(incomplete: str) -> list[str]:
    """Return the names of datasets that begin like this, for completion in a shell; files complete as usual.

    Example:
        >>> dataset_names("di")
        ['digits', 'diabetes']
    """
    from ridgeformer import datasets

    return [info.name for info in datasets.available() if info.name.startswith(incomplete)]


def one_of(kind: str, names: tuple[str, ...], what: str = "") -> OptionInfo:
    """Return an option whose value must be one of these names, which its help lists."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise unknown_name(kind, value, names)
        return value

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    words = f"{what}{', '.join(names[:-1])} or {names[-1]}."
    option: OptionInfo = typer.Option(help=words, callback=check, autocompletion=complete)
    return option


def split_names(given: list[str] | None) -> tuple[str, ...]:
    """Return the names in an option that may come several times, each with commas.

    Example:
        >>> split_names(["a,b", "c"])
        ('a', 'b', 'c')
    """
    return tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())


def centre_count(text: str | None) -> int | Literal["auto"] | None:
    """Return what --centres says: a number, auto, or None if it is not given.

    Example:
        >>> centre_count("300"), centre_count("auto")
        (300, 'auto')
    """
    if text is None:
        return None
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--centres is {text!r}; a whole number of at least 1, or auto, was expected.")
    return int(text)


def find_named(name: str) -> object:
    """Import what "module:name" names, which runs the module; it is looked for in the working directory first."""
    from ridgeformer.studies.task import find_object

    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: object = find_object(name)
    except SyntaxError as error:
        raise InputError(f"{name!r} cannot be imported: {error}.") from None
    finally:
        sys.path.remove(here)
    return found


class Precision(StrEnum):
    """Floating-point precision of a solve or of weights; certificates are always computed in float64."""

    float64 = "float64"
    float32 = "float32"


Data = Annotated[
    str,
    typer.Argument(
        help="A dataset's name, or a .csv, .parquet, .npz or .npy file.",
        callback=known_data,
        autocompletion=dataset_names,
    ),
]
Target = Annotated[str | None, typer.Option(help="For a file: the column or key to predict.")]
Task = Annotated[str | None, one_of("task", ("classification", "regression"), "For a file: ")]
Drop = Annotated[list[str] | None, typer.Option(help="For a table: a column to leave out; several by commas.")]
Group = Annotated[str | None, typer.Option(help="For a table: rows with equal values here are held out together.")]
Time = Annotated[str | None, typer.Option(help="For a table: hold out the last rows by this column.")]
Preprocessing = Annotated[str, one_of("preprocessing", ("auto", "unit_rows", "standardise"))]
MaxRows = Annotated[int, typer.Option(help="Largest number of rows to use; more are sampled.", min=10)]
Seed = Annotated[int, typer.Option(help="Seed of the split and of every random step.", min=0)]
Html = Annotated[Path | None, typer.Option(help="Also write a self-contained page with plots.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Workers = Annotated[int, typer.Option(help="Number of workers of a Dask cluster to start here.", min=0)]
Scheduler = Annotated[str | None, typer.Option(help="Address of a running Dask scheduler, tcp://host:port.")]


def out() -> Console:
    """Return a console on the present standard output, so that tests and pipes see it."""
    return Console(file=sys.stdout, highlight=False)


def plain_table(heads: Iterable[str], rows: Iterable[Iterable[str]], *, right: Iterable[str] = ()) -> Table:
    """Return a table without lines; columns whose heads are in `right` are right-aligned."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold", justify="right" if head in right else "left")
    for row in rows:
        table.add_row(*row)
    return table


def print_facts(facts: Mapping[str, str], width: int) -> None:
    """Print one line a fact: its name in a column of this width, then its value."""
    for name, value in facts.items():
        out().print(f"  {name:<{width}} {value}", soft_wrap=True, markup=False)


def print_notes(notes: Iterable[str], indent: str = "") -> None:
    """Print notes dimmed, a line each."""
    for note in notes:
        out().print(indent + note, style="dim", markup=False)


def print_sentences(sentences: Iterable[str]) -> None:
    """Print sentences as a list."""
    for sentence in sentences:
        out().print(f"• {sentence}\n", markup=False)


def print_page(path: Path | None) -> None:
    """Name the page that was written, if one was."""
    if path is not None:
        out().print(f"\nWritten to {path}.", markup=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Print a value as JSON; NaN and infinity become null."""
    print(json.dumps(_finite(value), indent=2, ensure_ascii=False))


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[int, int | None, str], None]]:
    """Yield a function (done, total, what) that draws a bar on standard error, if that is a terminal."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def update(done: int, total: int | None, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what)

        yield update


def with_time_left(update: Callable[[int, int | None, str], None]) -> Callable[[str, float, float | None], None]:
    """Return a function (what, fraction done, seconds left) that draws such a bar.

    Example:
        >>> with_time_left(lambda *drawn: print(*drawn))("step 3", 0.5, 90.0)
        500 1000 step 3, about 0:01:30 left
    """

    def watch(what: str, done: float, left: float | None) -> None:
        soon = "" if left is None else f", about {timedelta(seconds=round(left))} left"
        update(round(1000 * done), 1000, what + soon)

    return watch
