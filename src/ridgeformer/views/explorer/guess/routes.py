"""The game's page and its answers, on the explorer's server."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files

from flask import Flask, Response, request
from markupsafe import Markup

from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.identification import separating
from ridgeformer.views.explorer.guess import (
    FEATURES,
    NONE,
    SYMMETRIES,
    answer,
    at_least_a_trace,
    draw_curve,
    examine,
    first_points,
    titles,
)
from ridgeformer.views.page import fill

__all__ = ["add_game", "render_game"]

SCRIPTS = ("viewer/plots.js", "explorer/guess/guess.js")


def render_game() -> str:
    """Return the page."""
    folder = files("ridgeformer.views")
    script = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    tests = {name: words[0] for name, words in SYMMETRIES.items()}
    half = separating(FEATURES).count // 2
    words = {"tests": tests, "suspects": titles(), "none": NONE, "half": half, "features": FEATURES}
    return fill("explorer/guess/guess.html.j2", script=Markup(script), **words)


def add_game(server: Flask) -> None:
    """Serve the page and what it asks for; a refusal is a sentence with the status 400."""
    asked: dict[str, Callable[[int], object]] = {
        "points": lambda number: dict(zip(("x", "y"), first_points(number), strict=True)),
        "curve": lambda number: draw_curve(number, _numbers("x"), _numbers("y"), request.args.get("suspect") or None),
        "symmetry": lambda number: dict(
            zip(("value", "says"), examine(number).symmetry(request.args.get("name", "")), strict=True)
        ),
        "suspect": _suspect,
        "answer": lambda number: vars(answer(number, request.args.get("guess", ""))),
    }

    def reply(what: str) -> Response:
        try:
            if what not in asked:
                raise InputError(f"there is nothing called {what[:40]!r} in the game.")
            return _json(asked[what](_round()))
        except RidgeformerError as error:
            return _json({"refused": str(error)}, 400)

    server.add_url_rule("/guess", "guess", render_game)
    server.add_url_rule("/guess/<what>", "guess_reply", reply)


def _suspect(number: int) -> dict[str, object]:
    found = examine(number).suspect(request.args.get("name", ""))
    return {"title": found.title, "error": found.error, "says": f"{at_least_a_trace(found.error)} unexplained"}


def _round() -> int:
    text = request.args.get("round", "")
    if not text.isdecimal():
        raise InputError(f"round is {text[:40]!r}; a whole number from 1 was expected.")
    return int(text)


def _numbers(name: str) -> list[float]:
    text = request.args.get(name, "")
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} is {text[:40]!r}; numbers with commas between them were expected.") from None


def _json(value: object, status: int = 200) -> Response:
    return Response(json.dumps(value, allow_nan=False), status, mimetype="application/json")
