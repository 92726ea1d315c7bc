"""Whether networks on these data are kernel machines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go

from ridgeformer.auditing import Audit
from ridgeformer.auditing.kernel_regime import NETWORKS, KernelRegime
from ridgeformer.auditing.skipped import Skipped
from ridgeformer.regime import Criterion, Measurement, OutputDistance
from ridgeformer.regime.words import CLOSE, MEANINGS, obstacles
from ridgeformer.views.figures import PALETTE, Figure, broken, log_axis, styled
from ridgeformer.views.parts import Facts, Picture, Section, Table

__all__ = ["distance_figure", "limit_figure", "regime_section"]

TITLE = "The kernel regime: is a trained network a kernel machine here?"


MEASURED: dict[str, Callable[[Measurement], float | None]] = {
    "kernel at the start from its limit, as ridge regression sees it": lambda m: (
        m.kernel_start.whitened if m.kernel_start else None
    ),
    "kernel moved in training": lambda m: m.kernel_drift,
    "weights moved in training": lambda m: m.weight_movement,
    "outputs from those of its own linearisation": lambda m: _relative(m.to_linearised),
    "outputs from the limit kernel's, trained alike": lambda m: _relative(m.to_ntk),
    "outputs from kernel ridge regression's": lambda m: _relative(m.to_ridge),
}
"""What the table shows as shares."""

ERRORS: dict[str, Callable[[Measurement], float | None]] = {
    "error on training rows": lambda m: m.train_error,
    "error on test rows": lambda m: m.test_error,
    "error on test rows of kernel ridge regression": lambda m: m.ridge_test_error,
}

DISTANCES = {name: of for name, of in MEASURED.items() if "start" not in name and "weights" not in name}
"""How far from a kernel machine a trained network is, in four ways: what the figure shows."""


def regime_section(audit: Audit) -> Section:
    """Return the section on the kernel regime."""
    regime = audit.regime
    if isinstance(regime, Skipped):
        return Section(TITLE, (f"Not measured: {regime.reason}",), anchor="regime")
    one = regime.answers[0]
    draws = len(regime.of("relu"))
    return Section(
        TITLE,
        parts=(
            "A very wide network that is trained little behaves like regression with a fixed kernel, its tangent "
            "kernel. Where that is so, everything above and below holds for the network; where it is not, it does not. "
            f"{one.rows:,} rows of unit length train two networks, with attention in front (each row replaced by what "
            f"it gathers from all others) and without; {one.test_rows:,} rows test them"
            + (f", in {draws} draws of rows and weights." if draws > 1 else "."),
            Picture(distance_figure(regime), _distance_caption(regime),
                    "Bars: four distances of each trained network from a kernel machine, in per cent.",
                    "regime_distances"),
            _measured_table(regime),
            Facts(_verdicts(regime)),
            Picture(limit_figure(regime), _limit_caption(regime),
                    "Distance of the kernel at initialisation from its limit against the width, on logarithmic axes.",
                    "regime_widths"),
            _widths_table(regime),
            " ".join(one.notes),
        ),
        anchor="regime",
    )  # fmt: skip


def distance_figure(regime: KernelRegime) -> Figure:
    """Return the distances of the widest networks as grouped bars; whiskers reach over all draws."""
    figure = go.Figure()
    for (network, words), colour in zip(NETWORKS.items(), PALETTE, strict=False):
        values = {name: _values(regime, network, of) for name, of in DISTANCES.items()}
        values = {name: found for name, found in values.items() if found}
        means = [100 * float(np.mean(found)) for found in values.values()]
        above = [100 * max(found) - mean for found, mean in zip(values.values(), means, strict=True)]
        below = [mean - 100 * min(found) for found, mean in zip(values.values(), means, strict=True)]
        bars = (
            {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": "#7a8496"}
            if len(regime.of(network)) > 1
            else None
        )
        names = [broken(name) for name in values]
        figure.add_bar(x=means, y=names, orientation="h", name=words, marker_color=colour, error_x=bars)
    figure.add_scatter(
        x=[100 * CLOSE] * len(DISTANCES), y=[broken(name) for name in DISTANCES], mode="lines",
        name=f"{100 * CLOSE:.0f} %, what counts as close", line={"color": PALETTE[2], "dash": "dash"},
    )  # fmt: skip
    figure.update_xaxes(title="relative distance, %", rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(barmode="group", hovermode="y unified")
    return styled(figure)


def limit_figure(regime: KernelRegime) -> Figure:
    """Return the distance of kernels at initialisation from their limit, as ridge regression and as entries see it."""
    figure = go.Figure()
    shown: list[float] = []
    for (network, words), colour in zip(NETWORKS.items(), PALETTE, strict=False):
        at = regime.of(network)[0].at_widths
        widths = [width for width, _ in at]
        for name, dash, what in (
            ("whitened", "solid", "as ridge regression sees it"),
            ("frobenius", "dot", "average entry"),
        ):
            shown += (distances := [float(getattr(found, name)) for _, found in at])
            figure.add_scatter(
                x=widths, y=distances, name=f"{words}, {what}",
                mode="lines+markers", line={"color": colour, "dash": dash, "width": 2.5},
            )  # fmt: skip
    figure.update_xaxes(**log_axis("width of the network", widths))
    figure.update_yaxes(**log_axis("distance from the limit kernel", shown))
    return styled(figure)


def _relative(distance: OutputDistance | None) -> float | None:
    return None if distance is None else distance.relative


def _values(regime: KernelRegime, network: str, of: Callable[[Measurement], float | None]) -> list[float]:
    found = (of(answer.measured) for answer in regime.of(network))
    return [value for value in found if value is not None]


def _measured_table(regime: KernelRegime) -> Table:
    """Return what was measured at every width, the mean over the draws."""
    columns = [(network, width) for network in NETWORKS for width in regime.widths]
    rows, values = [], []
    for name, of in (MEASURED | ERRORS).items():
        found = [[v for one in regime.of(*column) if (v := of(one.measured)) is not None] for column in columns]
        means = [float(np.mean(draws)) if draws else None for draws in found]
        percent = name in MEASURED or regime.answers[0].outputs > 1
        rows.append((name, *("" if mean is None else _shown(mean, percent) for mean in means)))
        values.append((name, *means))
    head = tuple(f"{NETWORKS[network]}, {width:,} neurons" for network, width in columns)
    return Table(("measured", *head), tuple(rows), tuple(values), "regime_measured")


def _shown(value: float, percent: bool) -> str:
    return (
        f"{100 * value:,.0f} %" if percent and value >= 0.1 else f"{100 * value:.1f} %" if percent else f"{value:.3g}"
    )


def _verdicts(regime: KernelRegime) -> tuple[str, ...]:
    """Return, for each network, how many of its draws influence by the tangent kernel describes, and why not."""
    said = []
    for network, words in NETWORKS.items():
        draws = [obstacles(one.measured) for one in regime.of(network)]
        good = sum(not found for found in draws)
        first = next((found for found in draws if found), ())
        count = "" if good in (0, len(draws)) else f" in {good} of {len(draws)} draws"
        why = f": {' and '.join(first)}, and at most {100 * CLOSE:.0f} % is asked for" if first else ""
        verb = "is" if good else "is not"
        said.append(f"The {words} of {regime.widths[-1]:,} neurons {verb} described by its kernel{count}{why}.")
    return tuple(said)


def _distance_caption(regime: KernelRegime) -> str:
    width = regime.widths[-1]
    parts = []
    for network, words in NETWORKS.items():
        worst = {
            name: float(np.mean(values)) for name, of in DISTANCES.items() if (values := _values(regime, network, of))
        }
        if worst:
            name = max(worst, key=worst.__getitem__)
            parts.append(f"the {words} is at most {100 * worst[name]:.0f} % away ({name})")
    found = "; ".join(parts) or "training diverged, so there is nothing to compare"
    return (
        f"What to see: bars that end left of the dashed line mean that the network of {width:,} neurons is a kernel "
        f"machine in that sense. Here {found}."
    )


def _limit_caption(regime: KernelRegime) -> str:
    ends = {network: regime.of(network)[0].at_widths for network in NETWORKS}
    if not all(ends.values()):
        return "What to see: without a limit kernel there is nothing to compare with."
    width = ends["relu"][-1][0]
    plain, attended = (ends[network][-1][1].whitened for network in ("relu", "mlp-attn"))
    entries = [ends[network][-1][1].frobenius for network in ("relu", "mlp-attn")]
    first, last = ends["mlp-attn"][0], ends["mlp-attn"][-1]
    fall = f"from {first[1].whitened:.2g} at {first[0]:,} neurons to {last[1].whitened:.2g} at {width:,}"
    return (
        f"What to see: as the width grows the kernel behind attention goes {fall}, as ridge regression sees it "
        f"(solid); without attention it is then at {plain:.2g}, {_times(attended, plain)}. By their average entry "
        f"(dotted) the two are at {entries[1]:.2g} and {entries[0]:.2g}."
    )


def _times(far: float, near: float) -> str:
    if far >= near:
        return f"{far / near:.1f} times nearer" if near > 0 else "at its limit"
    return f"{near / far:.1f} times further" if far > 0 else "not there yet"


def _widths_table(regime: KernelRegime) -> Table:
    """Return the width that each meaning of "close to the limit" asks for."""
    found = {network: {one.name: one for one in regime.of(network)[0].criteria} for network in NETWORKS}
    rows, values = [], []
    for name, meaning in MEANINGS.items():
        pair = [found[network].get(name) for network in NETWORKS]
        asked = next((one.tolerance for one in pair if one is not None), None)
        rows.append((meaning, "" if asked is None else f"{asked:g}", *(cell for one in pair for cell in _cells(one))))
        values.append((name, asked, *(v for one in pair for v in (one and one.here, one and _neurons(one)))))
    at = f"distance at {regime.widths[-1]:,}"
    head = tuple(f"{words}, {what}" for words in ("plain", "behind attention") for what in (at, "neurons it takes"))
    return Table(("close in the sense of", "asked for", *head), tuple(rows), tuple(values), "regime_criteria")


def _cells(one: Criterion | None) -> tuple[str, str]:
    if one is None:
        return "", ""
    return "" if one.here is None else f"{float(f'{one.here:.2g}'):,g}", _power(_neurons(one))


def _neurons(one: Criterion) -> float:
    """Return log10 of the width that is expected to be enough, or that the formula asks for."""
    return max(one.log10_sufficient if one.log10_expected is None else one.log10_expected, 0.0)


def _power(log10: float) -> str:
    if log10 < 7:
        return f"{float(f'{10**log10:.2g}'):,.0f}"
    return "10" + str(round(log10)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
