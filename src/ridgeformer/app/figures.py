"""The figures of the explorer, one function a panel, from frozen results; colours are the report's."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ridgeformer.app.compute import Influenced, Run
from ridgeformer.app.stream import Pattern, View
from ridgeformer.audit.spectra import Spectra
from ridgeformer.report.figures import PALETTE, styled

__all__ = [
    "attention_figure",
    "convergence_figure",
    "empty_figure",
    "influence_figure",
    "prediction_figure",
    "spectrum_figure",
    "stream_figure",
]

Array = NDArray[np.float64]

TRANSFORMER, HEAD, EXACT, ASKED, BOUND = PALETTE
POINT = "#76839a"
GHOSTS = 5
"""Earlier steps drawn faintly."""

DIVERGING = ((0.0, "#d1603d"), (0.5, "rgba(128,128,128,0.10)"), (1.0, "#3b6fd4"))
RISING = ((0.0, "rgba(128,128,128,0.08)"), (1.0, "#3b6fd4"))
SHOWN = 6
"""Helpful and harmful points named."""


def prediction_figure(run: Run, without: Array | None, point: int | None) -> go.Figure:
    """Return the three predictions over the line, or against the truth of held-out points."""
    return _curve(run, without, point) if run.task.line else _scatter(run, point)


def _curve(run: Run, without: Array | None, point: int | None) -> go.Figure:
    task, figure = run.task, go.Figure()
    grid, x = task.grid, task.x
    assert grid is not None and x is not None
    if task.truth is not None:
        figure.add_scatter(x=grid, y=task.truth, name="truth", mode="lines", line={"color": POINT, "width": 1})
    ghosts = run.steps[:-1][-GHOSTS * max(1, len(run.steps) // 12) :: max(1, len(run.steps) // 12)]
    if len(ghosts):
        rows = np.column_stack([ghosts, np.full(len(ghosts), np.nan)]).ravel()
        figure.add_scatter(
            x=np.tile(np.append(grid, np.nan), len(ghosts)), y=rows, name="earlier steps", mode="lines",
            line={"color": TRANSFORMER, "width": 1}, opacity=0.25, hoverinfo="skip",
        )  # fmt: skip
    figure.add_scatter(
        x=grid, y=run.exact, name="exact kernel ridge", mode="lines", line={"color": EXACT, "width": 10}, opacity=0.5
    )
    figure.add_scatter(
        x=grid, y=run.average, name="one softmax head (Nadaraya-Watson)", mode="lines",
        line={"color": HEAD, "width": 2, "dash": "dash"},
    )  # fmt: skip
    figure.add_scatter(
        x=grid, y=run.predicted, name="compiled transformer", mode="lines", line={"color": TRANSFORMER, "width": 2.5}
    )
    if without is not None:
        figure.add_scatter(
            x=grid, y=without, name="exact, without the point", mode="lines",
            line={"color": ASKED, "width": 2, "dash": "dot"},
        )  # fmt: skip
    figure.add_scatter(
        x=x, y=task.targets, name="training points", mode="markers", meta="pick", marker=_markers(len(x), point, 9)
    )
    low, high = float(task.targets.min()), float(task.targets.max())
    room = 0.35 * (high - low or 1.0)
    figure.update_xaxes(title="x", range=[grid[0], grid[-1]])
    figure.update_yaxes(title="y", range=[low - room, high + room])
    figure.update_layout(meta="draw")  # the page's script reads it
    return _panel(figure, 430, hovermode="closest")


def _scatter(run: Run, point: int | None) -> go.Figure:
    task, figure = run.task, go.Figure()
    assert task.truth is not None
    classes = len(task.outputs) > 1 and set(np.unique(task.truth)) <= {-1.0, 1.0}
    spread = 0.35 * np.linspace(-1, 1, len(task.truth)) if classes else 0.0  # two columns of points would lie upon another
    x = task.truth + spread
    ends = [float(min(task.truth.min(), run.exact.min())), float(max(task.truth.max(), run.exact.max()))]
    figure.add_scatter(
        x=ends, y=ends, name="perfect", mode="lines", line={"color": POINT, "width": 1, "dash": "dot"}, hoverinfo="skip"
    )
    figure.add_scatter(
        x=x, y=run.exact, name="exact kernel ridge", mode="markers", marker={"color": EXACT, "size": 16, "opacity": 0.35}
    )
    figure.add_scatter(
        x=x, y=run.average, name="one softmax head (Nadaraya-Watson)", mode="markers",
        marker={"color": HEAD, "size": 7, "symbol": "x-thin", "line": {"color": HEAD, "width": 2}},
    )  # fmt: skip
    figure.add_scatter(
        x=x, y=run.predicted, name="compiled transformer", mode="markers", meta="pick",
        marker=_markers(len(x), point, 8) | {"color": _colours(len(x), point, TRANSFORMER)},
    )  # fmt: skip
    figure.update_xaxes(title="truth, spread out a little" if classes else "truth")
    if classes:
        figure.update_xaxes(tickvals=[-1, 1], ticktext=["the rest (-1)", "the class (+1)"])
    figure.update_yaxes(title="prediction")
    return _panel(figure, 430, hovermode="closest")


def _markers(count: int, point: int | None, size: int) -> dict[str, object]:
    sizes = [size * (1.9 if i == point else 1.0) for i in range(count)]
    return {"color": _colours(count, point, POINT), "size": sizes, "line": {"color": "white", "width": 1.2}}


def _colours(count: int, point: int | None, usual: str) -> list[str]:
    return [ASKED if i == point else usual for i in range(count)]


def convergence_figure(run: Run) -> go.Figure:
    """Return error and bound against the step."""
    figure, steps = go.Figure(), np.arange(1, len(run.errors) + 1)
    figure.add_scatter(
        x=steps, y=run.bound, name="bound", mode="lines", line={"color": BOUND, "dash": "dash", "width": 2}
    )
    figure.add_scatter(
        x=steps, y=np.maximum(run.errors, 1e-17), name="relative error", mode="lines+markers",
        line={"color": TRANSFORMER, "width": 2.5}, marker={"size": 5},
    )  # fmt: skip
    figure.update_xaxes(title="step (one block of sublayers)")
    figure.update_yaxes(type="log", exponentformat="power", title="relative error", dtick=_decades(run.errors, run.bound))
    return _panel(figure, 320)


def _decades(*series: Array) -> int | str:
    """Return plotly's distance of ticks, so that there are few: so many decades, or 1, 2 and 5 of each."""
    values = np.concatenate([np.maximum(s, 1e-17) for s in series])
    span = float(np.log10(values.max() / values.min()))
    return "D2" if span < 2 else max(1, round(span / 5))


def spectrum_figure(spectra: Spectra) -> go.Figure:
    """Return the eigenvalues, the ridge and the effective dimension."""
    values = spectra.kernel[spectra.kernel > spectra.kernel[0] * 1e-15]
    number, n = np.arange(1, len(values) + 1), len(spectra.kernel)
    figure = go.Figure()
    figure.add_scatter(
        x=number, y=values, name="eigenvalues of K", mode="lines+markers", line={"color": TRANSFORMER, "width": 2},
        marker={"size": 5},
    )  # fmt: skip
    figure.add_scatter(
        x=[1, n], y=[spectra.ridge] * 2, name="ridge", mode="lines", line={"color": EXACT, "dash": "dash", "width": 2}
    )
    figure.add_scatter(
        x=[spectra.d_eff] * 2, y=[min(values[-1], spectra.ridge), values[0]], name="effective dimension", mode="lines",
        line={"color": HEAD, "dash": "dot", "width": 2},
    )  # fmt: skip
    figure.update_xaxes(title="eigenvalue number")
    figure.update_yaxes(type="log", exponentformat="power", title="eigenvalue", dtick=_decades(values))
    return _panel(figure, 320)


def stream_figure(view: View) -> go.Figure:
    """Return tokens by columns: colours compare within a channel, the numbers are in the hover text."""
    shades, ticks, names = np.zeros_like(view.values), [], []
    for name, columns in view.channels:
        block = view.values[:, columns]
        shades[:, columns] = block / (np.abs(block).max() or 1.0)
        ticks.append(columns)
        names.append(f"<b>{name}</b>" if name in view.written else name)
    figure, edges = go.Figure(), _edges(view)
    middles = (edges[:-1] + edges[1:]) / 2
    holders = np.broadcast_to(np.array(view.columns, dtype=object), view.values.shape)
    figure.add_heatmap(
        z=shades, x=edges, y=np.arange(len(view.tokens)), zmin=-1, zmax=1,
        colorscale=DIVERGING, showscale=False, xgap=0.5, ygap=0.5 if len(view.tokens) < 80 else 0, text=holders,
        customdata=view.values, name="stream",
        hovertemplate="token %{y}<br>channel %{text}<br>value %{customdata:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(tickvals=[middles[columns].mean() for columns in ticks], ticktext=names, tickangle=-45, showgrid=False)
    _token_axis(figure, view.tokens)
    return _panel(figure, 460, hovermode="closest", legend=False)


def _edges(view: View) -> Array:
    """Return where columns begin and end: features share as much room as the other channels, however many they are."""
    sizes = {name: len(columns) for name, columns in view.channels}
    wide = sum(size for size in sizes.values() if size > 1)
    room = max(len(view.columns) - wide, 1) / max(wide, 1)
    widths = [min(1.0, room) if sizes.get(name, 1) > 1 else 1.0 for name in view.columns]
    return np.concatenate([[0.0], np.cumsum(widths)])


def attention_figure(found: Pattern) -> go.Figure:
    """Return readers by sources."""
    largest = float(np.quantile(np.abs(found.weights), 0.995)) or float(np.abs(found.weights).max()) or 1.0
    signed = bool((found.weights < 0).any())
    figure = go.Figure()
    figure.add_heatmap(
        z=found.weights, zmin=-largest if signed else 0, zmax=largest, colorscale=DIVERGING if signed else RISING,
        showscale=False, name="attention",
        hovertemplate="token %{y} reads token %{x}<br>weight %{z:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title="is read", showgrid=False)
    _token_axis(figure, found.tokens)
    figure.update_yaxes(title="reads")
    return _panel(figure, 460, hovermode="closest", legend=False)


def _token_axis(figure: go.Figure, tokens: tuple[str, ...]) -> None:
    """Name the first token of every role, at most: there may be hundreds."""
    roles = [name.split()[0] for name in tokens]
    first = [i for i, role in enumerate(roles) if i == 0 or role != roles[i - 1]]
    figure.update_yaxes(
        tickvals=first, ticktext=[tokens[i].split()[0] for i in first], autorange="reversed", showgrid=False
    )


def influence_figure(found: Influenced, point: int | None) -> go.Figure:
    """Return what the point does to the curve, or which training points made the held-out one's prediction."""
    figure = go.Figure()
    if found.task.line:
        assert found.task.grid is not None and found.task.x is not None
        if point is None:
            strength = np.abs(found.change).max(1)
            figure.add_bar(x=found.task.x, y=strength, name="largest change of the curve", marker_color=ASKED, width=0.02)
            figure.update_yaxes(title="largest change")
        else:
            figure.add_scatter(
                x=found.task.grid, y=found.change[point], mode="lines", fill="tozeroy", name="with minus without",
                line={"color": ASKED, "width": 2},
            )  # fmt: skip
            figure.add_scatter(
                x=[found.task.x[point]], y=[0], mode="markers", name="the point", marker={"color": ASKED, "size": 12}
            )
            figure.update_yaxes(title="change of f(x)")
        figure.update_xaxes(title="x")
        return _panel(figure, 320)
    if point is None:
        return empty_figure("click a point in the prediction panel")
    change = found.change[:, point]
    order = np.argsort(change)
    chosen = [*order[:SHOWN], *order[-SHOWN:]] if len(order) > 2 * SHOWN else list(order)
    figure.add_bar(
        y=[found.task.labels[i] for i in chosen], x=change[chosen], orientation="h", name="change",
        marker_color=[HEAD if change[i] < 0 else TRANSFORMER for i in chosen],
    )  # fmt: skip
    figure.update_xaxes(title="what it adds to the prediction")
    figure.update_yaxes(automargin=True, showgrid=False)
    return _panel(figure, 320, hovermode="closest", legend=False)


def empty_figure(text: str) -> go.Figure:
    """Return a figure that says why there is none."""
    figure = go.Figure()
    figure.add_annotation(text=text, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return _panel(figure, 320, legend=False)


def _panel(figure: go.Figure, height: int, *, hovermode: str = "x unified", legend: bool = True) -> go.Figure:
    styled(figure)
    figure.update_layout(
        height=height,
        margin={"l": 62, "r": 12, "t": 12, "b": 50},
        dragmode=False,
        hovermode=hovermode,
        showlegend=legend,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        bargap=0.3,
    )
    figure.update_xaxes(automargin=True)
    return figure
