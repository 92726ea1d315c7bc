"""How wide and how deep a model has to be for this fit."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ridgeformer.auditing import Audit
from ridgeformer.auditing.convergence import TARGET
from ridgeformer.views.figures import PALETTE, Figure, log_axis, styled
from ridgeformer.views.parts import Picture, Section, Table

__all__ = ["depth_figure", "size_section", "width_figure"]

METHODS = {"chebyshev": "Chebyshev iteration", "richardson": "gradient descent"}
"""Methods whose name says less than this."""


def size_section(audit: Audit) -> Section:
    """Return the section on width and depth."""
    s = audit.spectra
    return Section(
        "Width needed, depth needed",
        parts=(
            f"Width: a model that stores the kernel's features one by one needs {s.measured_10:,} of them to keep the "
            f"worst relative error on training rows below 10 % ({s.width_10:,} are guaranteed to be enough) and "
            f"{s.measured_1:,} to keep it below 1 % ({s.width_1:,} guaranteed). More than the {len(s.kernel):,} "
            "training rows are never needed, and softmax attention stores none: it computes the kernel from the rows.",
            Picture(width_figure(audit), _width_caption(audit),
                    "Worst relative error of the best features against their number, below its bound.", "width"),
            f"Depth: each step is one block of layers in a transformer that solves this fit, and the error after it is "
            f"measured. {_bound(audit)}",
            Picture(depth_figure(audit), _depth_caption(audit),
                    "Relative error of four iterative methods against the step, on a logarithmic axis.", "depth"),
            _table(audit),
        ),
        anchor="size",
    )  # fmt: skip


def width_figure(audit: Audit) -> Figure:
    """Return the worst relative error of the best features of each number, with the bound of claim W4."""
    found, d_eff = audit.claims, audit.spectra.d_eff
    figure = go.Figure()
    figure.add_scatter(
        x=found.widths,
        y=found.errors,
        mode="lines",
        name="best features of this number",
        line={"color": PALETTE[0], "width": 2.5},
    )
    figure.add_scatter(
        x=found.widths,
        y=found.guarantee,
        mode="lines",
        name="guaranteed",
        line={"color": PALETTE[1], "dash": "dash"},
    )
    figure.add_scatter(
        x=[d_eff] * 2, y=[0, 1], name="effective dimension", mode="lines", line={"color": PALETTE[2], "dash": "dot"}
    )  # fmt: skip
    figure.update_xaxes(**log_axis("stored features", found.widths))
    figure.update_yaxes(title="worst relative error", range=[0, 1.05], tickformat=".0%")
    return styled(figure)


def depth_figure(audit: Audit) -> Figure:
    """Return the error of every method against the step, with the bound for conjugate gradients."""
    figure = go.Figure()
    for curve, colour in zip(audit.convergence.curves, PALETTE, strict=False):
        steps, errors = np.arange(len(curve.errors)), np.maximum(curve.errors, 1e-16)
        name = METHODS.get(curve.method, curve.method)
        figure.add_scatter(x=steps, y=errors, name=name, mode="lines", line={"color": colour, "width": 2.5})
    bound = audit.convergence.bound
    figure.add_scatter(
        x=np.arange(len(bound)), y=bound, mode="lines", name="bound for conjugate gradients",
        line={"color": PALETTE[0], "dash": "dash"},
    )  # fmt: skip
    figure.update_xaxes(title="step")
    figure.update_yaxes(
        **log_axis("error relative to the start", *(np.maximum(c.errors, 1e-16) for c in audit.convergence.curves))
    )
    return styled(figure)


def _width_caption(audit: Audit) -> str:
    found, s = audit.claims, audit.spectra
    at = float(np.interp(s.d_eff, found.widths, found.errors))
    enough = "that many features are enough for 10 %"
    if at > 0.1:
        enough = f"that many features are not enough, and it takes {s.measured_10:,} to bring it below 10 %"
    return (
        f"What to see: at the effective dimension ({s.d_eff:,.0f}, dotted) the worst error is {100 * at:.0f} %; "
        f"{enough}. The dashed guarantee is never below the curve."
    )


def _depth_caption(audit: Audit) -> str:
    first, *_, last = audit.convergence.curves
    fast, slow = first.steps_to_target, last.steps_to_target
    shown = f"{fast} steps" if fast is not None else f"more than {len(first.errors) - 1} steps"
    other = f"{slow}" if slow is not None else f"more than {len(last.errors) - 1}"
    bound = np.flatnonzero(audit.convergence.bound <= TARGET)
    said = f"{bound[0]} steps" if bound.size else f"more than {len(audit.convergence.bound) - 1} steps"
    return (
        f"What to see: steeper is shallower. For an error of {100 * TARGET:g} % conjugate gradients take {shown}, "
        f"gradient descent {other}; the dashed bound asks for {said}, because it knows only the ends of the spectrum."
    )


def _bound(audit: Audit) -> str:
    if audit.convergence.bound_holds:
        return "Conjugate gradients are below their bound at every step."
    return "Conjugate gradients EXCEED their bound, which theory excludes: something is wrong with this run."


def _table(audit: Audit) -> Table:
    curves = audit.convergence.curves
    rows = tuple(
        (
            METHODS.get(curve.method, curve.method),
            str(curve.steps_to_target) if curve.steps_to_target is not None else f"> {len(curve.errors) - 1}",
            f"{curve.errors[-1]:.1e}",
        )
        for curve in curves
    )
    values = tuple((METHODS.get(c.method, c.method), c.steps_to_target, float(c.errors[-1])) for c in curves)
    return Table(("method", f"steps to {100 * TARGET:g} %", "error at the last step shown"), rows, values, "depth")
