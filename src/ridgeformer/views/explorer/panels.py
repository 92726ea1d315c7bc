"""The panels of the explorer: each is a figure and a sentence of a state, from the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import entropy

from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.core.words import count, listed, number, percent
from ridgeformer.views.explorer.compute import BAND, ModelRun, SublayerView, leave_one_out, look, run, spectrum
from ridgeformer.views.explorer.data import Regression
from ridgeformer.views.explorer.state import State
from ridgeformer.views.figures import PALETTE, Axis, Figure, Trace, bars, curve, draw, heat_map, log_axis, vertical_line
from ridgeformer.views.parts import Thumbnail

__all__ = ["PANELS", "VIEW_FIELDS", "describe_headline", "empty_figure", "influence_images", "kept_run", "relative"]

Array = NDArray[np.float64]
Panel = tuple[Figure, str]

TRANSFORMER, HEAD, EXACT, ASKED, BOUND = PALETTE
POINT = "#76839a"
KEPT = "#76839a"
PALE = "rgba(47, 158, 119, 0.13)"
ONE_HEAD = "one softmax head"  # short: plotly gives every entry of a legend the room of the longest
NEAR = 0.01  # predictions within this fraction of their typical size look the same on the page
GHOSTS = 5  # earlier steps drawn faintly
CROWDED = 60
GAP = 0.1  # between two channels, in columns
NAMED, EACH = 6, 3
"""Training points that raise a prediction most, and that lower it most: those with a bar, those with an image."""

PANEL: dict[str, Any] = {
    "height": None,
    "margin": {"l": 52, "r": 8, "t": 12, "b": 46},
    "dragmode": False,
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 11.5}},
}
MAP = PANEL | {"hovermode": "closest", "showlegend": False}


def describe_headline(state: State) -> str:
    """Say whether the transformer solves the regression, and how the single head compares."""
    found = run(state)
    distance, one = (found.distance(values) / found.scale for values in (found.predicted, found.average))
    if not len(found.errors):
        return f"One softmax head is up to {relative(one)} of a typical output away from kernel ridge regression."
    size = f"{count(state.steps, 'step')}, {count(found.budget.sublayers, 'sublayer')}"
    answer = f"'s answer is kernel ridge regression to within {relative(distance)}"
    if distance >= NEAR:
        answer = f" is still up to {relative(distance)} away from kernel ridge regression"
    return f"{size}: the transformer{answer}; one softmax head alone is up to {relative(one)} away."


def relative(fraction: float) -> str:
    """Return a distance relative to a typical output: a percentage, or a multiple where it is large."""
    return percent(fraction, 3) if fraction < 10 else f"{number(fraction)} times"


def prediction(state: State) -> Panel:
    """Return the three predictions over the line, or against the truth of held-out points, and their distances."""
    found, narrow = run(state), ""
    if found.features[1] < found.features[0]:
        narrow = (
            f" The stream carries {found.features[1]} of {found.features[0]} features, which alone moves the answer by "
            f"up to {number(found.distance(found.limit))}."
        )
    where = "curve" if found.task.line else count(len(found.exact), "held-out point")
    return (_on_a_line if found.task.line else _against_truth)(state, found), (
        f"Over the {where} the transformer is at most {number(found.distance(found.predicted))} from exact kernel "
        f"ridge regression, and {ONE_HEAD} (Nadaraya-Watson) at most {number(found.distance(found.average))}.{narrow}"
    )


def _on_a_line(state: State, found: ModelRun) -> Figure:
    task, grid, x = found.task, found.task.grid, found.task.x
    assert grid is not None
    assert x is not None
    traces = []
    try:
        band = leave_one_out(state).band
    except InputError:  # of a singular system, for one: the curves are there, the band is not
        band = None
    if band is not None:
        name = f"{percent(BAND)} interval"
        traces.append(curve(grid, band[0], name, EXACT, width=0, hoverinfo="skip", showlegend=False))
        traces.append(curve(grid, band[1], name, EXACT, width=0, hoverinfo="skip", fill="tonexty", fillcolor=PALE))
    if task.truth is not None:
        traces.append(curve(grid, task.truth, "truth", POINT, width=1))
    apart = max(1, len(found.steps) // 12)
    ghosts = found.steps[:-1][-GHOSTS * apart :: apart]
    if len(ghosts):
        x_again = np.tile(np.append(grid, np.nan), len(ghosts))
        rows = np.column_stack([ghosts, np.full(len(ghosts), np.nan)]).ravel()
        traces.append(curve(x_again, rows, "earlier steps", TRANSFORMER, width=1, opacity=0.25, hoverinfo="skip"))
    traces.append(curve(grid, found.exact, "exact kernel ridge", EXACT, width=10, opacity=0.5))
    traces.append(curve(grid, found.average, ONE_HEAD, HEAD, width=2, dash="dash"))
    traces.append(curve(grid, found.predicted, "compiled transformer", TRANSFORMER))
    if state.point is not None:
        fit = leave_one_out(state)
        traces.append(
            curve(grid, fit.exact - fit.change[state.point], "exact, without the point", ASKED, width=2, dash="dot")
        )
    traces += _dots(x, task.targets, "training points", POINT, 9, state.point)
    low, high = float(task.targets.min()), float(task.targets.max())
    room = 0.35 * (high - low or 1.0)
    axes: tuple[Axis, Axis] = (
        {"title": "x", "range": [float(grid[0]), float(grid[-1])]},
        {"title": "y", "range": [low - room, high + room]},
    )
    return draw(traces, *axes, **PANEL, hovermode="closest", meta="draw")  # the page's script reads meta


def _against_truth(state: State, found: ModelRun) -> Figure:
    truth = found.task.truth
    assert truth is not None
    classes = len(found.task.outputs) > 1 and set(np.unique(truth)) <= {-1.0, 1.0}
    x = truth + (np.linspace(-0.35, 0.35, len(truth)) if classes else 0.0)  # else two columns would hide most points
    ends = np.array([min(truth.min(), found.exact.min()), max(truth.max(), found.exact.max())])
    other = kept_run(state)
    shown = [one for one in (found, other) if one is not None and one.task is found.task]
    heights = np.concatenate([part for one in shown for part in (one.exact, one.average, one.predicted)])
    room = 0.05 * float(np.ptp(heights)) or 1.0
    wide = {"color": EXACT, "size": 16, "opacity": 0.4}
    cross = {"color": HEAD, "size": 7, "symbol": "x-thin", "line": {"color": HEAD, "width": 2}}
    traces = [
        curve(ends, ends, "perfect", POINT, width=1, dash="dot", hoverinfo="skip"),
        curve(x, found.exact, "exact kernel ridge", mode="markers", marker=wide),
        curve(x, found.average, ONE_HEAD, mode="markers", marker=cross),
        *_dots(x, found.predicted, "compiled transformer", TRANSFORMER, 8, state.point),
    ]
    axis: Axis = {"title": "truth, spread out a little" if classes else "truth"}
    if classes:
        names = found.task.outputs
        rest = names[1 - state.output] if len(names) == 2 else "the rest"
        axis |= {"tickvals": [-1, 1], "ticktext": [f"{rest} (-1)", f"{names[state.output]} (+1)"]}
    height: Axis = {"title": "prediction", "range": [float(heights.min()) - room, float(heights.max()) + room]}
    return draw(traces, axis, height, **PANEL, hovermode="closest")


def kept_run(state: State) -> ModelRun | None:
    """Return the run of the settings kept for comparison; None without them, or where the library refuses them."""
    if state.kept is None:
        return None
    try:
        return run(state.kept)
    except RidgeformerError:
        return None


def kept(state: State) -> Panel:
    """Return the three predictions of the settings kept for comparison, and what differs."""
    other = state.kept
    if other is None:
        return empty_figure("no settings are kept"), "Keep settings to see them beside those that follow."
    figure, sentence = prediction(replace(other, against=state.problem.address))
    changed = listed(describe_changes(other, state)) or "nothing: move a control, or click a scene"
    return figure, f"Different here, kept first: {changed}. {sentence}"


COMPARED = ("data", "rows", "output", "kernel", "attention", "algorithm", "ridge", "temperature", "steps", "width")


def describe_changes(before: State, after: State) -> list[str]:
    """Return the settings that differ between two states.

    Example:
        >>> describe_changes(State(), State(ridge=0.01, algorithm="nesterov"))
        ['algorithm cg → nesterov', 'ridge 0.1 → 0.01']
    """
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in COMPARED]
    words = [(name, *("full" if one is None else f"{one:g}" if isinstance(one, float) else str(one).replace("_", " ")
                      for one in values)) for name, *values in pairs]  # fmt: skip
    found = [f"{name} {was} → {now}" for name, was, now in words if was != now]
    return [*found, "points"] if before.points != after.points and before.data == after.data else found


def convergence(state: State) -> Panel:
    """Return error and bound against the step."""
    found = run(state)
    if not len(found.errors):
        return empty_figure("no steps"), "One softmax head takes no steps, so there is nothing that could converge."
    steps, errors = np.arange(1.0, len(found.errors) + 1), np.maximum(found.errors, 1e-17)
    traces = [
        curve(steps, found.bound, "bound", BOUND, width=2, dash="dash"),
        curve(steps, errors, "relative error", TRANSFORMER, markers=len(steps) <= CROWDED // 2),
    ]
    other = kept_run(state)
    if other is not None and len(other.errors):
        steps_there, errors_there = np.arange(1.0, len(other.errors) + 1), np.maximum(other.errors, 1e-17)
        traces.insert(0, curve(steps_there, errors_there, "kept settings", KEPT, width=2, dash="dot"))
        errors = np.concatenate([errors, errors_there])
    allowed = number(found.bound[-1]) if np.isfinite(found.bound[-1]) else "any error"
    kept = "below" if bool((found.errors <= found.bound).all()) else "ABOVE"
    unmet = "" if found.holds else f" The bound's condition is not met here: {found.promise}."
    return draw(traces, "step", log_axis("relative error", errors, found.bound), **PANEL), (
        f"After {count(len(steps), 'step')} the relative error is {number(found.errors[-1])}; theory allows {allowed}, "
        f"and every step stays {kept} its bound (condition number {number(found.kappa)}).{unmet}"
    )


def eigenvalues(state: State) -> Panel:
    """Return the eigenvalues, the ridge and the effective dimension: how many directions matter at this ridge."""
    spectra = spectrum(state)
    values = spectra.kernel[spectra.kernel > spectra.kernel[0] * 1e-15]
    n, lowest = len(spectra.kernel), min(float(values[-1]), spectra.ridge)
    dots = len(values) <= CROWDED // 2
    traces = [
        curve(np.arange(1.0, len(values) + 1), values, "eigenvalues of K", TRANSFORMER, width=2, markers=dots),
        curve(np.array([1.0, n]), np.full(2, spectra.ridge), "ridge", EXACT, width=2, dash="dash"),
        vertical_line(spectra.d_eff, (lowest, float(values[0])), "effective dimension", HEAD),
    ]
    return draw(traces, "eigenvalue number", log_axis("eigenvalue", values, [spectra.ridge]), **PANEL), (
        f"{int((spectra.kernel > spectra.ridge).sum())} of {n} eigenvalues are above the ridge, and the effective "
        f"dimension is {number(spectra.d_eff)}: the best sketch needs {spectra.measured_10} of {n} directions for a "
        "relative error of 10 %."
    )


def influence(state: State) -> Panel:
    """Return what the point does to the curve, or which training points made the held-out one's prediction."""
    found, point = leave_one_out(state), state.point
    grid, x, labels = found.task.grid, found.task.x, found.task.labels
    if grid is None or x is None:
        return _influence_on_one(found.task, found.change, found.exact, point)
    largest = np.abs(found.change).max(1)
    if point is None:
        strongest = {"type": "bar", "name": "largest change of the curve", "x": x, "y": largest}
        look = {"width": 0.012 * float(grid[-1] - grid[0]), "marker": {"color": ASKED}}
        sentence = f"Click a point to see the fit without it. The most influential is {labels[int(largest.argmax())]}."
        return draw([strongest | look], "x", "largest change", **PANEL), sentence
    change = found.change[point]
    traces = [
        curve(grid, change, "with minus without", ASKED, width=2, fill="tozeroy"),
        *_dots(x[point : point + 1], np.zeros(1), "the point", ASKED, 12, None),
    ]
    return draw(traces, "x", "change of f(x)", **PANEL), (
        f"Without {labels[point]} the exact fit moves by at most {number(float(largest[point]))}, at x = "
        f"{grid[int(np.abs(change).argmax())]:.3g}; its leverage is {percent(float(found.leverage[point]))}: the fit "
        "there copies that fraction of its target."
    )


def _influence_on_one(task: Regression, changes: Array, exact: Array, point: int | None) -> Panel:
    if point is None:
        return empty_figure("click a point in the prediction panel"), (
            "Click a held-out point in the prediction panel to see which training points made its prediction."
        )
    change = changes[:, point]
    order = np.argsort(change)
    chosen = [*order[:NAMED], *order[-NAMED:]] if len(order) > 2 * NAMED else list(order)
    colours = [HEAD if change[i] < 0 else TRANSFORMER for i in chosen]
    trace = bars(change[chosen], [task.labels[i] for i in chosen], "change", colours)
    up, down = int(change.argmax()), int(change.argmin())
    return draw([trace], "contribution", {"showgrid": False}, **MAP), (
        f"Held-out point {point} is predicted {number(float(exact[point]))}: {task.labels[up]} raises it most (by "
        f"{number(float(change[up]))}), {task.labels[down]} lowers it most (by {number(-float(change[down]))})."
    )


def influence_images(state: State) -> tuple[Thumbnail, ...]:
    """Return the selected held-out image and its strongest training images; nothing if rows are no images."""
    found, point = leave_one_out(state), state.point
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


def stream(state: State) -> Panel:
    """Return tokens by columns, one colour scale a channel: tokens are compared, not channels."""
    view = look(state)
    edges, rows = _edges(view), np.arange(float(len(view.tokens)))
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
    sentence = f"{len(rows)} tokens by {len(view.columns)} columns"
    if view.number:
        written = ", ".join(sorted(view.written))
        sentence += f" after sublayer {view.number} of {view.last} ({view.kind}), which wrote {written}."
    else:
        sentence += f" as the embedding fills them; {count(view.last, 'sublayer')} follow."
    return draw(traces, axis, _token_axis(view.tokens), **MAP), sentence


def _edges(view: SublayerView) -> Array:
    """Return where columns begin and end; all features together take as much room as the other channels."""
    sizes = {name: len(columns) for name, columns in view.channels}
    wide = sum(size for size in sizes.values() if size > 1)
    room = max(len(view.columns) - wide, 1) / max(wide, 1)
    widths = [min(1.0, room) if sizes.get(name, 1) > 1 else 1.0 for name in view.columns]
    return np.concatenate([[0.0], np.cumsum(widths)])


def attention(state: State) -> Panel:
    """Return readers by sources; the few largest weights share the darkest colour."""
    view = look(state)
    if view.weights is None:
        what = "This gated sublayer" if view.number else "The embedding"
        sentence = f"{what} reads no other token; move to an attention sublayer to see its pattern."
        return empty_figure(f"no attention: {view.kind}"), sentence
    sizes = np.abs(view.weights)
    largest = float(np.quantile(sizes, 0.995)) or float(sizes.max())
    hover = "token %{y} reads token %{x}<br>weight %{z:.4g}<extra></extra>"
    signed = bool((view.weights < 0).any())
    trace = heat_map(view.weights, "attention", largest=largest, signed=signed, hovertemplate=hover)
    axes = {"title": "source", "showgrid": False}, _token_axis(view.tokens) | {"title": "reader"}
    block = view.weights[: view.supports, : view.supports]
    reading = block[block.sum(1) > 0]
    if view.softmax:
        spread = float(np.exp(entropy(reading, axis=1)).mean()) if len(reading) else 0.0
        sentence = (
            f"Head {view.head!r}: a support spreads its attention over about {spread:.1f} of {view.supports} supports."
        )
    else:
        sentence = (
            f"Linear attention, head {view.head!r}: weights are plain inner products, here from "
            f"{number(float(block.min()))} to {number(float(block.max()))}, with no softmax."
        )
    return draw([trace], *axes, **MAP), sentence


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


PANELS: dict[str, Callable[[State], Panel]] = {
    "prediction": prediction,
    "kept": kept,
    "convergence": convergence,
    "spectrum": eigenvalues,
    "influence": influence,
    "stream": stream,
    "pattern": attention,
}
"""Panel by name: a figure and a sentence of a state."""

VIEW_FIELDS = {
    "headline": ("against",),
    "prediction": ("point", "against"),
    "kept": ("against",),
    "convergence": ("against",),
    "influence": ("point",),
    "stream": ("sublayer", "head"),
    "pattern": ("sublayer", "head"),
}
"""Fields of the state, beside the problem itself, that a panel or the headline depends on."""
