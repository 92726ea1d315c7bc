"""The figures of a report, one function each, from a finished audit."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ridgeformer import bounds
from ridgeformer.audit import Audit

__all__ = ["PALETTE", "compiled_figure", "convergence_figure", "spectrum_figure", "styled", "width_figure"]

PALETTE = ("#3b6fd4", "#d1603d", "#2f9e77", "#8a63c9", "#b08a1e")


def spectrum_figure(audit: Audit) -> go.Figure:
    """Return the eigenvalues of the Gram and kernel matrices, with the ridge as a line."""
    figure = go.Figure()
    for (name, values), colour in zip(
        (("Gram matrix X X'", audit.spectra.gram), ("kernel matrix K", audit.spectra.kernel)), PALETTE, strict=False
    ):
        shown = values[values > values[0] * 1e-16]
        figure.add_scatter(x=np.arange(1, len(shown) + 1), y=shown, name=name, mode="lines", line_color=colour)
    span, ridge = [1, len(audit.spectra.kernel)], audit.spectra.ridge
    figure.add_scatter(x=span, y=[ridge, ridge], name="ridge", mode="lines", line={"color": PALETTE[2], "dash": "dash"})
    figure.update_xaxes(title="eigenvalue number", type="log")
    figure.update_yaxes(title="eigenvalue", type="log", exponentformat="power")
    return styled(figure)


def width_figure(audit: Audit) -> go.Figure:
    """Return the relative in-sample error of the best sketch against its width, with the bound of claim W4."""
    spectra = audit.spectra
    limit = len(spectra.kernel)
    widths = np.unique(np.round(np.geomspace(1, limit, 120)).astype(int))
    errors = [bounds.pca_relative_error(spectra.kernel, int(m), spectra.ridge) for m in widths]
    ceiling = [min(bounds.pca_relative_error_bound(spectra.d_eff, int(m)), 1.0) for m in widths]
    figure = go.Figure()
    figure.add_scatter(x=widths, y=errors, mode="lines", name="best sketch of this width", line_color=PALETTE[0])
    figure.add_scatter(
        x=widths, y=ceiling, mode="lines", name="bound d_eff/(m + 1)", line={"color": PALETTE[1], "dash": "dash"}
    )
    figure.add_scatter(
        x=[spectra.d_eff] * 2, y=[0, 1], name="effective dimension", mode="lines",
        line={"color": PALETTE[2], "dash": "dot"},
    )  # fmt: skip
    figure.update_xaxes(title="width m", type="log")
    figure.update_yaxes(title="worst relative error", range=[0, 1.05])
    return styled(figure)


def convergence_figure(audit: Audit) -> go.Figure:
    """Return the error of every method against the step, with the bound for conjugate gradients."""
    figure = go.Figure()
    for curve, colour in zip(audit.convergence.curves, PALETTE, strict=False):
        figure.add_scatter(y=np.maximum(curve.errors, 1e-16), name=curve.method, mode="lines", line_color=colour)
    bound = audit.convergence.bound
    figure.add_scatter(
        y=bound, mode="lines", name="bound for conjugate gradients", line={"color": PALETTE[0], "dash": "dash"}
    )
    figure.update_xaxes(title="step")
    figure.update_yaxes(title="relative error (A-norm)", type="log", exponentformat="power")
    return styled(figure)


def compiled_figure(audit: Audit) -> go.Figure:
    """Return the error of the compiled transformers after every step, each under its bound."""
    figure = go.Figure()
    for model, colour in zip(audit.compiled, PALETTE, strict=False):
        steps = np.arange(1, model.steps + 1)
        errors, name = np.maximum(model.errors, 1e-16), f"{model.route} attention"
        figure.add_scatter(x=steps, y=errors, name=name, mode="lines", line_color=colour)
        figure.add_scatter(
            x=steps, y=model.bound, name=f"bound, {name}", mode="lines", line={"color": colour, "dash": "dash"}
        )
    figure.update_xaxes(title="step (one block of layers)")
    figure.update_yaxes(title="relative error (A-norm)", type="log", exponentformat="power")
    return styled(figure)


def styled(figure: go.Figure) -> go.Figure:
    """Return the figure in the dress that every page of ours has."""
    figure.update_layout(
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 70, "r": 20, "t": 34, "b": 55},
        height=420,
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "rgba(128,128,128,0.7)", "activecolor": PALETTE[0]},
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0},
        hovermode="x unified",
    )
    figure.update_xaxes(gridcolor="rgba(128,128,128,0.2)", zeroline=False)
    figure.update_yaxes(gridcolor="rgba(128,128,128,0.2)", zeroline=False)
    return figure
