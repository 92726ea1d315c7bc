"""The layout of the page: a label on every control, one sentence under every title."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from ridgeformer.compiler.compile import SKETCHES
from ridgeformer.views.explorer.controls import PRESETS, limits
from ridgeformer.views.explorer.data import MOST_BYTES, MOST_COLUMNS, MOST_RECORDS
from ridgeformer.views.explorer.state import ALGORITHMS, ATTENTIONS, SOURCES

__all__ = ["CHIPS", "INPUTS", "page", "slider_text"]

CHIPS = ("data", "output", "kernel", "attention", "algorithm", "sketch", "head")
SLIDERS = ("rows", "ridge", "temperature", "steps", "width", "sublayer")
INPUTS = (*CHIPS, *SLIDERS, "point")
"""Every control of a field of the state, by the name of that field."""

GRAPH: Any = dict.fromkeys(("displayModeBar", "displaylogo", "scrollZoom", "doubleClick"), False) | {"responsive": True}

HEIGHTS = {"wide": 430, "half": 460, "": 320}
"""Of the plots, in pixels, by the width of their panel."""

LIVE: dict[str, Any] = {"aria-live": "polite"}
"""Announced by screen readers when it changes."""

HELP = {
    "data": "Data",
    "output": "Target",
    "rows": "Training points",
    "kernel": "Kernel",
    "attention": "Attention",
    "algorithm": "Algorithm in the layers",
    "steps": "Depth, in steps",
    "ridge": "Ridge",
    "temperature": "Temperature of the kernel",
    "width": "Width of the stream",
    "sketch": "Sketch, if the width is too small",
    "sublayer": "After sublayer",
    "head": "Head",
    "point": "Selected point, by number",
}


def page() -> html.Div:
    """Return the whole page."""
    return html.Div(
        [
            dcc.Location(id="location", refresh=False),
            *(dcc.Store(id=name) for name in ("state", "event", "shown", "figures", "written")),
            _header(),
            html.Div([_controls(), _panels()], className="columns"),
            html.Footer("Runs on this computer; nothing is sent anywhere.", className="foot"),
        ],
        className="page",
    )


def _header() -> html.Header:
    scenes_label: dict[str, Any] = {"aria-label": "Scenes worth seeing"}
    scenes = [html.Button(name, id={"scene": name}, className="scene", type="button", n_clicks=0) for name in PRESETS]
    return html.Header(
        [
            html.Div(
                [
                    html.Div([html.Span("ridgeformer", className="brand"), html.Span("explore", className="sub")]),
                    _button("Copy link", "copy-link"),
                ],
                className="bar",
            ),
            html.H1("A transformer that solves a regression", id="headline", **LIVE),
            html.Nav(scenes, className="scenes", **scenes_label),
            html.Div(id="refusal", className="refusal", role="alert", hidden=True),
        ],
        className="head",
    )


def _button(label: str, name: str, **options: Any) -> html.Button:
    return html.Button(label, id=name, className="quiet", type="button", **options)


def _controls() -> html.Div:
    return html.Div(
        html.Details(
            [
                html.Summary("Settings"),
                _group(
                    "Data",
                    _chips("data", [*SOURCES, "upload"]),
                    _upload(),
                    _chips("output", ["y"]),
                    _slider("rows", 1),
                    html.P(id="notes", className="hint"),
                ),
                _group(
                    "Regression",
                    _chips("kernel", list(ATTENTIONS)),
                    _slider("ridge", 0.05),
                    _slider("temperature", 0.05),
                ),
                _group(
                    "Transformer",
                    _chips("attention", list(ALGORITHMS)),
                    _chips("algorithm", list(ALGORITHMS["softmax"])),
                    _slider("steps", 1),
                    _slider("width", 1),
                    _chips("sketch", list(SKETCHES)),
                ),
            ],
            open=True,
            id="settings",
        ),
        className="controls",
    )


def _group(title: str, *children: Any) -> html.Section:
    return html.Section([html.H2(title), *children], className="group")


def _chips(name: str, options: list[str]) -> html.Fieldset:
    return html.Fieldset(
        [
            html.Legend(HELP[name]),
            dcc.RadioItems(
                id=name, options=[{"label": o, "value": o} for o in options], className="chips", inline=True
            ),
        ],
        id=f"{name}-field",
        className="field",
    )


def _slider(name: str, step: int | float) -> html.Div:
    low, high = limits(name)
    return html.Div(
        [
            html.Label(
                [html.Span(HELP[name]), html.Output(id=f"{name}-text", className="value")],
                htmlFor=name,
                className="row",
            ),
            dcc.Input(id=name, type="range", min=low, max=high, step=step, value=low, className="range"),
        ],
        id=f"{name}-field",
        className="field",
    )


def _upload() -> html.Details:
    limit = f".csv or .npz, up to {MOST_BYTES // 1024**2} MB, {MOST_RECORDS:,} rows, {MOST_COLUMNS} features"
    return html.Details(
        [
            html.Summary("Your own file"),
            dcc.Upload(
                id="upload", multiple=False, className="upload",
                children=html.Button("Choose a file, or drop it here", className="quiet", type="button", title=limit),
            ),
            html.Label("Target column or key", htmlFor="target"),
            dcc.Input(id="target", type="text", placeholder="y or target", debounce=True, className="text"),
            html.P(limit, className="hint"),
        ],
        className="field fold",
    )  # fmt: skip


def _drawing() -> html.Fieldset:
    def coordinate(name: str) -> list[Any]:
        return [
            html.Label(name, htmlFor=f"draw-{name}"),
            dcc.Input(id=f"draw-{name}", type="number", min=-10, max=10, step="any", value=0, className="text small"),
        ]

    return html.Fieldset(
        [
            html.Legend("Click a point to select it. With one-dimensional toy data, a click elsewhere adds a point."),
            html.Div(
                [*coordinate("x"), *coordinate("y"), _button("Add point", "add")], className="inline", id="draw-field"
            ),
            html.Div(
                [
                    html.Label(HELP["point"], htmlFor="point"),
                    dcc.Input(id="point", type="number", min=0, step=1, debounce=True, className="text small"),
                    html.Span(html.Button("Remove", id="remove", className="quiet", type="button"), id="remove-field"),
                ],
                className="inline",
            ),
        ],
        className="field drawing",
    )


def _panels() -> html.Main:
    return html.Main(
        [
            html.Div(id="facts", className="facts"),
            _panel("prediction", "Three predictions, side by side", "wide", below=_drawing()),
            _panel("convergence", "Convergence against its bound"),
            _panel("spectrum", "Spectrum and dimension"),
            _panel("influence", "Influence of the selected point", below=html.Div(id="pictures", className="pictures")),
            html.Section(
                [
                    html.Div([html.H2("Inside: the residual stream"), _button("Play", "play")], className="bar"),
                    html.P(id="stream-place", className="place"),
                    html.Code(id="stream-formula", className="formula"),
                    _slider("sublayer", 1),
                ],
                className="panel wide",
            ),
            _panel("stream", "Tokens by named channels", "half"),
            _panel("pattern", "Attention pattern", "half", above=_chips("head", ["0"])),
            html.Section(
                [
                    html.H2("Certificate"),
                    html.P(
                        "A proved bound on the distance from exact ridge regression, and every check of the network."
                    ),
                    _button("Certify this run", "certify", n_clicks=0),
                    dcc.Loading(html.Pre(id="certificate", tabIndex=0), type="dot", delay_show=200),
                ],
                className="panel wide",
            ),
        ],
        className="panels",
    )


def _panel(name: str, title: str, width: str = "", above: Any = None, below: Any = None) -> html.Section:
    graph = dcc.Graph(id=name, config=GRAPH, responsive=True, style={"height": f"{HEIGHTS[width]}px"})
    described: dict[str, Any] = {"aria-labelledby": f"{name}-title {name}-says"}
    return html.Section(
        [
            html.H2(title, id=f"{name}-title"),
            html.P(id=f"{name}-says", className="says", **LIVE),
            above,
            html.Div(graph, role="img", **described),
            below,
        ],
        className=f"panel {width}",
    )


def slider_text(name: str, value: int | float) -> str:
    """Return the value shown beside a slider.

    Example:
        >>> slider_text("ridge", 0.001), slider_text("steps", 8)
        ('0.001', '8')
    """
    return f"{value:.3g}" if name in ("ridge", "temperature") else f"{value:,}"
