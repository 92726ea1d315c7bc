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
INPUTS = (*CHIPS, *SLIDERS, "point")  # every control of a field of the state, by the name of that field
GRAPH: Any = dict.fromkeys(("displayModeBar", "displaylogo", "scrollZoom", "doubleClick"), False) | {"responsive": True}

HEIGHTS = {"lead": 430, "half": 460, "": 320}  # of the plots, in pixels, by the width of their panel
LIVE: dict[str, Any] = {"aria-live": "polite"}  # announced by screen readers when it changes
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
    stores = [dcc.Store(id=name) for name in ("state", "event", "shown", "figures", "written")]
    foot = _styled(html.Footer, "foot", "Runs on this computer; nothing is sent anywhere.")
    columns = _styled(html.Div, "columns", _controls(), _panels())
    return _styled(html.Div, "page", dcc.Location(id="location", refresh=False), *stores, _header(), columns, foot)


def _styled(kind: Any, style: str, *children: Any, **options: Any) -> Any:
    """Return a component with a CSS class."""
    return kind(children[0] if len(children) == 1 else list(children) or None, className=style, **options)


def _button(label: str, name: str, **options: Any) -> html.Button:
    return html.Button(label, id=name, className="quiet", type="button", **options)


def _header() -> html.Header:
    scenes = [html.Button(name, id={"scene": name}, className="scene", type="button", n_clicks=0) for name in PRESETS]
    game = html.A("Game: guess the algorithm", href="guess", className="scene game")
    brand = html.Div([html.Span("ridgeformer", className="brand"), html.Span("explore", className="sub")])
    return _styled(
        html.Header,
        "head",
        _styled(html.Div, "bar", brand, _programs(), _button("Copy link", "copy-link")),
        html.H1("A transformer that solves a regression", id="headline", **LIVE),
        _styled(html.Nav, "scenes", *scenes, game, **{"aria-label": "Scenes worth seeing"}),
        html.Div(id="refusal", className="refusal", role="alert", hidden=True),
    )


def _programs() -> html.A:
    style = {"marginLeft": "auto", "marginRight": "-0.8rem", "padding": "0.3rem 0.45rem", "textDecoration": "none"}
    return html.A("Programs", href="/programs", className="quiet", style=style)


def _controls() -> html.Div:
    groups = {
        "Data": (
            _chips("data", [*SOURCES, "upload"]),
            _upload(),
            _chips("output", ["y"]),
            _slider("rows", 1),
            html.P(id="notes", className="hint"),
        ),
        "Regression": (_chips("kernel", list(ATTENTIONS)), _slider("ridge", 0.05), _slider("temperature", 0.05)),
        "Transformer": (
            _chips("attention", list(ALGORITHMS)),
            _chips("algorithm", list(ALGORITHMS["softmax"])),
            _slider("steps", 1),
            _slider("width", 1),
            _chips("sketch", list(SKETCHES)),
        ),
    }
    sections = [_styled(html.Section, "group", html.H2(title), *parts) for title, parts in groups.items()]
    settings = html.Details([html.Summary("Settings"), *sections], open=True, id="settings")
    return _styled(html.Div, "controls", settings)


def _chips(name: str, options: list[str]) -> html.Fieldset:
    labelled = [{"label": option, "value": option} for option in options]
    radio = dcc.RadioItems(id=name, options=labelled, className="chips", inline=True)
    return _styled(html.Fieldset, "field", html.Legend(HELP[name]), radio, id=f"{name}-field")


def _slider(name: str, step: int | float) -> html.Div:
    low, high = limits(name)
    value = html.Output(id=f"{name}-text", className="value")
    label = _styled(html.Label, "row", html.Span(HELP[name]), value, htmlFor=name)
    slider = dcc.Input(id=name, type="range", min=low, max=high, step=step, value=low, className="range")
    return _styled(html.Div, "field", label, slider, id=f"{name}-field")


def _upload() -> html.Details:
    limit = f".csv or .npz, up to {MOST_BYTES // 1024**2} MB, {MOST_RECORDS:,} rows, {MOST_COLUMNS} features"
    button = html.Button("Choose a file, or drop it here", className="quiet", type="button", title=limit)
    return _styled(
        html.Details,
        "field fold",
        html.Summary("Your own file"),
        dcc.Upload(id="upload", multiple=False, className="upload", children=button),
        html.Label("Target column or key", htmlFor="target"),
        dcc.Input(id="target", type="text", placeholder="y or target", debounce=True, className="text"),
        html.P(limit, className="hint"),
    )


def _drawing() -> html.Fieldset:
    coordinates: list[Any] = []
    for name in ("x", "y"):
        coordinates.append(html.Label(name, htmlFor=f"draw-{name}"))
        field: Any = {"type": "number", "min": -10, "max": 10, "step": "any", "value": 0, "className": "text small"}
        coordinates.append(dcc.Input(id=f"draw-{name}", **field))
    return _styled(
        html.Fieldset,
        "field drawing",
        html.Legend("Click a point to select it. With one-dimensional toy data, a click elsewhere adds a point."),
        _styled(html.Div, "inline", *coordinates, _button("Add point", "add"), id="draw-field"),
        _styled(
            html.Div,
            "inline",
            html.Label(HELP["point"], htmlFor="point"),
            dcc.Input(id="point", type="number", min=0, step=1, debounce=True, className="text small"),
            html.Span(_button("Remove", "remove"), id="remove-field"),
        ),
    )


def _panels() -> html.Main:
    certificate = "A proved bound on the distance from exact ridge regression, and every check of the network."
    return _styled(
        html.Main,
        "panels",
        html.Div(id="facts", className="facts"),
        _panel("prediction", "Three predictions", "lead", below=_drawing(), beside=_button("Keep to compare", "keep")),
        _panel("kept", "The settings you kept", "lead", beside=(_button("Swap", "swap"), _button("Close", "drop"))),
        _panel("influence", "Influence of the selected point", above=html.Div(id="pictures", className="pictures")),
        _panel("convergence", "Convergence against its bound"),
        _panel("spectrum", "Spectrum and dimension"),
        _styled(
            html.Section,
            "panel wide",
            _styled(html.Div, "bar", html.H2("Inside: the residual stream"), _button("Play", "play")),
            html.P(id="stream-place", className="place"),
            html.Code(id="stream-formula", className="formula"),
            _slider("sublayer", 1),
        ),
        _panel("stream", "Tokens by named channels", "half"),
        _panel("pattern", "Attention pattern", "half", above=_chips("head", ["0"])),
        _styled(
            html.Section,
            "panel wide",
            html.H2("Certificate"),
            html.P(certificate),
            _button("Certify this run", "certify", n_clicks=0),
            dcc.Loading(html.Pre(id="certificate", tabIndex=0), type="dot", delay_show=200),
        ),
    )


def _panel(
    name: str, title: str, width: str = "", above: Any = None, below: Any = None, beside: Any = ()
) -> html.Section:
    graph = dcc.Graph(id=name, config=GRAPH, responsive=True, style={"height": f"{HEIGHTS[width]}px"})
    described: dict[str, Any] = {"aria-labelledby": f"{name}-title {name}-says"}
    sentence = html.P(id=f"{name}-says", className="says", **LIVE)
    shown = html.Div(graph, role="img", **described)
    buttons = list(beside) if isinstance(beside, tuple) else [beside]
    heading = html.H2(title, id=f"{name}-title")
    top = _styled(html.Div, "bar", heading, _styled(html.Div, "inline", *buttons)) if buttons else heading
    return _styled(html.Section, f"panel {width}", top, sentence, above, shown, below, id=f"{name}-field")


def slider_text(name: str, value: int | float) -> str:
    """Return the value shown beside a slider.

    Example:
        >>> slider_text("ridge", 0.001), slider_text("steps", 8)
        ('0.001', '8')
    """
    return f"{value:.3g}" if name in ("ridge", "temperature") else f"{value:,}"
