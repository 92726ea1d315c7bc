"""The ledger of claims as a page: statement beside correction, formulas, figures, counterexamples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go

from ridgeformer.claims import Finding, Plot
from ridgeformer.claims.words import key_figure, summary, trial_line
from ridgeformer.views.figures import PALETTE, Figure, styled
from ridgeformer.views.page import fill, write_html

__all__ = ["claim_figure", "render_claims", "write_claims_page"]


def render_claims(findings: Sequence[Finding]) -> str:
    """Return the page as text."""
    return fill(
        "claims.html.j2",
        title="The ledger of claims",
        subtitle="Every theorem of the source documents as a check that ran, with what is true instead",
        summary=summary(findings),
        findings=findings,
        key_figure=key_figure,
        trial_line=trial_line,
        claim_figure=claim_figure,
    )


def write_claims_page(findings: Sequence[Finding], path: Path) -> Path:
    """Write the page; an old one is replaced in one step."""
    return write_html(render_claims(findings), path)


def claim_figure(plot: Plot) -> Figure:
    """Return a claim's plot as a plotly figure."""
    figure = go.Figure()
    for curve, colour in zip(plot.curves, PALETTE, strict=False):
        line = {"color": colour, "dash": "dash" if curve.dashed else "solid"}
        figure.add_scatter(x=curve.x, y=curve.y, name=curve.name, mode="lines", line=line)
    figure.update_xaxes(title=plot.x, type="log" if plot.log_x else "linear")
    figure.update_yaxes(title=plot.y, type="log" if plot.log_y else "linear", exponentformat="power")
    return styled(figure)
