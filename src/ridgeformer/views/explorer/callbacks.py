"""What Dash calls: one function that turns events into the next state, and one that shows it.

All panels travel in one answer, and only those a change concerns: a request each took longer than computing them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update

from ridgeformer.compiler.sketch import SKETCHES
from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.views.explorer import compute, controls, figures, stream, words
from ridgeformer.views.explorer import state as states
from ridgeformer.views.explorer.data import FUNCTIONS
from ridgeformer.views.explorer.layout import CHIPS, INPUTS, SLIDERS, slider_text
from ridgeformer.views.explorer.pictures import pictures
from ridgeformer.views.explorer.state import RUNS
from ridgeformer.views.explorer.uploads import receive

__all__ = ["next_state", "register"]

FIELDS = ("output", "head", "draw", "remove", "rows", "steps")
"""Parts of the page that are hidden where there is nothing to choose."""

CHANGING = 4
"""How many parts of a page, the state, its refusal and the controls' values, are told whatever was there before."""

BLOCKED = "the settings above are refused, so there is nothing to show"


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
        Input("add", "n_clicks"),
        Input("remove", "n_clicks"),
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
    asked = Input("certify", "n_clicks")
    app.callback(Output("certificate", "children"), asked, State("state", "data"), prevent_initial_call=True)(certify)
    stale = Output("certificate", "children", allow_duplicate=True)  # another state has none yet
    app.clientside_callback(
        ClientsideFunction("explorer", "write"),
        Output("written", "data"),
        stale,
        shown,
        prevent_initial_call="initial_duplicate",
    )


# -- events ----------------------------------------------------------------------------------------


def next_state(current: states.State, trigger: Any, chosen: dict[str, Any], given: dict[str, Any]) -> states.State:
    """Return the state after an event.

    Args:
        current: What the page shows.
        trigger: The id of what was used.
        chosen: What the controls say, by name.
        given: What came with the event: search, event, x, y.

    Raises:
        RidgeformerError: what cannot be done, in a sentence.
    """
    if trigger in (None, "location"):
        return controls.settle(states.State.parse(given["search"] or ""))
    if isinstance(trigger, dict):
        return controls.settle(controls.PRESETS[trigger["scene"]])
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
    if trigger == "remove":
        return controls.remove_point(current)
    return controls.apply(current, chosen)


def take_file(contents: Any, target: Any, name: Any) -> Any:
    """Return the event of a file that was uploaded, or of another target chosen in it.

    It stands by itself so that the file is sent once, and not again with every control.
    """
    if not contents:
        return no_update
    try:
        return {"data": receive(name, contents, target)}
    except RidgeformerError as error:
        return {"refused": str(error)}


def choose(
    search: Any, event: Any, added: Any, removed: Any, scenes: Any,
    chosen: dict[str, Any], current: Any, x: Any, y: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the page of the state after an event; what cannot be done leaves the state and says why."""
    given = {"search": search, "event": event, "x": x, "y": y}
    before = None if current is None else states.State.parse(current)
    try:
        after = next_state(before or states.State(), ctx.triggered_id if before else None, chosen, given)
    except RidgeformerError as error:
        return _page_of(before or controls.settle(states.State()), chosen, _sentence(error))
    page = _page_of(after, chosen, "")
    return page if before is None else (*page[:CHANGING], *_changed(_page_of(before, chosen, ""), page)[CHANGING:])


def _changed(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what differs, and `no_update` for the rest: a control that is told nothing is not drawn again."""
    return tuple(
        {name: no_update if was[name] == one else one for name, one in now.items()} if isinstance(now, dict)
        else no_update if was == now else now
        for was, now in zip(before, after, strict=True)
    )  # fmt: skip


def _page_of(state: states.State, chosen: dict[str, Any], refusal: str) -> tuple[Any, ...]:
    """Return everything the page shows of a state but its panels; what a control says already is left alone."""
    found = controls.scope(state)
    wanted = controls.shown(state, found)
    values = {name: no_update if _same(chosen[name], wanted[name]) else wanted[name] for name in INPUTS}
    return (
        state.address,
        refusal,
        not refusal,
        values,
        _options(state, found),
        {name: slider_text(name, _exact(state, name, wanted)) for name in SLIDERS},
        {"width": found.full, "sublayer": found.sublayers},
        found.least,
        {
            "output": _field("field", len(found.outputs) > 1),
            "head": _field("field", len(found.heads) > 1),
            "draw": _field("inline", state.data in (*FUNCTIONS, states.DRAWN)),
            "remove": _field("inline", state.data in (*FUNCTIONS, states.DRAWN)),
            "rows": _field("field", state.data != states.DRAWN),
            "steps": _field("field", state.algorithm != "nadaraya_watson"),
        },
    )


def _exact(state: states.State, name: str, wanted: dict[str, Any]) -> Any:
    return wanted[name] if name == "width" else getattr(state, name)


def _same(said: Any, wanted: Any) -> bool:
    if isinstance(wanted, str) or said is None or wanted is None or said == "":
        return bool(said == wanted)
    return abs(float(said) - float(wanted)) < 1e-9


def _field(kind: str, used: bool) -> str:
    return kind if used else f"{kind} unused"


def _options(state: states.State, found: controls.Scope) -> dict[str, Any]:
    """Return the choices of every radio group; what the attention cannot run is shown and cannot be chosen."""
    known = list(dict.fromkeys(name for names in RUNS.values() for name in names))
    data = [*states.SOURCES, "upload"]
    return {
        "data": [
            {"label": "your file", "value": name, "disabled": not states.UPLOAD.fullmatch(state.data)}
            if name == "upload"
            else {"label": name, "value": name}
            for name in data
        ],
        "output": [{"label": name, "value": number} for number, name in enumerate(found.outputs)],
        "attention": [{"label": name, "value": name} for name in RUNS],
        "algorithm": [
            {"label": name, "value": name, "disabled": name not in RUNS[state.attention]} for name in known
        ],
        "sketch": [{"label": name, "value": name, "disabled": state.width is None} for name in SKETCHES],
        "head": [{"label": name, "value": number} for number, name in enumerate(found.heads or ("none",))],
    }  # fmt: skip


# -- panels ----------------------------------------------------------------------------------------


def show(address: Any, before: Any) -> tuple[Any, ...]:
    """Return what the page shows of a state; what is as it was in the state shown before is left alone."""
    after = states.State.parse(address or "")
    was = None if before is None else states.State.parse(before)
    panels = {name: _panel(name, after) if _concerns(name, was, after) else (no_update, no_update) for name in PANELS}
    names = ("headline", "facts", "notes")
    top = headline(after) if _concerns("headline", was, after) else (no_update,) * len(names)
    inside = place(after) if _concerns("stream", was, after) else (no_update, no_update)
    return (
        address,
        {name: figure for name, (figure, _) in panels.items() if figure is not no_update},
        {name: says for name, (_, says) in panels.items()},
        dict(zip(names, top, strict=True)),
        dict(zip(("place", "formula"), inside, strict=True)),
        show_pictures(after) if _concerns("influence", was, after) else no_update,
    )


def _concerns(name: str, before: states.State | None, after: states.State) -> bool:
    """Return whether a part of the page can differ between two states."""
    if before is None or before.problem != after.problem:
        return True
    return any(getattr(before, field) != getattr(after, field) for field in LOOKS.get(name, ()))


def headline(state: states.State) -> tuple[str, list[Any], str]:
    """Return the sentence at the top, or the library's own on what it refuses; facts; what was done to the data."""
    try:
        run = compute.run(state)
    except RidgeformerError as error:
        return _sentence(error), [], ""
    return words.say_headline(state, run), _facts(state, run), " ".join(run.task.notes)


def show_pictures(state: states.State) -> list[Any]:
    """Return the images behind an influence, where rows are images and one is asked about."""
    try:
        found = pictures(compute.influenced(state), state.point)
    except RidgeformerError:
        return []
    return [
        html.Figure([html.Img(src=one.source, alt=one.words, title=one.words), html.Figcaption(one.caption)])
        for one in found
    ]


def place(state: states.State) -> tuple[str, str]:
    """Return where in the network one is, and the formula of that sublayer."""
    try:
        view = stream.look(state)
    except RidgeformerError:
        return BLOCKED, ""
    return f"{view.title} ({view.number} of {view.last}, {view.kind})", view.formula


def certify(clicks: Any, address: Any) -> list[Any]:
    """Return the certificate of the state shown, its verdict first: green, or red where it does not hold."""
    try:
        certificate = compute.certify_run(states.State.parse(address or ""))
    except RidgeformerError as error:
        return [html.Strong(_sentence(error), className="alarm")]
    verdict, _, rest = str(certificate).partition("\n")
    return [html.Strong(verdict, className="proved" if certificate.holds else "alarm"), "\n" + rest]


def _panel(name: str, state: states.State) -> tuple[Any, str]:
    try:
        return PANELS[name](state)
    except RidgeformerError:
        return figures.empty_figure("refused"), BLOCKED


def _prediction(state: states.State) -> tuple[Any, str]:
    run = compute.run(state)
    without = None
    if run.task.line and state.point is not None:
        without = compute.influenced(state).without(state.point)
    return figures.prediction_figure(run, without, state.point), words.say_prediction(state, run)


def _convergence(state: states.State) -> tuple[Any, str]:
    run = compute.run(state)
    figure = figures.convergence_figure(run) if len(run.errors) else figures.empty_figure("no steps")
    return figure, words.say_convergence(state, run)


def _spectrum(state: states.State) -> tuple[Any, str]:
    spectra = compute.spectrum(state)
    return figures.spectrum_figure(spectra), words.say_spectrum(state, spectra)


def _influence(state: states.State) -> tuple[Any, str]:
    found = compute.influenced(state)
    return figures.influence_figure(found, state.point), words.say_influence(state, found, state.point)


def _stream(state: states.State) -> tuple[Any, str]:
    view = stream.look(state)
    return figures.stream_figure(view), words.say_stream(state, view)


def _attention(state: states.State) -> tuple[Any, str]:
    view, found = stream.look(state), stream.pattern(state)
    figure = figures.empty_figure(f"no attention: {view.kind}") if found is None else figures.attention_figure(found)
    return figure, words.say_attention(state, view, found)


PANELS: dict[str, Callable[[states.State], tuple[Any, str]]] = {
    "prediction": _prediction,
    "convergence": _convergence,
    "spectrum": _spectrum,
    "influence": _influence,
    "stream": _stream,
    "pattern": _attention,
}
"""Panel by name: a figure and a sentence of a state."""

LOOKS = {
    "prediction": ("point",),
    "influence": ("point",),
    "stream": ("sublayer", "head"),
    "pattern": ("sublayer", "head"),
}
"""What of the view, beside the problem itself, a part of the page depends on."""


def _facts(state: states.State, run: compute.Run) -> list[Any]:
    budget = run.budget
    facts = {
        "distance": (words.number(run.distance(run.predicted)), "largest distance from exact"),
        "error": (words.number(float(run.errors[-1])) if len(run.errors) else "none", "relative error"),
        "bound": (words.number(float(run.bound[-1])) if len(run.bound) else "none", "its bound"),
        "kappa": (words.number(run.kappa), "condition number"),
        "width": (f"{budget.width}", f"width: {run.features[1]} features + {budget.width - run.features[1]}"),
        "layers": (f"{budget.sublayers}", f"sublayers, {budget.nonzeros:,} weights not zero"),
    }
    return [
        html.Div([html.Strong(value, id=f"fact-{name}"), html.Span(label)], className="fact")
        for name, (value, label) in facts.items()
    ]


def _sentence(error: RidgeformerError) -> str:
    text = " ".join(str(error).split())
    name = "." in text.partition(" ")[0]  # a file is called what it is called
    return text if name else text[:1].upper() + text[1:]
