"""The parts of every page: sentences, facts, tables, figures, strips of images and ready-made fragments."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ridgeformer.claims import Claim
from ridgeformer.datasets import Dataset
from ridgeformer.views.figures import Figure, Values

__all__ = ["Facts", "Form", "Fragment", "Page", "Part", "Picture", "Section", "Strip", "Table", "thumbnail"]

NUMBER = re.compile(r"[<>≤≥~]?\s?[-+]?\d.*|inf|nan|")  # cells that are right-aligned
Form: TypeAlias = str | Callable[[Any], str]
"""How the cells of a column are written: a format such as ".3g", or a function."""


@dataclass(frozen=True)
class Picture:
    """A figure, a caption that says what to see in it, and the same for someone who cannot see it.

    `name` is the name of its files; without one it is not written to files.
    """

    kind: ClassVar[str] = "picture"

    figure: Figure
    caption: str
    alt: str
    name: str = ""

    @property
    def csv(self) -> str:
        """The numbers of the figure as CSV: one line a point, by the name of its curve."""
        lines: list[Sequence[Any]] = [("curve", "x", "y")]
        for trace in self.figure["data"]:
            if trace["type"] in ("scatter", "bar") and trace.get("y") is not None:
                y = np.asarray(trace["y"]).tolist()
                x = range(len(y)) if trace.get("x") is None else np.asarray(trace["x"]).tolist()
                lines += [(trace.get("name") or "", a, b) for a, b in zip(x, y, strict=True)]
        return _csv(lines) if len(lines) > 1 else ""


@dataclass(frozen=True)
class Table:
    """A table of text; `Table.of` writes one from numbers.

    Attributes:
        head: Names of the columns.
        rows: The cells as a person reads them.
        values: The same unrounded, for the CSV; the cells themselves if there are none.
        name: The name of its CSV file; without one there is no file to download.
        links: Addresses of cells with this text.
        alarms: Cells shown in red.
    """

    kind: ClassVar[str] = "table"

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    values: tuple[tuple[Any, ...], ...] = ()
    name: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    alarms: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        columns: Mapping[str, Form],
        rows: Iterable[Sequence[Any]],
        name: str = "",
        *,
        links: Mapping[str, str] | None = None,
        alarms: Iterable[str] = (),
    ) -> Table:
        """Return a table of values, each column written in its form; None is an empty cell.

        Example:
            >>> table = Table.of({"method": "", "ridge": ".1e"}, [("ours", 0.0123), ("theirs", None)])
            >>> table.rows
            (('ours', '1.2e-02'), ('theirs', ''))
        """

        def written(value: Any, form: Form) -> str:
            if value is None:
                return ""
            return format(value, form) if isinstance(form, str) else form(value)

        values = tuple(tuple(row) for row in rows)
        forms = columns.values()
        shown = tuple(tuple(written(*cell) for cell in zip(row, forms, strict=True)) for row in values)
        return cls(tuple(columns), shown, values, name, links or {}, frozenset(alarms))

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
    """A small image: pixels in [0, 1], (height, width) or (height, width, channels), title, note, and a CSS class."""

    pixels: Values
    title: str
    note: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Strip:
    """Images side by side on one grey scale, and a caption."""

    kind: ClassVar[str] = "strip"

    images: tuple[Thumbnail, ...]
    caption: str
    name: str = ""


@dataclass(frozen=True)
class Fragment:
    """Ready-made HTML with its own style and script; it is not escaped."""

    kind: ClassVar[str] = "fragment"

    html: str
    caption: str = ""


@dataclass(frozen=True)
class Facts:
    """Sentences as a list."""

    kind: ClassVar[str] = "facts"

    sentences: tuple[str, ...]


Part: TypeAlias = str | Facts | Picture | Table | Strip | Fragment  # a string is a paragraph


@dataclass(frozen=True)
class Section:
    """A section of a page: its parts in reading order. `anchor` is its address within the page."""

    title: str
    parts: Sequence[Part] = ()
    anchor: str = ""

    @classmethod
    def of(cls, title: str, *parts: Part) -> Section:
        """Return a section of these parts."""
        return cls(title, parts)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Its paragraphs."""
        return tuple(part for part in self.parts if isinstance(part, str))

    @property
    def tables(self) -> tuple[Table, ...]:
        """Its tables."""
        return tuple(part for part in self.parts if isinstance(part, Table))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Its figures."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


@dataclass(frozen=True, eq=False)
class Page:
    """A page: its answer in sentences, most important first, and the evidence in sections.

    A reader can open the claims it rests on; `colophon` is the last line, such as version, seed and run time.
    """

    title: str
    subtitle: str
    answer: tuple[str, ...]
    sections: tuple[Section, ...]
    claims: tuple[Claim, ...] = ()
    colophon: str = ""

    @classmethod
    def of(cls, title: str, subtitle: str, answer: Iterable[str], *sections: Section) -> Page:
        """Return a page of these sections."""
        return cls(title, subtitle, tuple(answer), sections)


def thumbnail(dataset: Dataset, row: int, title: str, note: str = "", mark: str = "") -> Thumbnail:
    """Return a row of a dataset of images, brightness relative to the whole dataset."""
    assert dataset.image_shape is not None
    low, high = float(dataset.X.min()), float(dataset.X.max())
    pixels = (dataset.X[row].reshape(dataset.image_shape) - low) / ((high - low) or 1.0)
    return Thumbnail(pixels, title, note, mark)


def as_bytes(pixels: Values) -> NDArray[np.uint8]:
    """Return pixels in [0, 1] as bytes, one channel or three.

    Example:
        >>> as_bytes([[0.0, 1.0]]).tolist()
        [[0, 255]]
    """
    image = np.rint(np.clip(np.asarray(pixels), 0, 1) * 255).astype(np.uint8)
    return image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image


def png(image: Thumbnail) -> str:
    """Return a thumbnail as a PNG in a data address."""
    file = io.BytesIO()
    Image.fromarray(as_bytes(image.pixels)).save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def csv_link(text: str) -> str:
    """Return CSV as an address that a browser saves without a server."""
    return "data:text/csv;charset=utf-8," + quote(text)


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()
