"""What the registry knows of a dataset: a record to show and a way to load it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ridgeformer.datasets.dataset import Dataset, Task

__all__ = ["Entry", "Info"]


@dataclass(frozen=True)
class Info:
    """What is known of a named dataset before it is loaded.

    Attributes:
        name: What `load` takes.
        n: Number of rows of each part, in the order of `parts`.
        d: Number of features.
        task: "regression" or "classification".
        classes: Class labels; empty for regression.
        parts: ("train", "test") for an official split, ("train",) where there is none.
        origin: Where it comes from.
        fetched: Whether `load` works now, without fetching first.
        licence: Licence of the data, as far as its authors state one.
        citation: Whom to cite.
        description: What the numbers are, in one line.
    """

    name: str
    n: tuple[int, ...]
    d: int
    task: Task
    classes: tuple[str, ...]
    parts: tuple[str, ...]
    origin: str
    fetched: bool
    licence: str
    citation: str
    description: str

    def __str__(self) -> str:
        rows = " + ".join(f"{n:,} {part}" for n, part in zip(self.n, self.parts, strict=True))
        task = f"{self.task}, {len(self.classes)} classes" if self.classes else self.task
        ready = "yes" if self.fetched else f"no: run `ridgeformer data fetch {self.name}`"
        return "\n".join(
            [
                f"{self.name}: {self.description}",
                f"  rows      {rows if len(self.n) > 1 else format(self.n[0], ',')}, {self.d:,} features",
                f"  task      {task}",
                *([f"  classes   {', '.join(self.classes)}"] if self.classes else []),
                f"  origin    {self.origin}",
                f"  ready     {ready}",
                f"  licence   {self.licence}",
                f"  citation  {self.citation}",
            ]
        )


@runtime_checkable
class Entry(Protocol):
    """A line of the registry."""

    @property
    def name(self) -> str:
        """What `load` takes."""
        ...

    def info(self, cache_dir: str | Path | None = None) -> Info:
        """Return the record to show."""
        ...

    def load(self, part: str, cache_dir: str | Path | None = None, limit: int | None = None) -> Dataset:
        """Return one part, or `limit` of its rows with the classes in proportion."""
        ...
