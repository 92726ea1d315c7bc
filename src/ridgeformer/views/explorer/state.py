"""Everything a person can choose, frozen, and the same as the query string of an address."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

from ridgeformer.compiler.compile import SKETCHES
from ridgeformer.core.errors import InputError, unknown_name

__all__ = ["ALGORITHMS", "ATTENTIONS", "DRAWN", "LIMITS", "MOST_ROWS", "SOURCES", "UPLOAD", "State"]

MOST_ROWS = 200  # most training points: with more, a change would not be instant
DRAWN = "drawn"
UPLOAD = re.compile(r"upload-[0-9a-f]{16}")
"""A file is named by a digest of its content; the file itself is never in the address."""

SOURCES = ("sine", "steps", "bumps", "line", "digits", "diabetes", "wine", DRAWN)

ATTENTIONS: dict[str, tuple[str, ...]] = {
    "exponential": ("softmax", "vanilla"),
    "gaussian": ("softmax", "vanilla"),
    "dot_product": ("linear", "imitation"),
}
"""Kernel by name, with the kinds of attention that compute it, its own first."""

ALGORITHMS: dict[str, tuple[str, ...]] = {
    "softmax": ("cg", "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov", "nadaraya_watson"),
    "vanilla": ("richardson",),
    "linear": ("cg", "pcg", "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov"),
    "imitation": ("cg",),
}
"""Algorithms of each attention, its default first; "pcg" is conjugate gradients with the Jacobi preconditioner."""

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

PLANE = 10.0  # drawn points lie within this distance of the origin in both directions


@dataclass(frozen=True)
class State:
    """Everything chosen on the page: equal states show equal pages.

    Attributes:
        data: A name of `SOURCES`, or "upload-" and the digest of a file that was uploaded.
        rows: Most training points.
        output: Which target: a class against the rest, or a column.
        kernel, attention, algorithm, ridge, temperature, steps, width, sketch: As in `ridgeformer.compile`; a width of
            None is what the features need.
        sublayer: After which sublayer the stream is shown; 0 is the embedding.
        head: Which of its heads.
        point: The selected point: a training point of one-dimensional data, else a held-out one; or None.
        points: Drawn points (x, y), for the data "drawn".
        against: Address of the settings kept for comparison, or None.

    Example:
        >>> State(ridge=0.01, steps=12).address
        'ridge=0.01&steps=12'
        >>> State.parse("?kernel=dot_product").attention
        'linear'
    """

    data: str = "sine"
    rows: int = 24
    output: int = 0
    kernel: str = "exponential"
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
    against: str | None = None

    def __post_init__(self) -> None:
        sources = (self.data,) if UPLOAD.fullmatch(self.data) else SOURCES
        for name, names in (("data", sources), ("kernel", ATTENTIONS), ("sketch", SKETCHES)):
            if getattr(self, name) not in names:
                raise unknown_name(name, getattr(self, name), names)
        if self.attention not in ATTENTIONS[self.kernel]:
            known = ", ".join(ATTENTIONS[self.kernel])
            raise InputError(f"the {self.kernel} kernel has no {self.attention!r} attention; it has {known}.")
        if self.algorithm not in ALGORITHMS[self.attention]:
            known = ", ".join(ALGORITHMS[self.attention])
            raise InputError(f"{self.attention} attention has no algorithm {self.algorithm!r}; it has {known}.")
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InputError(f"{name} is {value:g}; a number from {low:g} to {high:g} was expected.")
        if len(self.points) > MOST_ROWS:
            raise InputError(f"there are {len(self.points)} drawn points; at most {MOST_ROWS} are shown.")
        if any(not (abs(x) <= PLANE and abs(y) <= PLANE) for x, y in self.points):
            raise InputError(f"a drawn point lies outside {-PLANE:g} to {PLANE:g}: draw it nearer to the others.")
        if self.kept is not None and self.kept.against is not None:
            raise InputError("the settings kept for comparison keep others in turn: compare two at a time.")

    @property
    def address(self) -> str:
        """It as a query string, without what is as in `State()`."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return urlencode({name: _written(value) for name, value in given.items()}, safe=",;")

    @property
    def problem(self) -> State:
        """The same regression and transformer, whatever is being looked at."""
        return replace(self, sublayer=State.sublayer, head=0, point=None, against=None)

    @property
    def kept(self) -> State | None:
        """The settings kept for comparison."""
        return None if self.against is None else State.parse(self.against)

    @classmethod
    def parse(cls, address: str) -> State:
        """Return the state of a query string, with or without its question mark.

        A kernel without an attention takes its own, an attention without a kernel the first kernel that it computes,
        and an attention without an algorithm its default. A setting that does not exist, comes twice or has no such
        value is refused.
        """
        pairs = parse_qsl(address.removeprefix("?"), keep_blank_values=True)
        values: dict[str, Any] = {}
        for name, text in pairs:
            if name not in READERS:
                raise unknown_name("setting in the address:", name, READERS)
            if name in values:
                raise InputError(f"the address gives {name} twice: keep one.")
            values[name] = READERS[name](name, text)
        if "kernel" not in values and "attention" in values:
            kinds = {kind: kernel for kernel in reversed(ATTENTIONS) for kind in ATTENTIONS[kernel]}
            if values["attention"] not in kinds:
                raise unknown_name("attention", values["attention"], kinds)
            values["kernel"] = kinds[values["attention"]]
        if "kernel" in values:
            values.setdefault("attention", ATTENTIONS.get(values["kernel"], (cls.attention,))[0])
            values.setdefault("algorithm", ALGORITHMS.get(values["attention"], (cls.algorithm,))[0])
        return cls(**values)


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return ";".join(f"{x:.12g},{y:.12g}" for x, y in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _number(name: str, text: str, *, whole: bool = False) -> int | float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (whole and number != int(number)):
        kind = "whole" if math.isfinite(number) else "finite"
        raise InputError(f"the address gives {name}={text[:40]!r}; a {kind} number was expected.")
    return int(number) if whole else number


def _points(name: str, text: str) -> tuple[tuple[float, float], ...]:
    points = []
    for pair in filter(None, text.split(";")):
        x, comma, y = pair.partition(",")
        if not comma:
            raise InputError(f"the address has the point {pair[:40]!r}; x,y was expected, points apart by semicolons.")
        points.append((_number("a point's x", x), _number("a point's y", y)))
    return tuple(points)


READERS: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(("data", "kernel", "attention", "algorithm", "sketch", "against"), lambda name, text: text),
    **dict.fromkeys(("rows", "output", "steps", "width", "sublayer", "head", "point"), partial(_number, whole=True)),
    **dict.fromkeys(("ridge", "temperature"), _number),
    "points": _points,
}
"""How each setting of an address is read."""
