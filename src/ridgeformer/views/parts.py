"""What a page is made of: sections of sentences, tables, figures, strips of images and ready-made pieces."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote

import numpy as np
import plotly.graph_objects as go

__all__ = ["Facts", "Fragment", "Part", "Picture", "Section", "Strip", "Table", "Thumbnail", "csv_link"]

NUMBER = re.compile(r"[<>≤≥~]?\s?[-+]?\d.*|inf|nan|")
"""Cells that belong right-aligned, under one another."""


@dataclass(frozen=True)
class Picture:
    """A figure, what to see in it, and the same for someone who cannot see it.

    `name` is what its files are called; without one it is not written to files.
    """

    kind: ClassVar[str] = "picture"

    figure: go.Figure
    caption: str
    alt: str
    name: str = ""

    @property
    def csv(self) -> str:
        """The numbers of the figure as CSV: one line a point, by the name of its curve."""
        lines: list[Sequence[Any]] = [("curve", "x", "y")]
        for trace in self.figure.data:
            if trace.type not in ("scatter", "bar") or trace.y is None:
                continue
            x = range(len(trace.y)) if trace.x is None else trace.x
            lines += [(trace.name or "", _plain(a), _plain(b)) for a, b in zip(x, trace.y, strict=True)]
        return _csv(lines) if len(lines) > 1 else ""


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        head: Names of the columns.
        rows: The cells as a person reads them.
        values: The same unrounded, for the CSV; the cells themselves if there are none.
        name: What the file with the CSV is called; without one there is no file to take.
        links: Where a cell of this text leads to.
        alarms: Cells shown in red.
    """

    kind: ClassVar[str] = "table"

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    values: tuple[tuple[Any, ...], ...] = ()
    name: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    alarms: frozenset[str] = frozenset()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For every column, whether it holds numbers.

        Example:
            >>> Table(("what", "value"), (("ridge", "1e-2"), ("steps", "> 300"))).numeric
            (False, True)
        """
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.head)
        return tuple(any(column) and all(NUMBER.fullmatch(cell) for cell in column) for column in columns)

    @property
    def csv(self) -> str:
        """The table as CSV, unrounded where the numbers are known."""
        return _csv([self.head, *(self.values or self.rows)])


@dataclass(frozen=True)
class Thumbnail:
    """A small image: its pixels (height, width) or (height, width, channels), what is below it, and a mark."""

    pixels: Any
    title: str
    note: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Strip:
    """Images side by side, the same scale of grey for all, and what to see in them."""

    kind: ClassVar[str] = "strip"

    images: tuple[Thumbnail, ...]
    caption: str
    name: str = ""


@dataclass(frozen=True)
class Fragment:
    """A ready-made piece of a page, which brings its own style and script; trusted as it is."""

    kind: ClassVar[str] = "fragment"

    html: str
    caption: str = ""


@dataclass(frozen=True)
class Facts:
    """Sentences as a list."""

    kind: ClassVar[str] = "facts"

    sentences: tuple[str, ...]


Part: TypeAlias = str | Facts | Picture | Table | Strip | Fragment


@dataclass(frozen=True)
class Section:
    """One section of a page: sentences, a table and pictures, then further parts in their order."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    pictures: tuple[Picture, ...] = field(default=())
    parts: tuple[Part, ...] = ()
    anchor: str = ""

    @property
    def body(self) -> tuple[Part, ...]:
        """Everything in the order it is read."""
        table = () if self.table is None else (self.table,)
        return (*self.sentences, *table, *self.pictures, *self.parts)


def csv_link(text: str) -> str:
    """Return CSV as an address that a browser saves without any server."""
    return "data:text/csv;charset=utf-8," + quote(text)


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
