"""The panels of the explorer: a figure and a sentence each, from the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import entropy

from ridgeformer.core.words import count, number, percent
from ridgeformer.regime.spectra import Spectra
from ridgeformer.views.explorer.compute import (
    AttentionPattern,
    ModelRun,
    PointInfluence,
    StreamView,
    leave_one_out,
    look,
    pattern,
    run,
    spectrum,
)
from ridgeformer.views.explorer.state import State
from ridgeformer.views.figures import PALETTE, Axis, Figure, Trace, bars, curve, draw, heat_map, log_axis, vertical_line
from ridgeformer.views.parts import Thumbnail

__all__ = [
    "PANELS",
    "VIEW_FIELDS",
    "attention_figure",
    "convergence_figure",
    "describe_attention",
    "describe_convergence",
    "describe_headline",
    "describe_influence",
    "describe_prediction",
    "describe_spectrum",
    "describe_stream",
    "empty_figure",
    "influence_figure",
    "influence_images",
    "prediction_figure",
    "relative",
    "spectrum_figure",
    "stream_figure",
]

Array = NDArray[np.float64]

TRANSFORMER, HEAD, EXACT, ASKED, BOUND = PALETTE
POINT = "#76839a"
NEAR = 0.01
"""Predictions within this fraction of their typical size look the same on the page."""

GHOSTS = 5
"""Earlier steps drawn faintly."""

CROWDED = 60
GAP = 0.1
"""Between two channels, in columns."""

NAMED = 6
"""Helpful and harmful training points with a bar."""

EACH = 3
"""Images of training points that raise the prediction most, and of those that lower it most."""

PANEL: dict[str, Any] = {
    "height": None,
    "margin": {"l": 62, "r": 12, "t": 12, "b": 50},
    "dragmode": False,
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
}


def describe_headline(state: State, run: ModelRun) -> str:
    """Say whether the transformer solves the regression, and how the single head compares."""
    off, one = relative(run.distance(run.predicted) / run.scale), relative(run.distance(run.average) / run.scale)
    if not len(run.errors):
        return f"One softmax head is up to {one} of a typical output away from kernel ridge regression."
    start = f"{count(state.steps, 'step')}, {count(run.budget.sublayers, 'sublayer')}: the transformer"
    if run.distance(run.predicted) / run.scale < NEAR:
        start = f"{start}'s answer is kernel ridge regression to within {off}"
    else:
        start = f"{start} is still up to {off} away from kernel ridge regression"
    return f"{start}; one softmax head alone is up to {one} away."


def relative(fraction: float) -> str:
    """Return a distance relative to a typical output: a percentage, or a multiple where it is large."""
    return percent(fraction, 3) if fraction < 10 else f"{number(fraction)} times"


# -- predictions -----------------------------------------------------------------------------------


def prediction_figure(run: ModelRun, without: Array | None, point: int | None) -> Figure:
    """Return the three predictions over the line, or against the truth of held-out points."""
    return _on_a_line(run, without, point) if run.task.line else _against_truth(run, point)


def _on_a_line(run: ModelRun, without: Array | None, point: int | None) -> Figure:
    task, grid, x = run.task, run.task.grid, run.task.x
    assert grid is not None
    assert x is not None
    traces = []
    if task.truth is not None:
        traces.append(curve(grid, task.truth, "truth", POINT, width=1))
    apart = max(1, len(run.steps) // 12)
    ghosts = run.steps[:-1][-GHOSTS * apart :: apart]
    if len(ghosts):
        x_again = np.tile(np.append(grid, np.nan), len(ghosts))
        rows = np.column_stack([ghosts, np.full(len(ghosts), np.nan)]).ravel()
        traces.append(curve(x_again, rows, "earlier steps", TRANSFORMER, width=1, opacity=0.25, hoverinfo="skip"))
    traces.append(curve(grid, run.exact, "exact kernel ridge", EXACT, width=10, opacity=0.5))
    traces.append(curve(grid, run.average, "one softmax head (Nadaraya-Watson)", HEAD, width=2, dash="dash"))
    traces.append(curve(grid, run.predicted, "compiled transformer", TRANSFORMER))
    if without is not None:
        traces.append(curve(grid, without, "exact, without the point", ASKED, width=2, dash="dot"))
    traces += _dots(x, task.targets, "training points", POINT, 9, point)
    low, high = float(task.targets.min()), float(task.targets.max())
    room = 0.35 * (high - low or 1.0)
    axes: tuple[Axis, Axis] = (
        {"title": "x", "range": [float(grid[0]), float(grid[-1])]},
        {"title": "y", "range": [low - room, high + room]},
    )
    return draw(traces, *axes, **PANEL, hovermode="closest", meta="draw")  # the page's script reads meta


def _against_truth(run: ModelRun, point: int | None) -> Figure:
    task = run.task
    assert task.truth is not None
    classes = len(task.outputs) > 1 and set(np.unique(task.truth)) <= {-1.0, 1.0}
    spread = np.linspace(-0.35, 0.35, len(task.truth)) if classes else 0.0  # else two columns would hide most points
    x = task.truth + spread
    ends = np.array([min(task.truth.min(), run.exact.min()), max(task.truth.max(), run.exact.max())])
    wide = {"color": EXACT, "size": 16, "opacity": 0.4}
    cross = {"color": HEAD, "size": 7, "symbol": "x-thin", "line": {"color": HEAD, "width": 2}}
    traces = [
        curve(ends, ends, "perfect", POINT, width=1, dash="dot", hoverinfo="skip"),
        curve(x, run.exact, "exact kernel ridge", mode="markers", marker=wide),
        curve(x, run.average, "one softmax head (Nadaraya-Watson)", mode="markers", marker=cross),
        *_dots(x, run.predicted, "compiled transformer", TRANSFORMER, 8, point),
    ]
    axis: Axis = {"title": "truth, spread out a little" if classes else "truth"}
    if classes:
        axis |= {"tickvals": [-1, 1], "ticktext": ["the rest (-1)", "the class (+1)"]}
    return draw(traces, axis, "prediction", **PANEL, hovermode="closest")


def describe_prediction(run: ModelRun) -> str:
    """Say how far the predictions are from each other."""
    narrow = ""
    if run.features[1] < run.features[0]:
        narrow = (
            f" The stream carries {run.features[1]} of {run.features[0]} features, which alone moves the answer by up "
            f"to {number(run.distance(run.limit))}."
        )
    where = "curve" if run.task.line else count(len(run.exact), "held-out point")
    return (
        f"Over the {where} the transformer is at most {number(run.distance(run.predicted))} from exact kernel ridge "
        f"regression, and one softmax head (Nadaraya-Watson) at most {number(run.distance(run.average))}.{narrow}"
    )


# -- convergence and spectrum ----------------------------------------------------------------------


def convergence_figure(run: ModelRun) -> Figure:
    """Return error and bound against the step."""
    if not len(run.errors):
        return empty_figure("no steps")
    steps, errors = np.arange(1.0, len(run.errors) + 1), np.maximum(run.errors, 1e-17)
    traces = [
        curve(steps, run.bound, "bound", BOUND, width=2, dash="dash"),
        curve(steps, errors, "relative error", TRANSFORMER, markers=len(steps) <= CROWDED // 2),
    ]
    return draw(traces, "step", log_axis("relative error", errors, run.bound), **PANEL)


def describe_convergence(run: ModelRun) -> str:
    """Say how far the error has fallen, and what the bound allows."""
    if not len(run.errors):
        return "One softmax head takes no steps, so there is nothing that could converge."
    allowed = number(run.bound[-1]) if np.isfinite(run.bound[-1]) else "any error"
    kept = "below" if bool((run.errors <= run.bound).all()) else "ABOVE"
    sentence = (
        f"After {count(len(run.errors), 'step')} the relative error is {number(run.errors[-1])}; theory allows "
        f"{allowed}, and every step stays {kept} its bound (condition number {number(run.kappa)})."
    )
    return sentence if run.holds else f"{sentence} The bound's condition is not met here: {run.promise}."


def spectrum_figure(spectra: Spectra) -> Figure:
    """Return the eigenvalues, the ridge and the effective dimension."""
    values = spectra.kernel[spectra.kernel > spectra.kernel[0] * 1e-15]
    ends = np.array([1.0, len(spectra.kernel)])
    numbers = np.arange(1.0, len(values) + 1)
    lowest = min(float(values[-1]), spectra.ridge)
    traces = [
        curve(numbers, values, "eigenvalues of K", TRANSFORMER, width=2, markers=len(values) <= CROWDED // 2),
        curve(ends, np.full(2, spectra.ridge), "ridge", EXACT, width=2, dash="dash"),
        vertical_line(spectra.d_eff, (lowest, float(values[0])), "effective dimension", HEAD),
    ]
    return draw(traces, "eigenvalue number", log_axis("eigenvalue", values, [spectra.ridge]), **PANEL)


def describe_spectrum(spectra: Spectra) -> str:
    """Say how many directions matter at this ridge."""
    n, above = len(spectra.kernel), int((spectra.kernel > spectra.ridge).sum())
    return (
        f"{above} of {n} eigenvalues are above the ridge, and the effective dimension is {number(spectra.d_eff)}: "
        f"the best sketch needs {spectra.measured_10} of {n} directions for a relative error of 10 %."
    )


# -- influence -------------------------------------------------------------------------------------


def influence_figure(found: PointInfluence, point: int | None) -> Figure:
    """Return what the point does to the curve, or which training points made the held-out one's prediction."""
    grid, x = found.task.grid, found.task.x
    if grid is None or x is None:
        return _influence_on_one(found, point)
    if point is None:
        strongest = {"type": "bar", "name": "largest change of the curve", "x": x, "y": np.abs(found.change).max(1)}
        look = {"width": 0.012 * float(grid[-1] - grid[0]), "marker": {"color": ASKED}}
        return draw([strongest | look], "x", "largest change", **PANEL)
    traces = [
        curve(grid, found.change[point], "with minus without", ASKED, width=2, fill="tozeroy"),
        *_dots(x[point : point + 1], np.zeros(1), "the point", ASKED, 12, None),
    ]
    return draw(traces, "x", "change of f(x)", **PANEL)


def _influence_on_one(found: PointInfluence, point: int | None) -> Figure:
    if point is None:
        return empty_figure("click a point in the prediction panel")
    change = found.change[:, point]
    order = np.argsort(change)
    chosen = [*order[:NAMED], *order[-NAMED:]] if len(order) > 2 * NAMED else list(order)
    colours = [HEAD if change[i] < 0 else TRANSFORMER for i in chosen]
    trace = bars(change[chosen], [found.task.labels[i] for i in chosen], "change", colours)
    return draw([trace], "contribution", {"showgrid": False}, **PANEL, hovermode="closest", showlegend=False)


def describe_influence(found: PointInfluence, point: int | None) -> str:
    """Say what the selected point contributes."""
    labels = found.task.labels
    if found.task.grid is not None:
        if point is None:
            strongest = int(np.abs(found.change).max(1).argmax())
            return f"Click a point to see the fit without it. The most influential is {labels[strongest]}."
        change = found.change[point]
        where = int(np.abs(change).argmax())
        return (
            f"Without {labels[point]} the exact fit moves by at most {number(abs(float(change[where])))}, at "
            f"x = {found.task.grid[where]:.3g}; its leverage is {percent(float(found.leverage[point]))}: the fit there "
            "copies that fraction of its target."
        )
    if point is None:
        return "Click a held-out point in the prediction panel to see which training points made its prediction."
    change = found.change[:, point]
    up, down = int(change.argmax()), int(change.argmin())
    return (
        f"Held-out point {point} is predicted {number(float(found.exact[point]))}: {labels[up]} raises it most (by "
        f"{number(float(change[up]))}), {labels[down]} lowers it most (by {number(-float(change[down]))})."
    )


def influence_images(found: PointInfluence, point: int | None) -> tuple[Thumbnail, ...]:
    """Return the selected held-out image and its strongest training images; nothing if rows are no images."""
    shape = found.task.image_shape
    if shape is None or point is None:
        return ()
    change = found.change[:, point]
    order = [int(i) for i in np.argsort(-change)]
    shown = [(found.task.Xq[point], "selected", f"held-out point {point}")]
    shown += [(found.task.X[i], f"{change[i]:+.2g}", found.task.labels[i]) for i in (*order[:EACH], *order[-EACH:])]
    pixels = [np.clip(row.numpy().reshape(shape), 0, None) for row, _, _ in shown]
    return tuple(
        Thumbnail(image / (float(image.max()) or 1.0), title, note)
        for image, (_, title, note) in zip(pixels, shown, strict=True)
    )


# -- inside the network ----------------------------------------------------------------------------


def stream_figure(view: StreamView) -> Figure:
    """Return tokens by columns, one colour scale a channel: tokens are compared, not channels."""
    edges = _edges(view)
    rows = np.arange(float(len(view.tokens)))
    traces, ticks, names = [], [], []
    for name, columns in view.channels:
        place = edges[columns[0] : columns[-1] + 2]
        # a gap after each channel; edges stay evenly spaced, which plotly draws fast
        place = place[0] + (place - place[0]) * (1.0 - GAP / (place[-1] - place[0]))
        hover = f"token %{{y}}<br>channel {name}<br>value %{{z:.4g}}<extra></extra>"
        traces.append(heat_map(view.values[:, columns], name, x=place, y=rows, hovertemplate=hover))
        ticks.append(float(place[0] + place[-1]) / 2)
        names.append(f"<b>{name}</b>" if name in view.written else name)
    axis = {"tickvals": ticks, "ticktext": names, "tickangle": -45, "showgrid": False}
    return draw(traces, axis, _token_axis(view.tokens), **PANEL, hovermode="closest", showlegend=False)


def _edges(view: StreamView) -> Array:
    """Return where columns begin and end; all features together take as much room as the other channels."""
    sizes = {name: len(columns) for name, columns in view.channels}
    wide = sum(size for size in sizes.values() if size > 1)
    room = max(len(view.columns) - wide, 1) / max(wide, 1)
    widths = [min(1.0, room) if sizes.get(name, 1) > 1 else 1.0 for name in view.columns]
    return np.concatenate([[0.0], np.cumsum(widths)])


def describe_stream(view: StreamView) -> str:
    """Say which sublayer is shown and what it wrote."""
    rows, columns = view.values.shape
    place = f"{rows} tokens by {columns} columns"
    if view.kind == "embedding":
        return f"{place} as the embedding fills them; {count(view.last, 'sublayer')} follow."
    written = ", ".join(sorted(view.written))
    return f"{place} after sublayer {view.number} of {view.last} ({view.kind}), which wrote {written}."


def attention_figure(view: StreamView, found: AttentionPattern | None) -> Figure:
    """Return readers by sources; the few largest weights share the darkest colour."""
    if found is None:
        return empty_figure(f"no attention: {view.kind}")
    sizes = np.abs(found.weights)
    largest = float(np.quantile(sizes, 0.995)) or float(sizes.max())
    hover = "token %{y} reads token %{x}<br>weight %{z:.4g}<extra></extra>"
    signed = bool((found.weights < 0).any())
    trace = heat_map(found.weights, "attention", largest=largest, signed=signed, hovertemplate=hover)
    axes = {"title": "source", "showgrid": False}, _token_axis(found.tokens) | {"title": "reader"}
    return draw([trace], *axes, **PANEL, hovermode="closest", showlegend=False)


def describe_attention(view: StreamView, found: AttentionPattern | None) -> str:
    """Say where the head looks."""
    if found is None:
        what = "The embedding" if view.kind == "embedding" else "This gated sublayer"
        return f"{what} reads no other token; move to an attention sublayer to see its pattern."
    block = found.weights[: found.supports, : found.supports]
    if not found.softmax:
        return (
            f"Linear attention, head {found.head!r}: weights are plain inner products, here from "
            f"{number(float(block.min()))} to {number(float(block.max()))}, with no softmax."
        )
    reading = block[block.sum(1) > 0]
    spread = float(np.exp(entropy(reading, axis=1)).mean()) if len(reading) else 0.0
    return f"Head {found.head!r}: a support spreads its attention over about {spread:.1f} of {found.supports} supports."


def _token_axis(tokens: tuple[str, ...]) -> Axis:
    """Return an axis that names the first token of every role; among hundreds a single token is not named."""
    roles = [name.split()[0] for name in tokens]
    first = [i for i, role in enumerate(roles) if i == 0 or role != roles[i - 1]]
    if len(tokens) > CROWDED:
        first = [i for i in first if roles.count(roles[i]) > 1]
    ticks = {"tickvals": first, "ticktext": [roles[i] for i in first]}
    return {**ticks, "autorange": "reversed", "showgrid": False}


def _dots(x: Array, y: Array, name: str, colour: str, size: int | float, point: int | None) -> list[Trace]:
    """Return points one can click, and over them the selected one."""
    edge = {"color": "white", "width": 1.2}
    dots = [curve(x, y, name, mode="markers", meta="pick", marker={"color": colour, "size": size, "line": edge})]
    if point is not None:
        marker = {"color": ASKED, "size": 1.9 * size, "line": edge}
        here = slice(point, point + 1)
        dots.append(curve(x[here], y[here], "selected", mode="markers", marker=marker, showlegend=False))
    return dots


def empty_figure(text: str) -> Figure:
    """Return a figure that says why there is none."""
    note = {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    return draw([], {"visible": False}, {"visible": False}, **PANEL, showlegend=False, annotations=[note])


# -- every panel of a state ------------------------------------------------------------------------


def _prediction(state: State) -> tuple[Figure, str]:
    found = run(state)
    one = state.point if found.task.line else None
    without = None if one is None else leave_one_out(state).without(one)
    return prediction_figure(found, without, state.point), describe_prediction(found)


def _influence(state: State) -> tuple[Figure, str]:
    found = leave_one_out(state)
    return influence_figure(found, state.point), describe_influence(found, state.point)


PANELS: dict[str, Callable[[State], tuple[Figure, str]]] = {
    "prediction": _prediction,
    "convergence": lambda state: (convergence_figure(run(state)), describe_convergence(run(state))),
    "spectrum": lambda state: (spectrum_figure(spectrum(state)), describe_spectrum(spectrum(state))),
    "influence": _influence,
    "stream": lambda state: (stream_figure(look(state)), describe_stream(look(state))),
    "pattern": lambda state: (
        attention_figure(look(state), pattern(state)),
        describe_attention(look(state), pattern(state)),
    ),
}
"""Panel by name: a figure and a sentence of a state."""

VIEW_FIELDS = {
    "prediction": ("point",),
    "influence": ("point",),
    "stream": ("sublayer", "head"),
    "pattern": ("sublayer", "head"),
}
"""Fields of the state, beside the problem itself, that a panel depends on."""
