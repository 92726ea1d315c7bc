"""What to see in each panel, in one plain sentence made of its numbers."""

from __future__ import annotations

import numpy as np

from ridgeformer.regime.spectra import Spectra
from ridgeformer.views.explorer.compute import Influenced, Run
from ridgeformer.views.explorer.state import State
from ridgeformer.views.explorer.stream import Pattern, View

__all__ = [
    "number",
    "say_attention",
    "say_convergence",
    "say_headline",
    "say_influence",
    "say_prediction",
    "say_spectrum",
    "say_stream",
]

NEAR = 0.01
"""Predictions within this part of their typical size look the same on the page."""


def number(value: float) -> str:
    """Return a number as a person reads it.

    Example:
        >>> number(0.1234), number(3.2e-7), number(0.0), number(24681.0)
        ('0.123', '3.2e-07', '0', '24,681')
    """
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e6 else f"{value:.1e}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.1e}"


def percent(part: float) -> str:
    """Return a part of one in per cent."""
    return f"{100 * part:.3g} %" if part < 10 else f"{part:,.0f} times"


def say_headline(state: State, run: Run) -> str:
    """Say whether the transformer solves the regression, and how the single head compares."""
    off, one = run.distance(run.predicted) / run.scale, run.distance(run.average) / run.scale
    layers = f"{state.steps} step{'s' * (state.steps != 1)}, {run.budget.sublayers} sublayers"
    if state.algorithm == "nadaraya_watson":
        return f"One softmax head is up to {percent(one)} of a typical output away from kernel ridge regression."
    if off < NEAR:
        start = f"{layers}: the transformer's answer is kernel ridge regression to within {percent(off)}"
    else:
        start = f"{layers}: the transformer is still up to {percent(off)} away from kernel ridge regression"
    return f"{start}; one softmax head alone is up to {percent(one)} away."


def say_prediction(state: State, run: Run) -> str:
    """Say how far the curves are from each other."""
    far, head = number(run.distance(run.predicted)), number(run.distance(run.average))
    narrow = ""
    if run.features[1] < run.features[0]:
        narrow = (
            f" The stream carries {run.features[1]} of {run.features[0]} features, which alone moves the answer by up "
            f"to {number(run.distance(run.limit))}."
        )
    where = "curve" if run.task.line else f"{len(run.exact)} held-out points"
    return (
        f"Over the {where} the transformer is at most {far} from exact kernel ridge regression, "
        f"and one softmax head (Nadaraya-Watson) at most {head}.{narrow}"
    )


def say_convergence(state: State, run: Run) -> str:
    """Say how far the error has fallen, and what was promised."""
    if not len(run.errors):
        return "One softmax head takes no steps, so there is nothing that could converge."
    error, bound = run.errors[-1], run.bound[-1]
    kept = "below" if bool((run.errors <= run.bound).all()) else "ABOVE"
    steps = f"{len(run.errors)} step{'s' * (len(run.errors) != 1)}"
    said = (
        f"After {steps} the relative error is {number(error)}; theory allows {number(bound)}, and "
        f"every step stays {kept} its bound (condition number {number(run.kappa)})."
    )
    return said if run.holds else f"{said} The bound's condition is not met here: {run.promise}."


def say_spectrum(state: State, spectra: Spectra) -> str:
    """Say how many directions matter at this ridge."""
    n, above = len(spectra.kernel), int((spectra.kernel > spectra.ridge).sum())
    return (
        f"{above} of {n} eigenvalues are above the ridge, and the effective dimension is {number(spectra.d_eff)}: "
        f"the best sketch needs {spectra.measured_10} of {n} directions for a relative error of 10 %."
    )


def say_stream(state: State, view: View) -> str:
    """Say where one is and what was just written."""
    rows, columns = view.values.shape
    place = f"{rows} tokens by {columns} columns"
    if view.kind == "embedding":
        return f"{place} as the embedding fills them; {view.last} sublayers follow."
    written = ", ".join(sorted(view.written))
    return f"{place} after sublayer {view.number} of {view.last} ({view.kind}), which wrote {written}."


def say_attention(state: State, view: View, found: Pattern | None) -> str:
    """Say where the head looks."""
    if found is None:
        what = "The embedding" if view.kind == "embedding" else "This gated sublayer"
        return f"{what} reads no other token; move to an attention sublayer to see who reads whom."
    block = found.weights[: found.supports, : found.supports]
    if not found.softmax:
        return (
            f"Linear attention, head {found.head!r}: weights are plain inner products, here from "
            f"{number(float(block.min()))} to {number(float(block.max()))}, with no softmax."
        )
    positive = np.where(block > 0, block, 1.0)
    share = block.sum(1, keepdims=True)
    safe = block / np.where(share > 0, share, 1.0)
    spread = float(np.exp(-(safe * np.log(positive / np.where(share > 0, share, 1.0))).sum(1)).mean())
    return f"Head {found.head!r}: a support spreads its attention over about {spread:.1f} of {found.supports} supports."


def say_influence(state: State, found: Influenced, point: int | None) -> str:
    """Say what the point that was clicked does, or did."""
    if found.task.line:
        if point is None:
            strongest = int(np.abs(found.change).max(1).argmax())
            return f"Click a point to see the fit without it. The most influential is {found.task.labels[strongest]}."
        change = found.change[point]
        assert found.task.grid is not None
        where = int(np.abs(change).argmax())
        return (
            f"Without {found.task.labels[point]} the exact fit moves by at most {number(abs(float(change[where])))}, "
            f"at x = {found.task.grid[where]:.3g}; at the point itself the fit copies "
            f"{percent(float(found.leverage[point]))} of its target."
        )
    if point is None:
        return "Click a held-out point in the prediction panel to see which training points made its prediction."
    change = found.change[:, point]
    up, down = int(change.argmax()), int(change.argmin())
    return (
        f"Held-out point {point} is predicted {number(float(found.exact[point]))}: {found.task.labels[up]} raises that "
        f"most (by {number(float(change[up]))}), {found.task.labels[down]} lowers it most (by "
        f"{number(-float(change[down]))})."
    )
