"""The server: Dash on this computer, one callback that turns events into the next state and one that shows it.

All panels travel in one response, and only those that a change concerns: one request each took longer than computing
them. Everything the page needs is served from here.
"""

from __future__ import annotations

import logging
import socket
import webbrowser
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update
from flask import Flask, abort, request
from werkzeug.serving import BaseWSGIServer, make_server

from ridgeformer.algorithms import Iterative, resolve
from ridgeformer.compiler.compile import SKETCHES
from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.core.words import number
from ridgeformer.views.explorer import controls
from ridgeformer.views.explorer import state as states
from ridgeformer.views.explorer.compute import ModelRun, certify_run, look, run
from ridgeformer.views.explorer.data import FUNCTIONS, MOST_BYTES, receive
from ridgeformer.views.explorer.guess.routes import add_game
from ridgeformer.views.explorer.layout import CHIPS, INPUTS, SLIDERS, page, slider_text
from ridgeformer.views.explorer.panels import (
    PANELS,
    VIEW_FIELDS,
    describe_headline,
    empty_figure,
    influence_images,
    kept_run,
)
from ridgeformer.views.explorer.programs import add_programs
from ridgeformer.views.figures import packed
from ridgeformer.views.parts import png

__all__ = ["build", "next_state", "open_server", "register", "serve"]

INDEX = """<!doctype html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
<link rel="icon" href="data:,">
{%css%}
</head>
<body>
{%app_entry%}
{%config%}
{%scripts%}
{%renderer%}
</body>
</html>
"""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""With these the browser refuses requests to other hosts."""

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})

FIELDS = ("output", "head", "draw", "remove", "rows", "steps", "kept")
BUTTONS = ("add", "remove", "keep", "swap", "drop")

CHANGING = 4  # leading outputs of `choose` (state, refusal, control values) that are always sent
BLOCKED = "the settings above are refused, so there is nothing to show"


def build(host: str = "127.0.0.1") -> Dash:
    """Return the app; on a local address it refuses requests under other host names (DNS rebinding)."""
    server: Any = Flask("ridgeformer.views.explorer")
    server.config["MAX_CONTENT_LENGTH"] = 2 * MOST_BYTES
    app = Dash(
        "ridgeformer.views.explorer", server=server, title="ridgeformer explore", update_title="", serve_locally=True,
        assets_folder=str(Path(__file__).parent / "assets"), index_string=INDEX,
    )  # fmt: skip
    app.enable_dev_tools(debug=False, dev_tools_ui=False, dev_tools_disable_version_check=True)
    app.layout = page
    register(app)
    add_programs(server)
    add_game(server)

    @server.before_request  # type: ignore[untyped-decorator]
    def refuse_other_names() -> None:
        if host in LOCAL and urlsplit(f"//{request.host}").hostname not in LOCAL:
            abort(403)

    @server.after_request  # type: ignore[untyped-decorator]
    def add_headers(response: Any) -> Any:
        response.headers.update(HEADERS)
        return response

    return app


def open_server(host: str, port: int) -> BaseWSGIServer:
    """Return a server that listens already; port 0 takes any that is free."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise RidgeformerError(
            f"cannot listen on {host} port {port} ({error.strerror or error}): give another with --port, or 0 for any."
        ) from None
    except OverflowError:
        raise RidgeformerError(f"port is {port}; a number from 0 to 65535 was expected.") from None
    with listening:
        return make_server(host, port, build(host).server, threaded=True, fd=listening.dup().detach())


def serve(host: str, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until interrupted, in a browser if wanted; `say` is told where the page is."""
    server = open_server(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{server.port}/"
    say(f"The explorer is at {address} (stop it with Ctrl-C).")
    if host not in LOCAL:
        say("It listens beyond this computer: whoever reaches it can use it. There is no password.")
    if browser:
        Timer(0.3, webbrowser.open, [address]).start()
    try:
        server.serve_forever()  # it may swallow the interrupt itself
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    say("Stopped.")


def register(app: Dash) -> None:
    """Connect the page to the library."""
    app.callback(
        Output("state", "data"),
        Output("refusal", "children"),
        Output("refusal", "hidden"),
        {name: Output(name, "value") for name in INPUTS},
        {name: Output(name, "options") for name in CHIPS},
        {name: Output(f"{name}-text", "children") for name in SLIDERS},
        {name: Output(name, "max") for name in ("width", "sublayer")},
        Output("width", "min"),
        {name: Output(f"{name}-field", "className") for name in FIELDS},
        Input("location", "search"),
        Input("event", "data"),
        {name: Input(name, "n_clicks") for name in BUTTONS},
        Input({"scene": ALL}, "n_clicks"),
        {name: Input(name, "value") for name in INPUTS},
        State("state", "data"),
        State("draw-x", "value"),
        State("draw-y", "value"),
    )(choose)
    file = (Input("upload", "contents"), Input("target", "value"), State("upload", "filename"))
    app.callback(Output("event", "data"), *file, prevent_initial_call=True)(take_file)
    shown = Input("state", "data")
    app.callback(
        Output("shown", "data"),
        Output("figures", "data"),
        {name: Output(f"{name}-says", "children") for name in PANELS},
        {name: Output(name, "children") for name in ("headline", "facts", "notes")},
        {name: Output(f"stream-{name}", "children") for name in ("place", "formula")},
        Output("pictures", "children"),
        shown,
        State("shown", "data"),
    )(show)
    app.clientside_callback(ClientsideFunction("explorer", "draw"), Input("figures", "data"))
    clicks = Input("certify", "n_clicks")
    app.callback(Output("certificate", "children"), clicks, State("state", "data"), prevent_initial_call=True)(certify)
    stale = Output("certificate", "children", allow_duplicate=True)  # another state has none yet
    app.clientside_callback(
        ClientsideFunction("explorer", "write"),
        Output("written", "data"),
        stale,
        shown,
        prevent_initial_call="initial_duplicate",
    )


# -- events ----------------------------------------------------------------------------------------


def next_state(
    current: states.State, trigger: str | dict[str, str] | None, chosen: dict[str, Any], given: dict[str, Any]
) -> states.State:
    """Return the state after an event; what cannot be done is raised as a `RidgeformerError`.

    `trigger` is the id of what was used, `chosen` what the controls say, `given` what came with the event.
    """
    if trigger in (None, "location"):
        return controls.settle(states.State.parse(given["search"] or ""))
    if isinstance(trigger, dict):
        return controls.pick_scene(current, trigger["scene"])
    if trigger == "event":
        event = given["event"] or {}
        if "refused" in event:
            raise InputError(str(event["refused"]))
        if "data" in event:
            return controls.pick_data(current, str(event["data"]))
        if "point" in event:
            return controls.pick_point(current, int(event["point"]))
        return controls.add_point(current, float(event["x"]), float(event["y"]))
    if trigger == "add":
        if given["x"] is None or given["y"] is None:
            raise InputError("give both x and y, between -10 and 10, to add a point.")
        return controls.add_point(current, float(given["x"]), float(given["y"]))
    if trigger in ("remove", "keep", "swap"):
        return {"remove": controls.remove_point, "keep": controls.keep, "swap": controls.swap}[trigger](current)
    if trigger == "drop":
        return replace(current, against=None)
    return controls.apply(current, chosen)


def take_file(contents: Any, target: Any, name: Any) -> Any:
    """Return the event of an uploaded file, or of another target chosen in it.

    A callback of its own, so that the file is sent once and not again with every control.
    """
    if not contents:
        return no_update
    try:
        return {"data": receive(name, contents, target)}
    except RidgeformerError as error:
        return {"refused": str(error)}


def choose(
    search: Any, event: Any, clicks: Any, scenes: Any,
    chosen: dict[str, Any], current: Any, x: Any, y: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the page of the state after an event; an event that is refused leaves the state and says why."""
    given = {"search": search, "event": event, "x": x, "y": y}
    before = None if current is None else states.State.parse(current)
    try:
        after = next_state(before or states.State(), ctx.triggered_id if before else None, chosen, given)
    except RidgeformerError as error:
        return _page_of(before or controls.settle(states.State()), chosen, _sentence(error))
    page = _page_of(after, chosen, "")
    if before is None:
        return page
    shown = zip(_page_of(before, chosen, "")[CHANGING:], page[CHANGING:], strict=True)
    return *page[:CHANGING], *(_changed(was, now) for was, now in shown)


def _changed(before: Any, after: Any) -> Any:
    """Return what differs, and `no_update` for the rest, which is then not redrawn."""
    if isinstance(after, dict):
        return {name: _changed(before[name], one) for name, one in after.items()}
    return no_update if before == after else after


def _page_of(state: states.State, chosen: dict[str, Any], refusal: str) -> tuple[Any, ...]:
    """Return everything the page shows of a state but its panels; controls that are right are left alone."""
    found = controls.scope(state)
    wanted = controls.shown(state, found)
    values = {name: no_update if controls.same(chosen[name], wanted[name]) else wanted[name] for name in INPUTS}
    drawable = state.data in (*FUNCTIONS, states.DRAWN)
    fields = {
        "output": ("field", len(found.outputs) > 1),
        "head": ("field", len(found.heads) > 1),
        "draw": ("inline", drawable),
        "remove": ("inline", drawable),
        "rows": ("field", state.data != states.DRAWN),
        "steps": ("field", isinstance(resolve(state.algorithm), Iterative)),
        "kept": ("panel lead", state.against is not None),
    }
    return (
        state.address,
        refusal,
        not refusal,
        values,
        _options(state, found),
        {name: slider_text(name, wanted[name] if name == "width" else getattr(state, name)) for name in SLIDERS},
        {"width": found.full, "sublayer": found.sublayers},
        found.least,
        {name: kind if used else f"{kind} unused" for name, (kind, used) in fields.items()},
    )


def _options(state: states.State, found: controls.Scope) -> dict[str, Any]:
    """Return the choices of every radio group; those that do not go together are shown but disabled."""
    algorithms = dict.fromkeys(name for names in states.ALGORITHMS.values() for name in names)
    upload = {"label": "your file", "value": "upload", "disabled": not states.UPLOAD.fullmatch(state.data)}

    def choices(names: Iterable[str], allowed: Container[str]) -> list[dict[str, Any]]:
        return [{"label": name.replace("_", " "), "value": name, "disabled": name not in allowed} for name in names]

    return {
        "data": [*({"label": name, "value": name} for name in states.SOURCES), upload],
        "output": [{"label": name, "value": number} for number, name in enumerate(found.outputs)],
        "kernel": choices(states.ATTENTIONS, states.ATTENTIONS),
        "attention": choices(states.ALGORITHMS, states.ATTENTIONS[state.kernel]),
        "algorithm": choices(algorithms, states.ALGORITHMS[state.attention]),
        "sketch": choices(SKETCHES, () if state.width is None else SKETCHES),
        "head": [{"label": name, "value": number} for number, name in enumerate(found.heads or ("none",))],
    }  # fmt: skip


# -- panels ----------------------------------------------------------------------------------------


def show(address: Any, before: Any) -> tuple[Any, ...]:
    """Return what the page shows of a state; parts equal to those of the state before are left alone."""
    after = states.State.parse(address or "")
    was = None if before is None else states.State.parse(before)
    panels = {name: _panel(name, after) if _concerns(name, was, after) else (no_update, no_update) for name in PANELS}
    top = headline(after) if _concerns("headline", was, after) else (no_update,) * 3
    inside = place(after) if _concerns("stream", was, after) else (no_update, no_update)
    return (
        address,
        {name: figure for name, (figure, _) in panels.items() if figure is not no_update},
        {name: says for name, (_, says) in panels.items()},
        dict(zip(("headline", "facts", "notes"), top, strict=True)),
        dict(zip(("place", "formula"), inside, strict=True)),
        show_pictures(after) if _concerns("influence", was, after) else no_update,
    )


def _concerns(name: str, before: states.State | None, after: states.State) -> bool:
    """Return whether a part of the page can differ between two states."""
    if before is None or before.problem != after.problem:
        return True
    return any(getattr(before, field) != getattr(after, field) for field in VIEW_FIELDS.get(name, ()))


def headline(state: states.State) -> tuple[str, list[Any], str]:
    """Return the sentence at the top, or the library's refusal; the facts; notes on the data."""
    try:
        found = run(state)
    except RidgeformerError as error:
        return _sentence(error), [], ""
    return describe_headline(state), _facts(found, kept_run(state)), " ".join(found.task.notes)


def show_pictures(state: states.State) -> list[Any]:
    """Return the images behind an influence, where rows are images and one is selected."""
    try:
        images = influence_images(state)
    except RidgeformerError:
        return []
    return [
        html.Figure([html.Img(src=png(image), alt=image.note, title=image.note), html.Figcaption(image.title)])
        for image in images
    ]


def place(state: states.State) -> tuple[str, str]:
    """Return the name of the sublayer and its formula."""
    try:
        view = look(state)
    except RidgeformerError:
        return BLOCKED, ""
    return f"{view.title} ({view.number} of {view.last}, {view.kind})", view.formula


def certify(clicks: Any, address: Any) -> list[Any]:
    """Return the certificate of the state shown, its verdict first: green, or red where it does not hold."""
    try:
        certificate = certify_run(states.State.parse(address or ""))
    except RidgeformerError as error:
        return [html.Strong(_sentence(error), className="alarm")]
    verdict, _, rest = str(certificate).partition("\n")
    return [html.Strong(verdict, className="proved" if certificate.holds else "alarm"), "\n" + rest]


def _panel(name: str, state: states.State) -> tuple[Any, str]:
    try:
        figure, sentence = PANELS[name](state)
    except RidgeformerError:
        figure, sentence = empty_figure("refused"), BLOCKED
    return packed(figure), sentence


def _facts(found: ModelRun, kept: ModelRun | None) -> list[Any]:
    """Return the numbers of a run, each with that of the kept settings under it."""
    here, there = _facts_of(found), {} if kept is None else _facts_of(kept)
    return [
        _fact(name, value, label, f"kept: {there[name][0]}" if name in there else "")
        for name, (value, label) in here.items()
    ]


def _fact(name: str, value: str, label: str, kept: str) -> html.Div:
    beside = [html.Em(kept)] if kept else []
    return html.Div([html.Strong(value, id=f"fact-{name}"), html.Span(label), *beside], className="fact")


def _facts_of(run: ModelRun) -> dict[str, tuple[str, str]]:
    budget = run.budget
    return {
        "distance": (number(run.distance(run.predicted)), "largest distance from exact"),
        "error": (number(float(run.errors[-1])) if len(run.errors) else "none", "relative error"),
        "bound": (number(float(run.bound[-1])) if len(run.bound) else "none", "its bound"),
        "kappa": (number(run.kappa), "condition number"),
        "width": (f"{budget.width}", f"width: {run.features[1]} features + {budget.width - run.features[1]}"),
        "layers": (f"{budget.sublayers}", f"sublayers, {budget.nonzeros:,} weights not zero"),
    }


def _sentence(error: RidgeformerError) -> str:
    text = " ".join(str(error).split())
    name = "." in text.partition(" ")[0]  # a file is called what it is called
    return text if name else text[:1].upper() + text[1:]
