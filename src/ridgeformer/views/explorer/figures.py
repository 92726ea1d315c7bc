"""The figures of the explorer, one function a panel, from frozen results; dress and colours are the report's.

They are plotly's own plain form, dictionaries: building checked `Figure` objects took longer than all the computing.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeformer.regime.spectra import Spectra
from ridgeformer.views.explorer.compute import Influenced, Run
from ridgeformer.views.explorer.stream import Pattern, View
from ridgeformer.views.figures import PALETTE, draw

__all__ = [
    "attention_figure",
    "convergence_figure",
    "empty_figure",
    "influence_figure",
    "pack",
    "prediction_figure",
    "spectrum_figure",
    "stream_figure",
]

Array = NDArray[np.float64]
Plot = dict[str, Any]

TRANSFORMER, HEAD, EXACT, ASKED, BOUND = PALETTE
POINT = "#76839a"
GHOSTS = 5
"""Earlier steps drawn faintly."""

DIVERGING = ((0.0, "#d1603d"), (0.5, "rgba(128,128,128,0.10)"), (1.0, "#3b6fd4"))
RISING = ((0.0, "rgba(128,128,128,0.08)"), (1.0, "#3b6fd4"))
FEW_DECADES = 3
CROWDED = 60
GAP = 0.1
"""Between two channels, in columns."""

SHOWN = 6
"""Helpful and harmful points named."""

DRESS: Plot = {k: v for k, v in draw([], "", "")["layout"].items() if k != "height"}


def prediction_figure(run: Run, without: Array | None, point: int | None) -> Plot:
    """Return the three predictions over the line, or against the truth of held-out points."""
    return _curve(run, without, point) if run.task.line else _scatter(run, point)


def _curve(run: Run, without: Array | None, point: int | None) -> Plot:
    task, grid, x = run.task, run.task.grid, run.task.x
    assert grid is not None
    assert x is not None
    traces = []
    if task.truth is not None:
        traces.append(_line(grid, task.truth, "truth", POINT, 1))
    apart = max(1, len(run.steps) // 12)
    ghosts = run.steps[:-1][-GHOSTS * apart :: apart]
    if len(ghosts):
        x_again = np.tile(np.append(grid, np.nan), len(ghosts))
        rows = np.column_stack([ghosts, np.full(len(ghosts), np.nan)]).ravel()
        traces.append(_line(x_again, rows, "earlier steps", TRANSFORMER, 1, opacity=0.25, hoverinfo="skip"))
    traces.append(_line(grid, run.exact, "exact kernel ridge", EXACT, 10, opacity=0.5))
    traces.append(_line(grid, run.average, "one softmax head (Nadaraya-Watson)", HEAD, 2, "dash"))
    traces.append(_line(grid, run.predicted, "compiled transformer", TRANSFORMER, 2.5))
    if without is not None:
        traces.append(_line(grid, without, "exact, without the point", ASKED, 2, "dot"))
    traces += _dots(x, task.targets, "training points", POINT, 9, point)
    low, high = float(task.targets.min()), float(task.targets.max())
    room = 0.35 * (high - low or 1.0)
    axes = {
        "xaxis": {"title": {"text": "x"}, "range": [grid[0], grid[-1]]},
        "yaxis": {"title": {"text": "y"}, "range": [low - room, high + room]},
    }
    return _plot(traces, hovermode="closest", meta="draw", **axes)  # the page's script reads meta


def _scatter(run: Run, point: int | None) -> Plot:
    task = run.task
    assert task.truth is not None
    classes = len(task.outputs) > 1 and set(np.unique(task.truth)) <= {-1.0, 1.0}
    spread = np.linspace(-0.35, 0.35, len(task.truth)) if classes else 0.0  # else two columns would hide most points
    x = task.truth + spread
    ends = np.array([min(task.truth.min(), run.exact.min()), max(task.truth.max(), run.exact.max())])
    wide = {"color": EXACT, "size": 16, "opacity": 0.4}
    cross = {"color": HEAD, "size": 7, "symbol": "x-thin", "line": {"color": HEAD, "width": 2}}
    name = "one softmax head (Nadaraya-Watson)"
    traces = [
        _line(ends, ends, "perfect", POINT, 1, "dot", hoverinfo="skip"),
        _trace(x, run.exact, "exact kernel ridge", mode="markers", marker=wide),
        _trace(x, run.average, name, mode="markers", marker=cross),
        *_dots(x, run.predicted, "compiled transformer", TRANSFORMER, 8, point),
    ]
    axis: Plot = {"title": {"text": "truth, spread out a little" if classes else "truth"}}
    if classes:
        axis |= {"tickvals": [-1, 1], "ticktext": ["the rest (-1)", "the class (+1)"]}
    return _plot(traces, hovermode="closest", xaxis=axis, yaxis={"title": {"text": "prediction"}})


def convergence_figure(run: Run) -> Plot:
    """Return error and bound against the step."""
    steps = np.arange(1.0, len(run.errors) + 1)
    traces = [
        _line(steps, run.bound, "bound", BOUND, 2, "dash"),
        _line(steps, np.maximum(run.errors, 1e-17), "relative error", TRANSFORMER, 2.5, mode=_marked(run.errors)),
    ]
    return _plot(traces, xaxis={"title": {"text": "step"}}, yaxis=_logarithmic("relative error", run.errors, run.bound))


def spectrum_figure(spectra: Spectra) -> Plot:
    """Return the eigenvalues, the ridge and the effective dimension."""
    values = spectra.kernel[spectra.kernel > spectra.kernel[0] * 1e-15]
    ends, d_eff = np.array([1.0, len(spectra.kernel)]), np.full(2, spectra.d_eff)
    height = np.array([min(values[-1], spectra.ridge), values[0]])
    numbers = np.arange(1.0, len(values) + 1)
    traces = [
        _line(numbers, values, "eigenvalues of K", TRANSFORMER, 2, mode=_marked(values)),
        _line(ends, np.full(2, spectra.ridge), "ridge", EXACT, 2, "dash"),
        _line(d_eff, height, "effective dimension", HEAD, 2, "dot"),
    ]
    axes = {"xaxis": {"title": {"text": "eigenvalue number"}}, "yaxis": _logarithmic("eigenvalue", values)}
    return _plot(traces, **axes)


def _logarithmic(title: str, *series: Array) -> Plot:
    """Return a logarithmic axis with a handful of ticks: whole decades, or 1, 2 and 5 of each if there are few."""
    values = np.concatenate([np.maximum(s, 1e-17) for s in series])
    low, high = (int(np.floor(np.log10(end))) for end in (values.min(), values.max()))
    axis: Plot = {"type": "log", "title": {"text": title}}
    if high - low >= FEW_DECADES:
        return axis | {"dtick": max(1, round((high - low) / 5)), "exponentformat": "power"}
    ticks = [digit * 10.0**e for e in range(low, high + 1) for digit in (1, 2, 5)]
    return axis | {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def stream_figure(view: View) -> Plot:
    """Return tokens by columns, one colour scale a channel: what is compared is tokens, not channels."""
    edges = _edges(view)
    rows = np.arange(float(len(view.tokens)))
    traces, ticks, names = [], [], []
    for name, columns in view.channels:
        block = view.values[:, columns]
        largest = float(np.abs(block).max()) or 1.0
        place = _apart(edges[columns[0] : columns[-1] + 2])
        hover = f"token %{{y}}<br>channel {name}<br>value %{{z:.4g}}<extra></extra>"
        traces.append(_heat(block, name, largest, DIVERGING, x=pack(place), y=pack(rows), hovertemplate=hover))
        ticks.append(float(place[0] + place[-1]) / 2)
        names.append(f"<b>{name}</b>" if name in view.written else name)
    axis = {"tickvals": ticks, "ticktext": names, "tickangle": -45, "showgrid": False}
    return _plot(traces, hovermode="closest", showlegend=False, xaxis=axis, yaxis=_tokens(view.tokens))


def _edges(view: View) -> Array:
    """Return where columns begin and end: features share as much room as the other channels, however many they are."""
    sizes = {name: len(columns) for name, columns in view.channels}
    wide = sum(size for size in sizes.values() if size > 1)
    room = max(len(view.columns) - wide, 1) / max(wide, 1)
    widths = [min(1.0, room) if sizes.get(name, 1) > 1 else 1.0 for name in view.columns]
    return np.concatenate([[0.0], np.cumsum(widths)])


def _apart(edges: Array) -> Array:
    """Return a channel's edges with a gap after them; they stay evenly spaced, which is what plotly draws fast."""
    return edges[0] + (edges - edges[0]) * (1.0 - GAP / (edges[-1] - edges[0]))


def attention_figure(found: Pattern) -> Plot:
    """Return readers by sources; the few largest weights share the darkest colour."""
    sizes = np.abs(found.weights)
    largest = float(np.quantile(sizes, 0.995)) or float(sizes.max()) or 1.0
    signed = bool((found.weights < 0).any())
    hover = "token %{y} reads token %{x}<br>weight %{z:.4g}<extra></extra>"
    heat = _heat(found.weights, "attention", largest, DIVERGING if signed else RISING, hovertemplate=hover)
    axis = _tokens(found.tokens) | {"title": {"text": "reads"}}
    sources = {"title": {"text": "is read"}, "showgrid": False}
    return _plot(
        [heat if signed else heat | {"zmin": 0.0}],
        hovermode="closest",
        showlegend=False,
        xaxis=sources,
        yaxis=axis,
    )


def _tokens(tokens: tuple[str, ...]) -> Plot:
    """Return an axis that names the first token of every role; among hundreds a lone one goes unnamed."""
    roles = [name.split()[0] for name in tokens]
    first = [i for i, role in enumerate(roles) if i == 0 or role != roles[i - 1]]
    if len(tokens) > CROWDED:
        first = [i for i in first if roles.count(roles[i]) > 1]
    return {
        "tickvals": first,
        "ticktext": [roles[i] for i in first],
        "autorange": "reversed",
        "showgrid": False,
        "automargin": True,
    }


def influence_figure(found: Influenced, point: int | None) -> Plot:
    """Return what the point does to the curve, or which training points made the held-out one's prediction."""
    if found.task.line:
        return _influence_on_curve(found, point)
    if point is None:
        return empty_figure("click a point in the prediction panel")
    change = found.change[:, point]
    order = np.argsort(change)
    chosen = [*order[:SHOWN], *order[-SHOWN:]] if len(order) > 2 * SHOWN else list(order)
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "change",
        "x": pack(change[chosen]),
        "y": [found.task.labels[i] for i in chosen],
        "marker": {"color": [HEAD if change[i] < 0 else TRANSFORMER for i in chosen]},
    }
    axes: dict[str, Plot] = {
        "xaxis": {"title": {"text": "what it adds"}},
        "yaxis": {"automargin": True, "showgrid": False},
    }
    return _plot([bars], hovermode="closest", showlegend=False, **axes)


def _influence_on_curve(found: Influenced, point: int | None) -> Plot:
    grid, x = found.task.grid, found.task.x
    assert grid is not None
    assert x is not None
    if point is None:
        strength = np.abs(found.change).max(1)
        bars = {
            "type": "bar",
            "name": "largest change of the curve",
            "x": pack(x),
            "y": pack(strength),
            "width": 0.012 * float(grid[-1] - grid[0]),
            "marker": {"color": ASKED},
        }
        return _plot([bars], xaxis={"title": {"text": "x"}}, yaxis={"title": {"text": "largest change"}})
    traces = [
        _line(grid, found.change[point], "with minus without", ASKED, 2, fill="tozeroy"),
        *_dots(x[point : point + 1], np.zeros(1), "the point", ASKED, 12, None),
    ]
    return _plot(traces, xaxis={"title": {"text": "x"}}, yaxis={"title": {"text": "change of f(x)"}})


def empty_figure(text: str) -> Plot:
    """Return a figure that says why there is none."""
    note = {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    hidden = {"visible": False}
    return _plot([], showlegend=False, annotations=[note], xaxis=hidden, yaxis=hidden)


# -- plotly's form ---------------------------------------------------------------------------------


def pack(values: Array) -> Plot:
    """Return numbers as plotly's typed array: shorter than text, and every bit of them arrives.

    Example:
        >>> pack(np.array([1.0]))
        {'dtype': 'f8', 'bdata': 'AAAAAAAA8D8='}
    """
    array = np.ascontiguousarray(values, dtype="<f8")
    packed = {"dtype": "f8", "bdata": base64.b64encode(array.tobytes()).decode()}
    return packed if array.ndim == 1 else packed | {"shape": ", ".join(map(str, array.shape))}


def _trace(x: Array, y: Array, name: str, **options: Any) -> Plot:
    return {"type": "scatter", "x": pack(x), "y": pack(y), "name": name, **options}


def _line(x: Array, y: Array, name: str, colour: str, width: int | float, dash: str = "solid", **options: Any) -> Plot:
    line = {"color": colour, "width": width, "dash": dash}
    return _trace(x, y, name, **{"mode": "lines", "line": line, "marker": {"size": 5, "color": colour}, **options})


def _marked(values: Array) -> str:
    """Return how a line is drawn: with a dot a value while they can be told apart."""
    return "lines+markers" if len(values) <= CROWDED // 2 else "lines"


def _dots(x: Array, y: Array, name: str, colour: str, size: int | float, point: int | None) -> list[Plot]:
    """Return points one can pick, and over them the one asked about: a size for every point would be drawn slowly."""
    edge = {"color": "white", "width": 1.2}
    dots = [_trace(x, y, name, mode="markers", meta="pick", marker={"color": colour, "size": size, "line": edge})]
    if point is not None:
        marker = {"color": ASKED, "size": 1.9 * size, "line": edge}
        here = slice(point, point + 1)
        dots.append(_trace(x[here], y[here], "asked about", mode="markers", marker=marker, showlegend=False))
    return dots


def _heat(values: Array, name: str, largest: float, colours: Any, **options: Any) -> Plot:
    scale = {"zmin": -largest, "zmax": largest, "colorscale": colours, "showscale": False}
    return {"type": "heatmap", "z": pack(values), "name": name, **scale, **options}


def _plot(traces: list[Plot], *, xaxis: Plot, yaxis: Plot, **options: Any) -> Plot:
    layout = {
        **DRESS,
        "margin": {"l": 62, "r": 12, "t": 12, "b": 50},
        "dragmode": False,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": {**DRESS["xaxis"], "automargin": True, **xaxis},
        "yaxis": {**DRESS["yaxis"], **yaxis},
        **options,
    }
    return {"data": traces, "layout": layout}
