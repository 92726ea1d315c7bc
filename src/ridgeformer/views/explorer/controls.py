"""What every control does to the state, as pure functions: the page shows the state and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log10
from typing import Any

from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.language.program import Attend, Record
from ridgeformer.views.explorer.compute import compiled, width_range
from ridgeformer.views.explorer.data import FUNCTIONS, load_regression
from ridgeformer.views.explorer.state import ALGORITHMS, ATTENTIONS, DRAWN, LIMITS, SOURCES, State

__all__ = [
    "PRESETS", "add_point", "apply", "keep", "pick_data", "pick_point", "pick_scene", "remove_point", "scope", "settle",
    "shown", "swap",
]  # fmt: skip

SUGGESTED: dict[str, dict[str, Any]] = {
    "digits": {"rows": 100, "temperature": 0.5, "ridge": 1.0, "steps": 16},
    "diabetes": {"rows": 120, "temperature": 10.0, "ridge": 1.0, "steps": 12},
    "wine": {"rows": 100, "temperature": 13.0, "ridge": 0.1, "steps": 12},
    "upload": {"rows": 100, "temperature": 5.0, "ridge": 0.1, "steps": 12},
}
"""Settings at which data show something; one-dimensional data begin with those of `State()`."""

FIRST_POINTS = ((-0.8, -0.6), (-0.4, 0.5), (0.0, 0.1), (0.4, -0.5), (0.8, 0.7))

PRESETS: dict[str, State] = {
    "Depth solves it": State(steps=20),
    "One head is not enough": State(algorithm="nadaraya_watson", sublayer=1),
    "Stock softmax only": State(attention="vanilla", algorithm="richardson", steps=60, ridge=1.0, sublayer=60),
    "Linear attention": State(kernel="dot_product", attention="linear", ridge=0.01, steps=9, sublayer=3),
    "Gaussian kernel": State(kernel="gaussian", temperature=0.1, steps=16),
    "Momentum": State(algorithm="nesterov", steps=40, ridge=1.0),
    "Too narrow": State(width=16, steps=20),
    "Ill-conditioned": State(ridge=1e-5, steps=20),
    "Who made this digit?": State(data="digits", rows=100, output=3, ridge=1.0, steps=16, point=28),
}
"""Scenes worth seeing, one click each."""

CHOICES = ("kernel", "attention", "algorithm", "sketch")
NUMBERS = ("rows", "output", "steps", "sublayer", "head")
LOGARITHMS = ("ridge", "temperature")


@dataclass(frozen=True)
class Scope:
    """The choices that a state leaves.

    Attributes:
        least, full: Smallest width, and the one that carries every feature.
        sublayers, heads: Number of sublayers, and the heads of the one shown.
        outputs: Targets to choose from.
        line: Whether the data are one-dimensional.
        askable: Number of points that can be selected.
    """

    least: int = 1
    full: int = 1
    sublayers: int = 1
    heads: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("y",)
    line: bool = True
    askable: int = 0

    def fit_width(self, state: State) -> State:
        """Return the state with a width its program fits in; one that carries everything is None."""
        if state.width is None or state.width >= self.full:
            return replace(state, width=None)
        return replace(state, width=max(state.width, self.least))


def scope(state: State) -> Scope:
    """Return the choices; where the library refuses the state, those known without it."""
    found = Scope(line=state.data in FUNCTIONS or state.data == DRAWN)
    try:
        task = load_regression(state)
        least, full = width_range(state)
        found = Scope(least, full, 1, (), task.outputs, task.line, len(task.X) if task.line else len(task.Xq))
        passed = [i for _, i, _ in compiled(found.fit_width(state)).schedule if not isinstance(i, Record)]
    except RidgeformerError:
        return found
    here = passed[min(state.sublayer, len(passed)) - 1] if state.sublayer else None
    heads = tuple(head.name for head in here.heads) if isinstance(here, Attend) else ()
    return replace(found, sublayers=len(passed), heads=heads)


def settle(state: State) -> State:
    """Return the state with everything that depends on something else within its range."""
    found = scope(state)
    return replace(
        found.fit_width(state),
        point=state.point if state.point is None or state.point < found.askable else None,
        output=state.output if state.output < len(found.outputs) else 0,
        head=state.head if state.head < len(found.heads) else 0,
        sublayer=min(state.sublayer, found.sublayers),
    )


def shown(state: State, found: Scope) -> dict[str, Any]:
    """Return what every control shows in a state.

    Example:
        >>> controls = shown(State(ridge=0.01), Scope(least=12, full=21))
        >>> controls["ridge"], controls["width"]
        (-2.0, 21)
    """
    values: dict[str, Any] = {name: getattr(state, name) for name in (*CHOICES, *NUMBERS, "point")}
    values |= {name: round(log10(getattr(state, name)), 2) for name in LOGARITHMS}
    values["data"] = state.data if state.data in SOURCES else "upload"
    values["width"] = found.full if state.width is None else state.width
    return values


def same(value: Any, wanted: Any) -> bool:
    """Return whether a control shows a value already; browsers give numbers as text."""
    if isinstance(wanted, str) or wanted is None or value is None or value == "":
        return bool(value == wanted)
    return abs(float(value) - float(wanted)) < 1e-9


def apply(state: State, chosen: Mapping[str, Any]) -> State:
    """Return the state after a person moved controls: those that show something else than the state does.

    A control that is empty says nothing, but for the selected point. Values out of range are refused.
    """
    found = scope(state)
    before = shown(state, found)
    given: dict[str, Any] = {name: None if value == "" else value for name, value in chosen.items()}
    moved = {
        name: value
        for name, value in given.items()
        if (value is not None or name == "point") and not same(value, before[name])
    }
    if "data" in moved:
        return pick_data(state, moved["data"])
    changes: dict[str, Any] = {}
    for name, value in moved.items():
        if name in LOGARITHMS:
            changes[name] = float(f"{10 ** float(value):.3g}")
        elif name == "width":
            changes[name] = None if int(value) >= found.full else int(value)
        else:
            changes[name] = value if name in CHOICES or value is None else int(value)
    for name, over, known in (("attention", "kernel", ATTENTIONS), ("algorithm", "attention", ALGORITHMS)):
        above = changes.get(over, getattr(state, over))
        if above in known and changes.get(name, getattr(state, name)) not in known[above]:
            changes[name] = known[above][0]
    return settle(replace(state, **changes))


def pick_scene(state: State, name: str) -> State:
    """Return a scene; settings kept for comparison stay beside it."""
    return settle(replace(PRESETS[name], against=state.against))


def keep(state: State) -> State:
    """Return the state with its own settings kept for comparison."""
    return replace(state, against=state.problem.address)


def swap(state: State) -> State:
    """Return the kept settings, with those of the state kept instead."""
    if state.kept is None:
        raise InputError("no settings are kept for comparison: keep some first.")
    return settle(replace(state.kept, against=state.problem.address))


def pick_data(state: State, data: str) -> State:
    """Return the state for other data, with settings at which they show something."""
    if data == "upload":
        return state  # the file itself makes the change
    plain = replace(state, data=data, output=0, point=None, width=None)
    if data in SUGGESTED or data not in SOURCES:
        return settle(replace(plain, points=(), **SUGGESTED.get(data, SUGGESTED["upload"])))
    like = {name: getattr(State, name) for name in ("rows", "ridge", "temperature", "steps")}
    if state.data in FUNCTIONS or state.data == DRAWN:
        like = {name: getattr(state, name) for name in like}
    points = (_points(state) or FIRST_POINTS) if data == DRAWN else ()
    return settle(replace(plain, points=points, **like))


def add_point(state: State, x: float, y: float) -> State:
    """Return the state with one more point; points of a function become drawn ones."""
    if state.data not in FUNCTIONS and state.data != DRAWN:
        raise InputError("points can be drawn beside one-dimensional toy data only: choose those, or 'drawn'.")
    points = sorted((*_points(state), (round(float(x), 3), round(float(y), 3))))
    return settle(replace(state, data=DRAWN, points=tuple(points), point=None))


def remove_point(state: State) -> State:
    """Return the state without the selected point; drawn points and toy functions only."""
    points = list(_points(state))
    if state.point is None or state.point >= len(points):
        raise InputError("no drawn point is selected: click one first, or give its number.")
    del points[state.point]
    return settle(replace(state, data=DRAWN, points=tuple(points), point=None))


def pick_point(state: State, point: int) -> State:
    """Return the state with a point selected, or none if it was selected before."""
    return settle(replace(state, point=None if point == state.point else point))


def _points(state: State) -> tuple[tuple[float, float], ...]:
    """Return the points of one-dimensional toy data, by position, rounded as an address writes them."""
    if state.data == DRAWN:
        return tuple(sorted(state.points))
    if state.data not in FUNCTIONS:
        return ()
    task = load_regression(state)
    assert task.x is not None
    return tuple((round(float(x), 3), round(float(y), 3)) for x, y in zip(task.x, task.targets, strict=True))


def limits(name: str) -> tuple[int | float, int | float]:
    """Return the ends of a control."""
    low, high = LIMITS[name]
    return (log10(low), log10(high)) if name in LOGARITHMS else (low, high)
