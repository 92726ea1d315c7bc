"""The figures of every page and panel, in plotly's plain form: curves, bars and heat maps, one colour convention.

A figure is a dictionary of traces and layout. Building checked `plotly.graph_objects` takes longer than computing what
they show, and needs plotly's import; a browser reads the plain form just as well.

Example:
    >>> error = curve([1, 2, 3], [1.0, 0.1, 0.01], "error")
    >>> figure = draw([error], "step", log_axis("relative error", error["y"]))
    >>> figure["layout"]["yaxis"]["type"]
    'log'
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from math import ceil, floor, inf, isfinite, log10
from textwrap import wrap
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["GREY", "PALETTE", "Figure", "Trace", "bars", "curve", "draw", "heat_map", "log_axis", "packed"]

Values: TypeAlias = Sequence[Any] | NDArray[Any]
Trace: TypeAlias = dict[str, Any]
Axis: TypeAlias = dict[str, Any]
Figure: TypeAlias = dict[str, Any]  # {"data": traces, "layout": layout}; numbers are lists or arrays
PALETTE = ("#3b6fd4", "#d1603d", "#2f9e77", "#8a63c9", "#b08a1e")
"""Colours that can be told apart on white and on black, and by most colour-blind people."""

GREY = "#9aa5b8"
WHISKER = "#7a8496"
DIVERGING = ((0.0, "#d1603d"), (0.5, "rgba(128,128,128,0.10)"), (1.0, "#3b6fd4"))
RISING = ((0.0, "rgba(128,128,128,0.08)"), (1.0, "#3b6fd4"))

MOST_TICKS, FEW_DECADES = 8, 3
TICK = {"gridcolor": "rgba(128,128,128,0.2)", "zeroline": False, "automargin": True}
LAYOUT: dict[str, Any] = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "margin": {"l": 70, "r": 20, "t": 34, "b": 55},
    "height": 420,
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "rgba(128,128,128,0.7)", "activecolor": PALETTE[0]},
    "font": {"family": "system-ui, sans-serif", "size": 13},
    "legend": {"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0},
    "hovermode": "x unified",
}


def curve(
    x: Values | None,
    y: Values,
    name: str,
    colour: str = PALETTE[0],
    *,
    dash: str = "solid",
    width: int | float = 2.5,
    markers: bool = False,
    whiskers: tuple[Values, Values] | None = None,
    **options: Any,
) -> Trace:
    """Return a line; without x, the values are numbered from 0.

    Solid is what was measured, "dash" a bound or threshold, "dot" a second kind of measurement. Markers are dots at the
    values, whiskers the lower and upper ends of an interval about each; `options` are those of plotly's scatter trace.
    """
    line = {"color": colour, "dash": dash, "width": width}
    look: Trace = {"mode": "lines+markers" if markers else "lines", "line": line}
    return {"type": "scatter", "x": x, "y": y, "name": name, **look, **_whiskers("error_y", y, whiskers), **options}


def bars(
    values: Values,
    labels: Sequence[str],
    name: str,
    colour: str | Sequence[str] = PALETTE[0],
    *,
    whiskers: tuple[Values, Values] | None = None,
    **options: Any,
) -> Trace:
    """Return horizontal bars, one a label; `whiskers` are the lower and upper ends of an interval about each."""
    look: Trace = {"orientation": "h", "marker": {"color": colour}}
    look |= _whiskers("error_x", values, whiskers)
    return {"type": "bar", "x": values, "y": labels, "name": name, **look, **options}


def heat_map(
    z: Values,
    name: str,
    *,
    largest: int | float | None = None,
    signed: bool = True,
    kind: str = "heatmap",
    **options: Any,
) -> Trace:
    """Return a matrix in colours, rows from top to bottom, as a "heatmap" or a "contour".

    Signed values are orange below zero and blue above it, others pale to blue. The value `largest`, by default the
    largest there is, has the darkest colour; `options` are those of plotly's trace, such as x and y.
    """
    top = (float(np.abs(np.asarray(z, dtype=np.float64)).max()) if largest is None else largest) or 1.0
    scale = {"zmin": -top if signed else 0.0, "zmax": top, "colorscale": DIVERGING if signed else RISING}
    return {"type": kind, "z": z, "name": name, "showscale": False, **scale, **options}


def vertical_line(at: int | float, ends: tuple[int | float, int | float], name: str, colour: str = PALETTE[2]) -> Trace:
    """Return a dotted vertical line between two heights."""
    return curve([at, at], list(ends), name, colour, dash="dot", width=2)


def draw(traces: Sequence[Trace], x: str | Axis, y: str | Axis, **layout: Any) -> Figure:
    """Return traces as a figure; an axis is its title, or plotly's options with the title under "title"."""
    axes: Axis = {}
    for name, given in (("xaxis", x), ("yaxis", y)):
        axis = {"title": given} if isinstance(given, str) else given
        title = {"text": axis.get("title", ""), "font": {"size": 13}, "standoff": 8}
        axes[name] = {**TICK, **axis, "title": title}
    return {"data": list(traces), "layout": {**LAYOUT, **axes, **layout}}


def log_axis(title: str, *values: Iterable[Any], **options: Any) -> Axis:
    """Return a logarithmic axis with few ticks: powers of ten, or 1, 2 and 5 of each where there are few decades.

    `values` are all that is shown along it; those that are not positive and finite are ignored.

    Example:
        >>> log_axis("error", [1.0, 1e-13])["dtick"], log_axis("width", [30.0, 100.0])["ticktext"][:3]
        (2, ['10', '20', '50'])
    """
    shown = [float(value) for part in values for value in part if 0 < value < inf]
    low, high = (log10(min(shown)), log10(max(shown))) if shown else (0.0, 1.0)
    axis: Axis = {"title": title, "type": "log"}
    if high - low >= FEW_DECADES:
        return {**axis, "exponentformat": "power", "dtick": max(1, ceil((high - low) / MOST_TICKS)), **options}
    ticks = [digit * 10.0**power for power in range(floor(low), ceil(high) + 1) for digit in (1, 2, 5)]
    return {**axis, "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks], **options}


def broken(words: str, width: int = 22) -> str:
    """Return words with line breaks, for a label on an axis.

    Example:
        >>> broken("ReLU network behind attention")
        'ReLU network behind<br>attention'
    """
    return "<br>".join(wrap(words, width))


def packed(part: object) -> object:
    """Return a figure with its arrays in plotly's binary form: shorter than text, and exact to the last bit.

    Example:
        >>> packed({"y": np.array([1.0])})
        {'y': {'dtype': 'f8', 'bdata': 'AAAAAAAA8D8='}}
    """
    if isinstance(part, dict):
        return {name: packed(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [packed(value) for value in part]
    if isinstance(part, np.ndarray):
        array = np.ascontiguousarray(part, dtype="<f8")
        found = {"dtype": "f8", "bdata": base64.b64encode(array.tobytes()).decode()}
        return found if array.ndim == 1 else found | {"shape": ", ".join(map(str, array.shape))}
    plain = part.item() if isinstance(part, np.generic) else part
    return None if isinstance(plain, float) and not isfinite(plain) else plain


def figure_json(figure: Figure) -> str:
    """Return a figure as JSON that can stand inside a script element; no text in it can end the element."""
    return json.dumps(packed(figure), separators=(",", ":")).replace("<", "\\u003c")


def _whiskers(side: str, values: Values, ends: tuple[Values, Values] | None) -> Trace:
    if ends is None:
        return {}
    middle, low, high = (np.asarray(part, dtype=np.float64) for part in (values, *ends))
    lengths = {"array": high - middle, "arrayminus": middle - low}
    return {side: {"type": "data", "symmetric": False, **lengths, "color": WHISKER}}
