"""How a running study is watched: a live bar, JSON lines or nothing, and how to go on after Ctrl-C."""

from __future__ import annotations

import json as json_
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ridgeformer.cli.console import out, progress_bar
from ridgeformer.studies import Progress, Report

__all__ = ["Processes", "Quiet", "Retry", "Scheduler", "Workers", "say_end", "watched"]

Processes = Annotated[int, typer.Option(help="So many worker processes on this machine.", min=0)]
Workers = Annotated[int, typer.Option(help="So many workers of a Dask cluster started here.", min=0)]
Scheduler = Annotated[str | None, typer.Option(help="Address of a running Dask scheduler, tcp://host:port.")]
Retry = Annotated[bool, typer.Option("--retry", help="Try recorded failures again.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]

EVERY = 1.0
"""Seconds between two JSON lines."""


@contextmanager
def watched(again: str, *, quiet: bool, json: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield what `run` is to call; after Ctrl-C print the command that resumes, and pass it on."""
    spoken = 0.0
    with progress_bar(quiet or json) as bar:

        def watch(progress: Progress) -> None:
            nonlocal spoken
            bar(progress.done + progress.failed, progress.total, _words(progress))
            if json and time.monotonic() - spoken >= EVERY:
                spoken = time.monotonic()
                _line({"event": "progress", **vars(progress)})

        try:
            yield watch
        except KeyboardInterrupt:
            print(f"\ninterrupted; nothing is lost. To go on: {again}", file=sys.stderr)
            raise


def _words(progress: Progress) -> str:
    left = "" if progress.remaining is None else f", {_duration(progress.remaining)} left"
    return f"{progress.done:,} done, {progress.running} running, {progress.failed} failed{left}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def say_end(report: Report, *, json: bool, page: dict[str, Any] | None = None) -> None:
    """Say how a run ended; failures make the exit code 1."""
    failures = [
        {"params": row.params, "seed": row.seed, "status": row.status, "error": row.error.splitlines()[-1]}
        for row in report.failures
    ]
    if json:
        facts = {name: value for name, value in vars(report).items() if name not in ("failures", "store")}
        _line({"event": "end", **facts, "store": str(report.store), "failures": failures, **(page or {})})
    else:
        console = out()
        for note in report.notes:
            console.print(f"note: {note}", markup=False)
        kept = report.total - len(failures)
        console.print(
            f"{report.study}: {kept:,} of {report.total:,} tasks have a result, {report.computed:,} of them computed "
            f"now in {report.seconds:.1f} s.",
            markup=False,
        )
        for line in failures:
            console.print(f"  {line['status']}: {line['params']}, seed {line['seed']}: {line['error']}", markup=False)
        if failures:
            console.print(f"{len(failures)} tasks have none; --retry tries them again.", markup=False)
    if failures:
        raise typer.Exit(1)


def _line(value: dict[str, Any]) -> None:
    print(json_.dumps(value), flush=True)
