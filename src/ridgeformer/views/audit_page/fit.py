"""The fit on the page of an audit: the data, the compiled transformers, the width and depth needed."""

from __future__ import annotations

import numpy as np

from ridgeformer.auditing import Audit
from ridgeformer.auditing.convergence import TARGET
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import count, listed, number, percent, percent_at_most
from ridgeformer.views.figures import PALETTE, Figure, curve, draw, log_axis, vertical_line
from ridgeformer.views.parts import Facts, Fragment, Part, Picture, Section, Strip, Table, thumbnail
from ridgeformer.views.viewer import render_viewer, trace_view

__all__ = [
    "compiled_figure",
    "compiled_section",
    "data_section",
    "depth_figure",
    "size_section",
    "spectrum_figure",
    "width_figure",
]

MOST_IMAGES = 10
ROUND_OFF = 1e-16
"""Relative size below which eigenvalues and errors are not drawn."""

METHODS = {"chebyshev": "Chebyshev iteration", "richardson": "gradient descent"}
"""Full names of methods."""


# -- the data --------------------------------------------------------------------------------------


def data_section(audit: Audit) -> Section:
    """Return the section on the data and their spectrum."""
    dataset, s = audit.data.dataset, audit.spectra
    target = f"{len(dataset.classes)} classes" if dataset.classes else count(dataset.outputs, "numeric target")
    facts = [
        ("rank of the rows", f"{s.rank:,}", s.rank),
        ("directions that carry 99 % of the rows' squared norm", f"{s.energy_rank:,}", s.energy_rank),
        ("condition number of X X' on its range", number(s.condition), s.condition),
        ("condition number of K + ridge I", number(s.system_condition), s.system_condition),
        ("effective dimension of the kernel at the ridge", number(s.d_eff, 4), s.d_eff),
        ("ridge of the fit", number(s.ridge), s.ridge),
    ]
    parts: list[Part] = [
        f"{dataset.name}: {dataset.n:,} rows of {count(dataset.d, 'feature')}, {target}. {dataset.description}".strip(),
        Facts(audit.data.notes),
        *([] if dataset.image_shape is None else [_examples(audit)]),
        f"The rows span {count(s.rank, 'direction')}, of which {s.energy_rank} carry 99 % of their squared norm. The "
        f"kernel of attention, exp(x·z/temperature), has many more: at the ridge of the fit its effective dimension is "
        f"{s.d_eff:,.0f}, the directions it learns, each counted by the fraction learnt.",
        Picture(
            spectrum_figure(audit),
            _spectrum_caption(audit),
            "Eigenvalues of the rows and of the kernel on logarithmic axes, falling, and the ridge.",
            "spectrum",
        ),
        Table(
            ("measured on the training rows", "value"),
            tuple((name, shown) for name, shown, _ in facts),
            tuple((name, value) for name, _, value in facts),
            "spectrum_facts",
        ),
    ]
    return Section("The data and their spectrum", parts, anchor="data")


def spectrum_figure(audit: Audit) -> Figure:
    """Return the eigenvalues of the Gram and kernel matrices, with the ridge as a line."""
    s = audit.spectra
    spectra = {"rows, X X'": s.gram, "kernel of attention, K": s.kernel}
    shown = {name: values[values > values[0] * ROUND_OFF] for name, values in spectra.items()}
    traces = [
        curve(np.arange(1, len(values) + 1), values, name, colour)
        for (name, values), colour in zip(shown.items(), PALETTE, strict=False)
    ]
    span = [1, len(s.kernel)]
    traces.append(curve(span, [s.ridge] * 2, "ridge of the fit", PALETTE[2], dash="dash"))
    return draw(traces, log_axis("eigenvalue number", span), log_axis("eigenvalue", *shown.values(), [s.ridge]))


def _spectrum_caption(audit: Audit) -> str:
    s = audit.spectra
    above = int((s.kernel > s.ridge).sum())
    return (
        f"What to see: directions above the dashed ridge are learnt, those below it are smoothed away. {above:,} of "
        f"the kernel's {count(len(s.kernel), 'direction')} ({percent(above / len(s.kernel), 3)}) lie above it; the "
        f"rows themselves span only {s.rank}. The condition number of K + ridge I is {number(s.system_condition)}: it "
        "decides how deep a solver has to be."
    )


def _examples(audit: Audit) -> Strip:
    dataset = audit.data.dataset
    firsts = [int(np.flatnonzero(dataset.y == code)[0]) for code in np.unique(dataset.y)] if dataset.classes else []
    rows = (firsts or list(range(dataset.n)))[:MOST_IMAGES]
    titles = [dataset.classes[int(dataset.y[row])] if firsts else f"row {row}" for row in rows]
    return Strip(
        tuple(thumbnail(dataset, row, title) for row, title in zip(rows, titles, strict=True)),
        f"What to see: {'one row of each class' if firsts else 'the first rows'}. A row is a list of {dataset.d} "
        "brightnesses; the fit does not know which of them are neighbours.",
        "examples",
    )


# -- the compiled transformers ---------------------------------------------------------------------


def compiled_section(audit: Audit) -> Section:
    """Return the section on the compiled transformers."""
    first = audit.compiled[0]
    columns = dict.fromkeys(("model", "steps", "width", "layers", "weights", "not zero"), ",")
    columns |= {"model": "", "width": "", "off the direct solve by": ".1e", "certificate": ""}
    rows = [
        (
            f"{model.attention} attention", model.steps, f"{model.features} + {model.budget.overhead}",
            model.budget.sublayers, model.budget.parameters, model.budget.nonzeros, model.agreement,
            model.certificate.verdict,
        )
        for model in audit.compiled
    ]  # fmt: skip
    failed = [model.certificate.verdict for model in audit.compiled if not model.certificate.holds]
    return Section(
        "The compiled transformers solving it",
        (
            "Two transformers were compiled for these features. Their weights encode ridge, temperature and a bound on "
            f"the rows' lengths, but no row and no target: {first.supports:,} of the {first.training_rows:,} training "
            f"rows are tokens they read, and conjugate gradients run in their layers. {_whose(audit)} The "
            "width is the number of features plus the channels of the program's state, which "
            "every output has of its own.",
            Table.of(columns, rows, "compiled", alarms=failed),
            "Proved means: no answer on these held-out rows is further from exact ridge regression than this "
            "percentage of the largest exact answer of its output, whatever the weights are. The certificate is red "
            f"above {percent_at_most(first.certificate.tolerance)}, or if another check of the network fails.",
            Picture(
                compiled_figure(audit),
                _compiled_caption(audit),
                "Error of two compiled transformers against the step, each below its dashed bound.",
                "compiled",
            ),
            *_watch(audit),
        ),
        anchor="compiled",
    )


def _whose(audit: Audit) -> str:
    last = audit.compiled[-1]
    if last.supports == last.training_rows:
        return "Softmax attention answers as the certified fit does."
    return (
        "Their answers are those of ridge regression on these rows alone; softmax attention's are up to "
        f"{percent(last.from_fit or 0.0)} of a typical output away from the certified fit."
    )


def compiled_figure(audit: Audit) -> Figure:
    """Return the error of the compiled transformers after every step, each with its bound."""
    traces, shown = [], []
    for model, colour in zip(audit.compiled, PALETTE, strict=False):
        steps, name = np.arange(1, model.steps + 1), f"{model.attention} attention"
        shown.append(np.maximum(model.errors, ROUND_OFF))
        traces.append(curve(steps, shown[-1], name, colour))
        traces.append(curve(steps, model.bound, f"bound, {name}", colour, dash="dash", width=2))
    return draw(traces, "step (one block of layers)", log_axis("error relative to the start", *shown))


def _compiled_caption(audit: Audit) -> str:
    ends = listed(
        f"{model.errors[-1]:.1e} after {count(model.steps, 'step')} with {model.attention} attention"
        for model in audit.compiled
    )
    broken = [model.attention for model in audit.compiled if bool((model.errors > model.bound).any())]
    under = "stays below" if not broken else f"EXCEEDS ({', '.join(broken)})"
    return (
        f"What to see: the error after every step (solid) {under} the theoretical bound (dashed) and ends at {ends}, "
        "measured in the norm of the problem. Where a curve turns flat, it has reached floating-point precision."
    )


def _watch(audit: Audit) -> list[Part]:
    """Return the trace viewer on a model small enough for it."""
    watched = audit.watched
    if isinstance(watched, Skipped):
        return [f"There is no transformer to watch here: {watched.reason}"]
    name, task = audit.data.dataset.name, (watched.X, watched.y, watched.Xq)
    view = trace_view(watched.model, *task, name=f"{name}, {watched.output}", labels=watched.labels)
    return [
        f"To watch one at work, a smaller model of the same kind solves {watched.output} from {len(watched.X)} "
        f"training rows in {count(watched.model.spec.steps, 'step')}: move the slider or press play, and select a "
        "number to see how it was computed.",
        Fragment(render_viewer(view)),
    ]


# -- width and depth -------------------------------------------------------------------------------


def size_section(audit: Audit) -> Section:
    """Return the section on width and depth."""
    s, convergence = audit.spectra, audit.convergence
    bound = "Conjugate gradients stay below their bound at every step."
    if not convergence.bound_holds:
        bound = "Conjugate gradients EXCEED their bound, which theory excludes: something is wrong with this run."
    columns = {"method": "", f"steps to {100 * TARGET:g} %": "", "error at the last step shown": ".1e"}
    rows = [
        (METHODS.get(one.method, one.method), _steps(one.steps_to_target, one.errors, ">"), float(one.errors[-1]))
        for one in convergence.curves
    ]
    return Section(
        "Width needed, depth needed",
        (
            f"Width: a model that stores the kernel's features one by one needs {s.measured_10:,} of them to keep the "
            f"worst relative error on training rows below 10 % ({s.width_10:,} are guaranteed to be enough) and "
            f"{s.measured_1:,} to keep it below 1 % ({s.width_1:,} guaranteed). More than the {len(s.kernel):,} "
            "training rows are never needed, and softmax attention stores none: it computes the kernel from the rows.",
            Picture(
                width_figure(audit),
                _width_caption(audit),
                "Worst relative error of the best features against their number, below its bound.",
                "width",
            ),
            "Depth: each step is one block of layers in a transformer that solves this fit, and the error after it is "
            f"measured. {bound}",
            Picture(
                depth_figure(audit),
                _depth_caption(audit),
                "Relative error of four iterative methods against the step, on a logarithmic axis.",
                "depth",
            ),
            Table.of(columns, rows, "depth"),
        ),
        anchor="size",
    )


def width_figure(audit: Audit) -> Figure:
    """Return the worst relative error of the best features against their number, with the bound of claim W4."""
    found = audit.claims
    traces = [
        curve(found.widths, found.errors, "best features of this number"),
        curve(found.widths, found.guarantee, "guaranteed", PALETTE[1], dash="dash", width=2),
        vertical_line(audit.spectra.d_eff, (0, 1), "effective dimension"),
    ]
    y = {"title": "worst relative error", "range": [0, 1.05], "tickformat": ".0%"}
    return draw(traces, log_axis("stored features", found.widths), y)


def depth_figure(audit: Audit) -> Figure:
    """Return the error of every method against the step, with the bound for conjugate gradients."""
    errors = [np.maximum(one.errors, ROUND_OFF) for one in audit.convergence.curves]
    traces = [
        curve(None, values, METHODS.get(one.method, one.method), colour)
        for one, values, colour in zip(audit.convergence.curves, errors, PALETTE, strict=False)
    ]
    traces.append(curve(None, audit.convergence.bound, "bound for conjugate gradients", dash="dash", width=2))
    return draw(traces, "step", log_axis("error relative to the start", *errors))


def _width_caption(audit: Audit) -> str:
    found, s = audit.claims, audit.spectra
    at = float(np.interp(s.d_eff, found.widths, found.errors))
    enough = "that many features are enough for 10 %"
    if at > 0.1:
        enough = f"that many features are not enough, and it takes {s.measured_10:,} to bring it below 10 %"
    return (
        f"What to see: at the effective dimension ({s.d_eff:,.0f}, dotted) the worst error is {percent(at)}; "
        f"{enough}. The dashed guarantee is never below the curve."
    )


def _depth_caption(audit: Audit) -> str:
    first, *_, last = audit.convergence.curves
    bound = np.flatnonzero(audit.convergence.bound <= TARGET)
    needed = _steps(int(bound[0]) if bound.size else None, audit.convergence.bound)
    return (
        f"What to see: the steeper the curve, the shallower the model. For an error of {100 * TARGET:g} % conjugate "
        f"gradients take {_steps(first.steps_to_target, first.errors)} steps, gradient descent "
        f"{_steps(last.steps_to_target, last.errors)}; the dashed bound needs {needed}, because it uses only the "
        "extreme eigenvalues."
    )


def _steps(steps: int | None, errors: np.ndarray, more: str = "more than") -> str:
    return f"{more} {len(errors) - 1}" if steps is None else str(steps)
