"""The page of a kernel-regime answer: the sentences, then widths, training and spectra in tables and figures."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np

from ridgeformer.core.words import count, number, power_of_ten
from ridgeformer.regime import GramSpectrum, RegimeAnswer
from ridgeformer.views.figures import PALETTE, curve, draw, log_axis
from ridgeformer.views.parts import Form, Page, Part, Picture, Section, Table

__all__ = ["DISTANCES", "criteria_table", "regime_page", "spectra_table", "training_table", "widths_table"]

DISTANCES = ("additive", "frobenius", "multiplicative", "whitened")


def regime_page(found: RegimeAnswer) -> Page:
    """Return the page; sections about the limit kernel are left out for networks without a known limit."""
    sections = [_criteria(found), _widths(found)] if found.at_widths else []
    if found.criteria:
        rows = [(one.name, one.assumption) for one in found.criteria]
        assumptions = Table.of({"criterion": "", "rests on": ""}, rows)
        sections.append(Section("What the proved widths rest on", (assumptions,)))
    sections += [_training(found), _spectra(found), _settings(found)]
    return Page(
        f"Is this network a kernel machine on {found.data}?",
        f"{found.model}, width {found.measured.width:,}; {found.rows:,} rows of {count(found.features, 'feature')}, "
        f"{count(found.outputs, 'output')}",
        found.sentences,
        tuple(sections),
    )


def criteria_table(found: RegimeAnswer) -> Table:
    """Return every meaning of "close to the limit": required and measured distance, and the width it takes."""
    here = f"at width {found.measured.width:,}"
    columns: dict[str, Form] = {"criterion": "", "required": "g", here: number, "width expected": power_of_ten}
    columns |= {"width proved": "", "reachable": ""}
    rows = []
    for one in found.criteria:
        proved, expected = power_of_ten(one.log10_sufficient), one.log10_expected
        rows.append((
            one.name, one.tolerance, one.here, None if expected is None else max(expected, 0.0),
            f"({proved})" if one.tolerance is None else proved, "yes" if one.reachable else "no",
        ))  # fmt: skip
    return Table.of(columns, rows)


def widths_table(found: RegimeAnswer) -> Table:
    """Return the distance of the kernel at initialisation from its limit, width by width."""
    columns: dict[str, Form] = {"kernel at initialisation, width": ","} | dict.fromkeys(DISTANCES, number)
    return Table.of(columns, [(width, *(getattr(one, name) for name in DISTANCES)) for width, one in found.at_widths])


def training_table(found: RegimeAnswer) -> Table:
    """Return what training moved, how far the outputs are from each predictor, and the errors."""
    one = found.measured
    outputs = {
        "outputs from its own linearisation, trained alike": one.to_linearised,
        "outputs from the limit kernel's, at the same training time": one.to_ntk,
        "outputs from kernel ridge regression's": one.to_ridge,
    }
    rows = [
        ("kernel moved", one.kernel_drift),
        ("weights moved", one.weight_movement),
        *((name, None if distance is None else distance.relative) for name, distance in outputs.items()),
        ("neurons dead on every row", one.dead_share),
        ("training error", one.train_error),
        ("test error", one.test_error),
        ("test error of kernel ridge regression", one.ridge_test_error),
    ]
    return Table.of({"after training": "", "": number}, [row for row in rows if row[1] is not None])


def spectra_table(found: RegimeAnswer) -> Table:
    """Return the condition number of the rows, and of what attention makes of them, at every truncation."""
    rows = [
        (name, truncation, directions, "round-off" if directions > spectrum.rank else number(kappa, 2))
        for name, spectrum in _spectra_of(found).items()
        for truncation, (directions, kappa) in spectrum.conditions().items()
    ]
    return Table.of({"spectrum of": "", "truncated at": "", "directions": ",", "condition number": ""}, rows)


def _criteria(found: RegimeAnswer) -> Section:
    parts: list[Part] = ["The limit kernel is singular on these rows: no width is enough."]
    if found.criteria:
        parts = [
            "It depends on what close means. Additive: the error is below a quarter of the smallest eigenvalue. "
            "Frobenius: the average entry is close. Multiplicative: every direction is close relative to itself. "
            "Whitened: ridge regression sees no difference. The published formula is in brackets; it is not needed.",
            "Expected widths are extrapolated from the widest kernel drawn; proved widths are enough with probability "
            "0.99.",
            criteria_table(found),
        ]
    return Section("How wide is wide enough", parts)


def _widths(found: RegimeAnswer) -> Section:
    widths, own = [width for width, _ in found.at_widths], found.measured.kernel_start
    traces, shown = [], []
    for name, colour in zip(DISTANCES, PALETTE, strict=False):
        values = [getattr(one, name) for _, one in found.at_widths]
        if not all(isfinite(value) for value in values):
            continue
        shown.append(values)
        rate = [values[-1] * (widths[-1] / width) ** 0.5 for width in widths]
        hidden: dict[str, Any] = {"showlegend": False, "legendgroup": name}
        traces.append(curve(widths, values, name, colour, markers=True, legendgroup=name))
        traces.append(curve(widths, rate, "", colour, dash="dash", width=1, hoverinfo="skip", **hidden))
        if own is not None:
            hidden |= {"mode": "markers", "marker": {"symbol": "diamond", "size": 9, "color": colour}}
            trained = f"{name}, trained network"
            traces.append(curve([found.measured.width], [getattr(own, name)], trained, colour, **hidden))
    picture = Picture(
        draw(traces, log_axis("width m", widths), log_axis("distance from the limit", *shown)),
        "Each distance falls along its dashed line, 1/sqrt(m) through the widest kernel; above 1 a distance may fall "
        "faster. Diamonds are the network that was trained, drawn independently.",
        "Distance of the kernel from its limit against width under four criteria, on logarithmic axes.",
    )
    drawn = "One growing network at initialisation: each width keeps the neurons of the one before."
    return Section("How the kernel approaches its limit", (drawn, widths_table(found), picture))


def _training(found: RegimeAnswer) -> Section:
    how, measured = found.training, found.measured
    parts: list[Part] = [
        f"{how.epochs:,} epochs of {how.method} on {how.loss}, rate {float(how.rate):.3g}, L2 {float(how.l2):g}.",
        "Movements and distances are relative: 0.1 is 10 %. Outputs are those on the test rows.",
        training_table(found),
    ]
    if len(measured.curve) > 1:
        curves = {"the network": measured.curve, "its linearisation": measured.linearised_curve}
        traces = [
            curve([epoch for epoch, _ in points], [loss for _, loss in points], name, colour, dash=dash)
            for (name, points), colour, dash in zip(curves.items(), PALETTE, ("solid", "dash"), strict=False)
            if points
        ]
        loss = log_axis(f"training loss ({how.loss})", *(trace["y"] for trace in traces))
        caption = "While the two curves stay together, the network learns as its kernel at initialisation would."
        alt = "Training loss of the network and of its linearisation against the epoch."
        parts.append(Picture(draw(traces, "epoch", loss), caption, alt))
    return Section("What training did", parts)


def _spectra(found: RegimeAnswer) -> Section:
    values = {name: one.nonzero / one.nonzero[0] for name, one in _spectra_of(found).items()}
    traces = [
        curve(np.arange(1, len(one) + 1), one, name, colour)
        for (name, one), colour in zip(values.items(), PALETTE, strict=False)
    ]
    picture = Picture(
        draw(traces, "eigenvalue number", log_axis("eigenvalue of X X'", *values.values())),
        "Relative to the largest. The faster these fall, the wider a network must be for every direction to be near "
        "its limit.",
        "Eigenvalues of the Gram matrix of the rows, and after attention, on a logarithmic axis.",
    )
    meaning = "A condition number means little without the truncation of the spectrum it belongs to."
    return Section("The spectrum of the rows", (meaning, spectra_table(found), picture))


def _spectra_of(found: RegimeAnswer) -> dict[str, GramSpectrum]:
    return {"rows": found.spectrum} | ({} if found.attended is None else {"after attention": found.attended})


def _settings(found: RegimeAnswer) -> Section:
    rows = [*found.architecture.items(), *asdict(found.training).items(), ("seconds", found.seconds)]

    def written(value: object) -> str:
        return number(value, 4) if isinstance(value, float) else str(value)

    settings = [(name, "none" if value is None else value) for name, value in rows]
    return Section("What was done", (*found.notes, Table.of({"setting": "", "value": written}, settings)))
