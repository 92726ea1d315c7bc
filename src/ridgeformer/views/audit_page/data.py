"""The data: what they are, what was done to them, and how many directions of them matter."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ridgeformer.auditing import Audit
from ridgeformer.views.figures import PALETTE, Figure, log_axis, styled
from ridgeformer.views.parts import Picture, Section, Strip, Table, thumbnail

__all__ = ["data_section", "spectrum_figure"]

MOST_SHOWN = 10
LEAST_SHOWN = 1e-16
"""Eigenvalues below this part of the largest are round-off."""


def data_section(audit: Audit) -> Section:
    """Return the section on the data and their spectrum."""
    dataset, s = audit.data.dataset, audit.spectra
    target = f"{len(dataset.classes)} classes" if dataset.classes else f"{dataset.outputs} numeric target(s)"
    about = f"{dataset.name}: {dataset.n:,} rows of {dataset.d:,} features, {target}. {dataset.description}"
    strip = () if dataset.image_shape is None else (_examples(audit),)
    return Section(
        "The data and their spectrum",
        parts=(
            about.strip(),
            " ".join(audit.data.notes),
            *strip,
            f"The rows fill {s.rank} directions, and {s.energy_rank} of them carry 99 % of their size. The kernel of "
            f"attention, exp(x·z/temperature), sees many more: at the ridge of the fit it uses {s.d_eff:,.0f} "
            "effective dimensions: the directions it learns, each counted by the share that it learns.",
            Picture(spectrum_figure(audit), _spectrum_caption(audit),
                    "Eigenvalues of the rows and of the kernel on logarithmic axes, falling, and the ridge.",
                    "spectrum"),
            _numbers(audit),
        ),
        anchor="data",
    )  # fmt: skip


def spectrum_figure(audit: Audit) -> Figure:
    """Return the eigenvalues of the Gram and kernel matrices, with the ridge as a line."""
    figure, s = go.Figure(), audit.spectra
    curves = {"rows, X X'": s.gram, "kernel of attention, K": s.kernel}
    curves = {name: values[values > values[0] * LEAST_SHOWN] for name, values in curves.items()}
    for (name, shown), colour in zip(curves.items(), PALETTE, strict=False):
        numbers = np.arange(1, len(shown) + 1)
        figure.add_scatter(x=numbers, y=shown, name=name, mode="lines", line={"color": colour, "width": 2.5})
    span = [1, len(s.kernel)]
    figure.add_scatter(
        x=span, y=[s.ridge] * 2, name="ridge of the fit", mode="lines", line={"color": PALETTE[2], "dash": "dash"}
    )
    figure.update_xaxes(**log_axis("eigenvalue number", span))
    figure.update_yaxes(**log_axis("eigenvalue", *curves.values(), [s.ridge]))
    return styled(figure)


def _spectrum_caption(audit: Audit) -> str:
    s = audit.spectra
    above = int((s.kernel > s.ridge).sum())
    share = 100 * above / len(s.kernel)
    return (
        f"What to see: directions above the dashed ridge are learnt, those below it are smoothed away. Of the kernel's "
        f"{len(s.kernel):,} directions {above:,} ({share:.0f} %) lie above it; the rows themselves have only {s.rank}. "
        f"The largest eigenvalue of K + ridge I is {s.system_condition:,.3g} times the smallest: that ratio decides "
        "how deep a solver has to be."
    )


def _examples(audit: Audit) -> Strip:
    dataset = audit.data.dataset
    codes = [] if not dataset.classes else [int(np.flatnonzero(dataset.y == c)[0]) for c in np.unique(dataset.y)]
    rows = (codes or list(range(dataset.n)))[:MOST_SHOWN]
    images = tuple(
        thumbnail(dataset, row, dataset.classes[int(dataset.y[row])] if codes else f"row {row}") for row in rows
    )
    what = "one row of each class" if codes else "the first rows"
    return Strip(images, f"What to see: {what}. A row is {dataset.d} brightnesses, and nothing tells the fit which "
                 "of them are neighbours.", "examples")  # fmt: skip


def _numbers(audit: Audit) -> Table:
    s = audit.spectra
    facts: list[tuple[str, float, str]] = [
        ("directions that the rows fill (rank)", s.rank, f"{s.rank:,}"),
        ("directions that carry 99 % of the rows", s.energy_rank, f"{s.energy_rank:,}"),
        ("condition number of X X' on its rank", s.condition, f"{s.condition:.2e}"),
        ("condition number of K + ridge I", s.system_condition, f"{s.system_condition:.2e}"),
        ("effective dimensions of the kernel at the ridge", s.d_eff, f"{s.d_eff:,.1f}"),
        ("ridge of the fit", s.ridge, f"{s.ridge:.2e}"),
    ]
    rows = tuple((name, shown) for name, _, shown in facts)
    return Table(
        ("measured on the training rows", "value"), rows, tuple((name, v) for name, v, _ in facts), "spectrum_facts"
    )
