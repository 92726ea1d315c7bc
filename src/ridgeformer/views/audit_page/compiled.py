"""The compiled transformers that solve the same regression."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ridgeformer.auditing import Audit
from ridgeformer.auditing.skipped import Skipped
from ridgeformer.core.words import percent_at_most
from ridgeformer.views.figures import PALETTE, Figure, log_axis, styled
from ridgeformer.views.parts import Fragment, Part, Picture, Section, Table
from ridgeformer.views.viewer import render_viewer, trace_view

__all__ = ["compiled_figure", "compiled_section"]


def compiled_section(audit: Audit) -> Section:
    """Return the section on the compiled transformers."""
    first = audit.compiled[0]
    return Section(
        "The compiled transformers solving it",
        parts=(
            f"Two transformers were compiled for these features. Their weights know the ridge and the temperature and "
            f"nothing of the data: {first.supports} training rows are tokens they read, and conjugate gradients run in "
            "their layers. The width is the features plus what the program needs for its state, which every output has "
            "of its own.",
            _table(audit),
            f"Proved means: no answer on these held-out rows is further from exact ridge regression than this "
            "percentage of the largest exact answer of its output, whatever the weights are. The certificate is red "
            f"above {percent_at_most(first.certificate.tolerance)}, or if another check of the network fails.",
            Picture(compiled_figure(audit), _caption(audit),
                    "Error of two compiled transformers against the step, each below its dashed bound.", "compiled"),
            *_watch(audit),
        ),
        anchor="compiled",
    )  # fmt: skip


def compiled_figure(audit: Audit) -> Figure:
    """Return the error of the compiled transformers after every step, each under its bound."""
    figure = go.Figure()
    for model, colour in zip(audit.compiled, PALETTE, strict=False):
        steps, name = np.arange(1, model.steps + 1), f"{model.route} attention"
        errors = np.maximum(model.errors, 1e-16)
        figure.add_scatter(x=steps, y=errors, name=name, mode="lines", line={"color": colour, "width": 2.5})
        figure.add_scatter(
            x=steps, y=model.bound, name=f"bound, {name}", mode="lines", line={"color": colour, "dash": "dash"}
        )
    figure.update_xaxes(title="step (one block of layers)")
    figure.update_yaxes(
        **log_axis("error relative to the start", *(np.maximum(m.errors, 1e-16) for m in audit.compiled))
    )
    return styled(figure)


def _watch(audit: Audit) -> list[Part]:
    """Return the trace viewer on the model that is small enough for it."""
    watched = audit.watched
    if isinstance(watched, Skipped):
        return [f"There is no transformer to watch here: {watched.reason}"]
    name, task = audit.data.dataset.name, (watched.X, watched.y, watched.Xq)
    view = trace_view(watched.model, *task, name=f"{name}, {watched.output}", labels=watched.labels)
    return [
        f"To watch one at work, a smaller model of the same kind solves {watched.output} from {len(watched.X)} "
        f"training rows in {watched.model.spec.steps} steps: move the slider or press play, and choose a number to see "
        "where it comes from.",
        Fragment(render_viewer(view)),
    ]


def _caption(audit: Audit) -> str:
    ends = " and ".join(
        f"{model.errors[-1]:.1e} after {model.steps} steps with {model.route} attention" for model in audit.compiled
    )
    broken = [model.route for model in audit.compiled if bool((model.errors > model.bound).any())]
    under = "stays under" if not broken else f"EXCEEDS ({', '.join(broken)})"
    return (
        f"What to see: what the layers hold after every step (lines) {under} what theory allows (dashed), and ends at "
        f"an error of {ends}, measured in the norm of the problem. Where a line turns flat, the precision of the "
        "numbers is reached."
    )


def _table(audit: Audit) -> Table:
    head = ("model", "steps", "width", "layers", "weights", "not zero", "off the direct solve by", "certificate")
    rows = tuple(
        (
            f"{model.route} attention",
            str(model.steps),
            f"{model.features} + {model.budget.overhead}",
            f"{model.budget.sublayers:,}",
            f"{model.budget.parameters:,}",
            f"{model.budget.nonzeros:,}",
            f"{model.agreement:.1e}",
            model.certificate.verdict,
        )
        for model in audit.compiled
    )
    values = tuple(
        (
            model.route, model.steps, model.budget.width, model.budget.sublayers, model.budget.parameters,
            model.budget.nonzeros, model.agreement, model.certificate.verdict,
        )
        for model in audit.compiled
    )  # fmt: skip
    bad = frozenset(model.certificate.verdict for model in audit.compiled if not model.certificate.holds)
    return Table(head, rows, values, "compiled", alarms=bad)
