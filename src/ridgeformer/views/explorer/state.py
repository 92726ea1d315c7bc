"""Everything a person can choose, frozen, and the same as the query string of an address."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from ridgeformer.compiler.sketch import SKETCHES
from ridgeformer.core.errors import InputError, unknown_name

__all__ = ["DRAWN", "LIMITS", "MOST_ROWS", "RUNS", "SOURCES", "UPLOAD", "State"]

MOST_ROWS = 200
"""Training points at most: beyond it a change would not be instant."""

DRAWN = "drawn"
UPLOAD = re.compile(r"upload-[0-9a-f]{16}")
"""A file is named by a digest of its content; the file itself is never in the address."""

RUNS: dict[str, tuple[str, ...]] = {
    "linear": ("cg", "pcg", "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov"),
    "softmax": ("cg", "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov", "nadaraya_watson"),
    "vanilla": ("richardson",),
    "imitation": ("cg",),
}
"""The algorithms of each attention, its default first; "pcg" is CG with Jacobi's preconditioner."""

SOURCES = ("sine", "steps", "bumps", "line", "digits", "diabetes", "wine", DRAWN)

LIMITS: dict[str, tuple[int | float, int | float]] = {
    "rows": (2, MOST_ROWS),
    "output": (0, 999),
    "ridge": (1e-6, 1e3),
    "temperature": (1e-2, 1e2),
    "steps": (1, 60),
    "width": (1, 10_000),
    "sublayer": (0, 10_000),
    "head": (0, 99),
    "point": (0, 999),
}
"""Smallest and largest value of every number."""

PLANE = 10.0
"""Drawn points lie within this distance of the origin in both directions."""


@dataclass(frozen=True)
class State:
    """One moment of the explorer: equal states show equal pages.

    Attributes:
        data: A name of `SOURCES`, or "upload-" and the digest of a file that was uploaded.
        rows: Training points taken at most.
        output: Which target: a class against the rest, or a column.
        attention, algorithm, ridge, temperature, steps, width, sketch: Named as in `ridgeformer.compile`; a width of
            None is what the features need.
        sublayer: After which sublayer the stream is shown; 0 is the embedding.
        head: Which of its heads.
        point: The point asked about: a training point of one-dimensional data, else a held-out one. None is none.
        points: Drawn points (x, y), for the data "drawn".

    Example:
        >>> State(ridge=0.01, steps=12).address
        'ridge=0.01&steps=12'
        >>> State.parse("?ridge=0.01&steps=12") == State(ridge=0.01, steps=12)
        True
    """

    data: str = "sine"
    rows: int = 24
    output: int = 0
    attention: str = "softmax"
    algorithm: str = "cg"
    ridge: float = 0.1
    temperature: float = 0.5
    steps: int = 8
    width: int | None = None
    sketch: str = "pca"
    sublayer: int = 4
    head: int = 0
    point: int | None = None
    points: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if self.data not in SOURCES and not UPLOAD.fullmatch(self.data):
            raise unknown_name("data", self.data, SOURCES)
        if self.attention not in RUNS:
            raise unknown_name("attention", self.attention, RUNS)
        if self.sketch not in SKETCHES:
            raise unknown_name("sketch", self.sketch, SKETCHES)
        if self.algorithm not in RUNS[self.attention]:
            known = ", ".join(RUNS[self.attention])
            raise InputError(f"{self.attention} attention has no algorithm {self.algorithm!r}; it has {known}.")
        for name, ends in LIMITS.items():
            _check_range(name, getattr(self, name), ends)
        if len(self.points) > MOST_ROWS:
            raise InputError(f"there are {len(self.points)} drawn points; {MOST_ROWS} are shown at most.")
        if any(not (abs(x) <= PLANE and abs(y) <= PLANE) for x, y in self.points):
            raise InputError(f"a drawn point lies outside of {-PLANE:g} to {PLANE:g}: draw it nearer to the others.")

    @property
    def address(self) -> str:
        """It as a query string, without what is as in `State()`."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return urlencode({name: _written(value) for name, value in given.items()}, safe=",;")

    @property
    def problem(self) -> State:
        """The same regression and transformer, whatever is being looked at."""
        return replace(self, sublayer=State.sublayer, head=0, point=None)

    @classmethod
    def parse(cls, address: str) -> State:
        """Return the state of a query string, with or without its question mark.

        Raises:
            InputError: a setting that does not exist, comes twice or has no such value.
        """
        pairs = parse_qsl(address.removeprefix("?"), keep_blank_values=True)
        values: dict[str, Any] = {}
        for name, text in pairs:
            if name not in READERS:
                raise unknown_name("setting in the address:", name, READERS)
            if name in values:
                raise InputError(f"the address gives {name} twice: keep one.")
            values[name] = READERS[name](name, text)
        if "attention" in values and "algorithm" not in values:
            values["algorithm"] = RUNS.get(values["attention"], ("cg",))[0]
        return cls(**values)


def _check_range(name: str, value: int | float | None, ends: tuple[int | float, int | float]) -> None:
    if value is not None and not ends[0] <= value <= ends[1]:
        raise InputError(f"{name} is {value:g}; a number from {ends[0]:g} to {ends[1]:g} was expected.")


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return ";".join(f"{x:.12g},{y:.12g}" for x, y in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _text(name: str, text: str) -> str:
    return text


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"the address gives {name}={text[:40]!r}; a number was expected.") from None
    if not math.isfinite(number):
        raise InputError(f"the address gives {name}={text[:40]!r}; a finite number was expected.")
    return number


def _whole(name: str, text: str) -> int:
    number = _number(name, text)
    if number != int(number):
        raise InputError(f"the address gives {name}={text[:40]!r}; a whole number was expected.")
    return int(number)


def _points(name: str, text: str) -> tuple[tuple[float, float], ...]:
    found = []
    for pair in filter(None, text.split(";")):
        x, comma, y = pair.partition(",")
        if not comma:
            raise InputError(f"the address has the point {pair[:40]!r}; x,y was expected, points apart by semicolons.")
        found.append((_number("a point's x", x), _number("a point's y", y)))
    return tuple(found)


READERS: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(("data", "attention", "algorithm", "sketch"), _text),
    **dict.fromkeys(("rows", "output", "steps", "width", "sublayer", "head", "point"), _whole),
    **dict.fromkeys(("ridge", "temperature"), _number),
    "points": _points,
}
"""How each setting of an address is read."""
