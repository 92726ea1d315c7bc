"""The page of a kernel-regime answer: the words, then widths, training and spectra in tables and plots."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from ridgeformer.views.figures import PALETTE, Figure, styled
from ridgeformer.views.parts import Page, Picture, Section, Table

if TYPE_CHECKING:  # regime stands beside the report, not below it
    from ridgeformer.regime import GramSpectrum, RegimeAnswer

__all__ = [
    "DISTANCES",
    "criteria_table",
    "regime_page",
    "spectra_table",
    "training_table",
    "widths_table",
]

DISTANCES = ("additive", "frobenius", "multiplicative", "whitened")


def regime_page(found: RegimeAnswer) -> Page:
    """Return the page; what a network without a known limit does not have is left out."""
    sections = [_criteria(found), _widths(found)] if found.at_widths else []
    sections += [_assumptions(found)] if found.criteria else []
    sections += [_training(found), _spectra(found), _settings(found)]
    return Page(
        f"Is this network a kernel machine on {found.data}?",
        f"{found.model}, width {found.measured.width:,}; {found.rows:,} rows of {found.features:,} features, "
        f"{found.outputs} output(s)",
        found.sentences,
        tuple(sections),
    )


def criteria_table(found: RegimeAnswer) -> Table:
    """Return every meaning of "close to the limit": what it asks for, what there is, and the width it takes."""
    head = (
        "criterion", "asked for", f"at width {found.measured.width:,}", "width expected", "width proved", "reachable",
    )  # fmt: skip
    rows = tuple(
        (
            one.name,
            "" if one.tolerance is None else f"{one.tolerance:g}",
            "" if one.here is None else f"{one.here:.3g}",
            "" if one.log10_expected is None else f"10^{max(one.log10_expected, 0):.1f}",
            f"10^{one.log10_sufficient:.1f}" if one.tolerance is not None else f"(10^{one.log10_sufficient:.1f})",
            "yes" if one.reachable else "no",
        )
        for one in found.criteria
    )
    return Table(head, rows)


def widths_table(found: RegimeAnswer) -> Table:
    """Return the distance of the kernel at initialisation from its limit, width by width."""
    rows = tuple((f"{width:,}", *(f"{getattr(one, name):.3g}" for name in DISTANCES)) for width, one in found.at_widths)
    return Table(("kernel at initialisation, width", *DISTANCES), rows)


def training_table(found: RegimeAnswer) -> Table:
    """Return what training moved, how far the outputs are from each predictor, and the errors."""
    one = found.measured
    outputs = {
        "outputs from its own linearisation, trained alike": one.to_linearised,
        "outputs from the limit kernel's, at the same training time": one.to_ntk,
        "outputs from kernel ridge regression's": one.to_ridge,
    }
    rows = [("kernel moved", one.kernel_drift), ("weights moved", one.weight_movement)]
    rows += [(name, None if away is None else away.relative) for name, away in outputs.items()]
    rows += [("neurons dead on every row", one.dead_share), ("training error", one.train_error)]
    rows += [("test error", one.test_error), ("test error of kernel ridge regression", one.ridge_test_error)]
    return Table(("after training", ""), tuple((name, f"{value:.3g}") for name, value in rows if value is not None))


def spectra_table(found: RegimeAnswer) -> Table:
    """Return the condition number of the rows, and of what attention makes of them, at every truncation."""
    rows = tuple(
        (name, truncation, f"{directions}", "round-off" if directions > spectrum.rank else f"{kappa:.2g}")
        for name, spectrum in _spectra_of(found).items()
        for truncation, (directions, kappa) in spectrum.conditions().items()
    )
    return Table(("spectrum of", "truncated at", "directions", "condition number"), rows)


def _criteria(found: RegimeAnswer) -> Section:
    if not found.criteria:
        return Section("How wide is wide enough", ("The limit kernel is singular on these rows: no width is enough.",))
    return Section(
        "How wide is wide enough",
        (
            "It depends on what close means. Additive: the error is below a quarter of the smallest eigenvalue. "
            "Frobenius: the average entry is close. Multiplicative: every direction is, relative to itself. Whitened: "
            "ridge regression sees no difference. The published formula stands in brackets; it is not needed.",
            "Expected widths are extrapolated from the widest kernel drawn; proved ones are enough for any draw but "
            "one in a hundred.",
        ),
        criteria_table(found),
    )


def _assumptions(found: RegimeAnswer) -> Section:
    rows = tuple((one.name, one.assumption) for one in found.criteria)
    return Section("What the proved widths rest on", (), Table(("criterion", "rests on"), rows))


def _widths(found: RegimeAnswer) -> Section:
    return Section(
        "How the kernel approaches its limit",
        ("One growing network at initialisation: each width keeps the neurons of the one before.",),
        widths_table(found),
        (
            Picture(
                _widths_figure(found),
                "Each distance falls along its dashed line, which is 1/sqrt(m) through the widest kernel; above 1 a "
                "distance may fall faster. Diamonds are the network that was trained, a draw of its own.",
                "Distance of the kernel from its limit against width under four criteria, on logarithmic axes.",
            ),
        ),
    )


def _training(found: RegimeAnswer) -> Section:
    how = found.training
    said = f"{how.epochs:,} epochs of {how.method} on {how.loss}, rate {float(how.rate):.3g}, L2 {float(how.l2):g}."
    pictures: tuple[Picture, ...] = ()
    if len(found.measured.curve) > 1:
        pictures = (
            Picture(
                _training_figure(found),
                "While the two curves stay together the network learns as its kernel at the start would.",
                "Training loss of the network and of its linearisation against the epoch.",
            ),
        )
    shares = "Movements and distances are relative: 0.1 is 10 %. Outputs are those on the test rows."
    return Section("What training did", (said, shares), training_table(found), pictures)


def _spectra(found: RegimeAnswer) -> Section:
    return Section(
        "The spectrum of the rows",
        ("A condition number means nothing without where the spectrum is cut.",),
        spectra_table(found),
        (
            Picture(
                _spectra_figure(found),
                "Relative to the largest. The faster these fall, the wider a network must be for every direction to be "
                "near its limit.",
                "Eigenvalues of the Gram matrix of the rows, and after attention, on a logarithmic axis.",
            ),
        ),
    )


def _settings(found: RegimeAnswer) -> Section:
    rows = [*found.architecture.items(), *found.training.as_dict().items(), ("seconds", f"{found.seconds:.1f}")]
    table = Table(("setting", "value"), tuple((name, _said(value)) for name, value in rows))
    return Section("What was done", found.notes, table)


def _said(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)


def _widths_figure(found: RegimeAnswer) -> Figure:
    figure, widths = go.Figure(), [width for width, _ in found.at_widths]
    own = found.measured.kernel_start
    for name, colour in zip(DISTANCES, PALETTE, strict=False):
        values = [getattr(one, name) for _, one in found.at_widths]
        if not all(isfinite(value) for value in values):
            continue
        figure.add_scatter(x=widths, y=values, name=name, mode="lines+markers", line_color=colour, legendgroup=name)
        line = [values[-1] * (widths[-1] / width) ** 0.5 for width in widths]
        figure.add_scatter(
            x=widths, y=line, mode="lines", line={"color": colour, "dash": "dash", "width": 1}, showlegend=False,
            hoverinfo="skip", legendgroup=name,
        )  # fmt: skip
        if own is not None:
            figure.add_scatter(
                x=[found.measured.width], y=[getattr(own, name)], mode="markers", showlegend=False, legendgroup=name,
                marker={"symbol": "diamond", "size": 9, "color": colour}, name=f"{name}, trained network",
            )  # fmt: skip
    figure.update_xaxes(title="width m", type="log", exponentformat="power", dtick=1)
    figure.update_yaxes(title="distance from the limit", type="log", exponentformat="power")
    return styled(figure)


def _training_figure(found: RegimeAnswer) -> Figure:
    figure = go.Figure()
    curves = {"the network": found.measured.curve, "its linearisation": found.measured.linearised_curve}
    for (name, curve), colour, dash in zip(curves.items(), PALETTE, ("solid", "dash"), strict=False):
        if curve:
            epochs, losses = zip(*curve, strict=True)
            figure.add_scatter(x=epochs, y=losses, name=name, mode="lines", line={"color": colour, "dash": dash})
    figure.update_xaxes(title="epoch")
    figure.update_yaxes(title=f"training loss ({found.training.loss})", type="log", exponentformat="power")
    return styled(figure)


def _spectra_figure(found: RegimeAnswer) -> Figure:
    figure = go.Figure()
    for (name, spectrum), colour in zip(_spectra_of(found).items(), PALETTE, strict=False):
        values = spectrum.nonzero / spectrum.nonzero[0]
        figure.add_scatter(x=np.arange(1, len(values) + 1), y=values, name=name, mode="lines", line_color=colour)
    figure.update_xaxes(title="eigenvalue number")
    figure.update_yaxes(title="eigenvalue of X X'", type="log", exponentformat="power")
    return styled(figure)


def _spectra_of(found: RegimeAnswer) -> dict[str, GramSpectrum]:
    return {"rows": found.spectrum} | ({} if found.attended is None else {"after attention": found.attended})
