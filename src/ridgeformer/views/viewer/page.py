"""A view as a piece of a page, or as a page of its own: one file, no outside request."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError
from ridgeformer.views.page import fill, formula, write_html
from ridgeformer.views.viewer.view import Array, TraceView

__all__ = ["render_viewer", "view_data", "write_viewer"]

SCRIPTS = tuple(
    f"{name}.js"
    for name in ("network", "engine", "plots", "state", "grid", "number", "answer", "attention", "circuit", "controls")
)
"""In the order in which they stand in the page, where they are one script."""


def render_viewer(view: TraceView, *, start: int = 0) -> str:
    """Return the viewer as one HTML element that brings its style, its script and its data.

    It opens after `start` sublayers; 0 is the embedding.
    """
    start = whole(start, "start", 0)
    if start > len(view.sublayers):
        raise InputError(f"start is {start} and the run has {len(view.sublayers)} sublayers: choose one of those.")
    folder = files("ridgeformer.views.viewer")
    data = json.dumps(view_data(view), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    living = view.sublayers[-1].alive
    shown = [c for c in view.channels if c.name in living and c.group in ("state", "scratch")]
    rows = [
        (token.label, [f"{view.stream[-1, row, channel.columns[0]]:.4g}" for channel in shown])
        for row, token in enumerate(view.tokens)
        if token.visible
    ]
    return fill(
        "viewer/viewer.html.j2",
        view=view,
        start=start,
        data=Markup(data),  # no "<" is left in it
        script=Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)),
        style=Markup((folder / "viewer.css").read_text(encoding="utf-8")),
        last={"head": [channel.name for channel in shown], "rows": rows},  # for paper: the end, of the first output
    )


def write_viewer(view: TraceView, path: Path, *, start: int = 0) -> Path:
    """Write the viewer as a whole page; an old one is replaced in one step."""
    title = "Watch a transformer solve a regression"
    body = Markup(render_viewer(view, start=start))  # our own template made it
    return write_html(fill("viewer/viewer_page.html.j2", title=title, body=body), path)


def view_data(view: TraceView) -> dict[str, Any]:
    """Return a view as compact JSON values.

    Arrays are float64 in base64, so that the page's arithmetic is the model's to the last digits: the imitating
    heads cancel five of them. Of every sublayer only the columns that it changed are kept.
    """
    maths = {latex: formula(latex) for shown in view.sublayers for latex in shown.formulas}
    sublayers = []
    for before, after, shown in zip(view.stream[:-1], view.stream[1:], view.sublayers, strict=True):
        changed = np.flatnonzero((before != after).any(axis=0))
        facts = {key: value for key, value in asdict(shown).items() if key != "formulas"}
        delta = {"columns": changed.tolist(), "values": _packed(after[:, changed])}
        sublayers.append({**facts, "formulas": [maths[latex] for latex in shown.formulas], **delta})
    plain = ("name", "program", "subject", "verdict", "holds", "born", "modules", "reading", "smallest")
    arrays = ("targets", "predictions", "exact")
    return {
        **{name: getattr(view, name) for name in plain},
        "tokens": [asdict(token) for token in view.tokens],
        "channels": [asdict(channel) for channel in view.channels],
        "sublayers": _shared(sublayers),
        "width": view.stream.shape[-1],
        "outputs": view.targets.shape[1],
        "stream": _packed(view.stream[0]),
        **{name: _packed(getattr(view, name)) for name in arrays},
        **{n: None if (a := getattr(view, n)) is None else _packed(a) for n in ("smoother", "averager", "bound")},
        "at": None if view.at is None else [places.tolist() for places in view.at],
    }


def _shared(sublayers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sublayers with repeated sentences, formulas and channel lists kept once."""
    kept: dict[str, int] = {}
    rows = []
    for row in sublayers:
        texts = [json.dumps(row[key]) for key in ("sentence", "formulas", "alive")]
        numbers = [kept.setdefault(text, len(kept)) for text in texts]
        rows.append({**row, **dict(zip(("sentence", "formulas", "alive"), numbers, strict=True))})
    return {"rows": rows, "kept": [json.loads(text) for text in kept]}


def _packed(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")
