"""The certified fit against its baselines."""

from __future__ import annotations

import plotly.graph_objects as go

from ridgeformer.auditing import Audit
from ridgeformer.auditing.answer import best_baseline, describe_comparison
from ridgeformer.core.words import show_score
from ridgeformer.views.figures import PALETTE, Figure, styled
from ridgeformer.views.parts import Picture, Section, Table

__all__ = ["fits_figure", "fits_section"]


def fits_section(audit: Audit) -> Section:
    """Return the section on the fits."""
    certified = audit.certified
    safe = certified.safe_decisions
    decisions = "" if safe is None else f" For {100 * safe:.1f} % of the rows that settles the predicted class."
    return Section(
        "The certified fit against baselines",
        parts=(
            "Temperature and ridge were chosen by leave-one-out error on the training rows; held-out rows had no say. "
            "Of the ridges within one standard error of the best, the largest was taken. A grid whose choice lay on "
            "its edge was widened, for every method alike.",
            Picture(fits_figure(audit), _caption(audit),
                    "Bars: the score of each method on held-out rows, with 95 % intervals.", "fits"),
            _table(audit),
            f"The certificate: {certified.solution.advice} On held-out rows the prediction is proved to be within "
            f"{certified.worst_bound:.1e} of the exact solution's, where outputs have the typical size "
            f"{certified.typical_output:.2g}.{decisions} Nothing about noise in the data is proved by that, only that "
            "the numbers are those of the method.",
        ),
        anchor="fit",
    )  # fmt: skip


def fits_figure(audit: Audit) -> Figure:
    """Return the held-out scores as bars, the certified fit on top."""
    fits = audit.fits[::-1]
    scale = 100 if audit.data.dataset.task == "classification" else 1
    figure = go.Figure(
        go.Bar(
            x=[scale * fit.test_score for fit in fits],
            y=[fit.name for fit in fits],
            orientation="h",
            name="held-out score",
            marker_color=[PALETTE[0] if fit is audit.certified.fit else "#9aa5b8" for fit in fits],
            error_x={
                "type": "data",
                "array": [scale * (fit.interval[1] - fit.test_score) for fit in fits],
                "arrayminus": [scale * (fit.test_score - fit.interval[0]) for fit in fits],
                "color": "#7a8496",
            },
            text=[show_score(fit.test_score, audit.data.dataset.task) for fit in fits],
            textposition="inside",
            insidetextanchor="start",
        )
    )
    unit = "right on held-out rows, %" if scale == 100 else "R² on held-out rows"
    figure.update_xaxes(title=unit)
    figure.update_layout(height=290, showlegend=False, hovermode="closest")
    return styled(figure)


def _caption(audit: Audit) -> str:
    own, best, task = audit.certified.fit, best_baseline(audit.baselines), audit.data.dataset.task
    found = own.compare(best)
    by = f"{100 * abs(found.lead):.1f} points" if task == "classification" else f"{abs(found.lead):.3f}"
    side = "above" if found.lead > 0 else "below"
    gap = f"is {by} {side} {best.name}" if found.lead else f"scores the same as {best.name}"
    verdict = "more than chance explains" if found.significant else "no more than chance explains"
    return (
        f"What to see: the certified fit {gap}, the best of the others, which is {verdict}: "
        f"{describe_comparison(found, task)}. Whiskers are 95 % intervals of each score."
    )


def _table(audit: Audit) -> Table:
    task = audit.data.dataset.task
    rows = tuple(
        (
            fit.name,
            fit.what,
            show_score(fit.test_score, task),
            show_score(fit.train_score, task),
            _chosen(fit.temperature, ".3g", fit.on_edge),
            _chosen(fit.ridge, ".1e", fit.on_edge),
        )
        for fit in audit.fits
    )
    values = tuple(
        (fit.name, fit.what, fit.test_score, fit.train_score, fit.temperature, fit.ridge) for fit in audit.fits
    )
    return Table(("method", "what it is", "held out", "training", "temperature", "ridge"), rows, values, "fits")


def _chosen(value: float | None, form: str, on_edge: bool) -> str:
    return "" if value is None else f"{value:{form}}" + (" (edge of the grid)" if on_edge else "")
