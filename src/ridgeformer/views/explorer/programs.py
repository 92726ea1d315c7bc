"""Programs in the explorer: a page for each, those that ship and those of one's own, with the trace viewer in it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from functools import lru_cache

from flask import Flask, request
from markupsafe import Markup

from ridgeformer.algorithms.written import WRITTEN, WrittenAlgorithm
from ridgeformer.compiler.compile import compile
from ridgeformer.core.errors import InputError, RidgeformerError, unknown_name
from ridgeformer.programs import PROGRAMS
from ridgeformer.views.explorer.data import FUNCTIONS, load_regression
from ridgeformer.views.explorer.state import State
from ridgeformer.views.page import fill
from ridgeformer.views.viewer import render_viewer, trace_view

__all__ = ["add_programs", "program_page"]

FIRST = next(iter(PROGRAMS))
DATA = (*FUNCTIONS, "diabetes", "wine")
ROWS, STEPS, MOST_STEPS = 20, 6, 40
LABELS = "Targets are 0 or 1"
"""In the docstring of a program that takes labels."""


def add_programs(server: Flask) -> None:
    """Serve a page for every program below /programs."""

    @server.get("/programs")
    @server.get("/programs/<name>")
    def programs(name: str = FIRST) -> tuple[str, int]:
        data, steps = request.args.get("data", "sine"), request.args.get("steps", "")
        try:
            return program_page(name, data, steps), 200
        except RidgeformerError as error:
            return _page(FIRST, "sine", STEPS, f"This cannot be shown: {error}", Markup("")), 400


def program_page(name: str, data: str = "sine", steps: str = "") -> str:
    """Return the page of a program: its first steps on some data, sublayer by sublayer.

    Raises:
        UnknownNameError: no such program or data.
        InputError: steps that are no number from 1 to 40, or what the program refuses.
    """
    known = PROGRAMS | WRITTEN
    if name not in known:
        raise unknown_name("program", name, known)
    if data not in DATA:
        raise unknown_name("data", data, DATA)
    if steps and not (steps.isascii() and steps.isdigit()):
        raise InputError(f"steps is {steps!r}; a whole number from 1 to {MOST_STEPS} was expected.")
    number = int(steps[:4] or STEPS)
    if not 1 <= number <= MOST_STEPS:
        raise InputError(f"steps is {number}; a whole number from 1 to {MOST_STEPS} was expected.")
    return _shown(known[name](steps=number), name, data)


@lru_cache(maxsize=8)
def _shown(program: WrittenAlgorithm, name: str, data: str) -> str:
    task = load_regression(State(data=data, rows=ROWS))
    y, note = task.y, "Targets are centred."
    if LABELS in (program.__doc__ or ""):
        y, note = (y > 0).to(y), "Targets are 1 above their mean and 0 below it."
    model = compile(program, features=task.X.shape[1])
    at = (task.x, task.grid) if task.x is not None and task.grid is not None else None
    view = trace_view(model, task.X, y, task.Xq, at=at, name=task.name)
    text = inspect.cleandoc(program.__doc__ or program.family)
    return _page(name, data, model.spec.steps, f"{text}\n\n{note}", Markup(render_viewer(view)))


def _page(name: str, data: str, steps: int, text: str, viewer: Markup) -> str:
    """Return the page: every program, the data, the steps, and the viewer."""
    known = {other: type_.__doc__ or "" for other, type_ in sorted((PROGRAMS | WRITTEN).items())}
    options = [f"{field.name}={field.default}" for field in fields((PROGRAMS | WRITTEN)[name]) if field.name != "steps"]
    body = fill(
        "explorer/programs.html.j2", name=name, data=data, steps=steps, text=text.split("\n\n"), viewer=viewer,
        names={other: inspect.cleandoc(text).partition("\n")[0] for other, text in known.items()}, sources=DATA,
        call=f"{'rf.programs.' * (name in PROGRAMS)}{name}({', '.join([f'steps={steps}', *options])})", most=MOST_STEPS,
    )  # fmt: skip
    return fill("viewer/viewer_page.html.j2", title=f"Programs: {name.replace('_', ' ')}", body=Markup(body))
