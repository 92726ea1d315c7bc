"""Networks and explanations on the page of an audit: the kernel regime, influence and its malleability."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ridgeformer.auditing import Audit
from ridgeformer.auditing.answer import trained
from ridgeformer.auditing.kernel_regime import NETWORKS, KernelRegime
from ridgeformer.auditing.malleability import CONTROLS, Malleable
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import number, percent, power_of_ten
from ridgeformer.regime import Criterion, Measurement, OutputDistance
from ridgeformer.regime.answer import CLOSE, MEANINGS, obstacles
from ridgeformer.views.figures import GREY, PALETTE, Figure, Trace, bars, broken, curve, draw, log_axis
from ridgeformer.views.influence_page import influence_strip, influence_table
from ridgeformer.views.parts import Facts, Form, Part, Picture, Section, Table

__all__ = ["distance_figure", "flips_figure", "influence_section", "limit_figure", "regime_section"]

TITLE = "The kernel regime: is a trained network a kernel machine here?"
COLOURS = {"noise": GREY, "redrawn": PALETTE[4], "attacked": PALETTE[1], "adaptive": PALETTE[3]}

Reading = Callable[[Measurement], float | None]


def _relative(distance: OutputDistance | None) -> float | None:
    return None if distance is None else distance.relative


DISTANCES: dict[str, Reading] = {
    "kernel moved in training": lambda m: m.kernel_drift,
    "outputs from those of its own linearisation": lambda m: _relative(m.to_linearised),
    "outputs from the limit kernel's, trained alike": lambda m: _relative(m.to_ntk),
    "outputs from kernel ridge regression's": lambda m: _relative(m.to_ridge),
}
"""Four distances of a trained network from a kernel machine, which the figure shows."""

FRACTIONS: dict[str, Reading] = {
    "kernel at the start from its limit, as ridge regression sees it": lambda m: (
        m.kernel_start.whitened if m.kernel_start else None
    ),
    **DISTANCES,
    "weights moved in training": lambda m: m.weight_movement,
}
ERRORS: dict[str, Reading] = {
    "error on training rows": lambda m: m.train_error,
    "error on test rows": lambda m: m.test_error,
    "error on test rows of kernel ridge regression": lambda m: m.ridge_test_error,
}


# -- the kernel regime -----------------------------------------------------------------------------


def regime_section(audit: Audit) -> Section:
    """Return the section on the kernel regime."""
    regime = audit.regime
    if isinstance(regime, Skipped):
        return Section(TITLE, (f"Not measured: {regime.reason}",), anchor="regime")
    one, draws = regime.answers[0], len(regime.of("relu"))
    return Section(
        TITLE,
        (
            "A very wide network that is trained little behaves like regression with a fixed kernel, its tangent "
            "kernel. Where that holds, everything on this page also holds for the network; where it does not, it does "
            f"not. {one.rows:,} rows of unit length train two networks, one with attention in front (each row replaced "
            f"by what it gathers from all others) and one without; {one.test_rows:,} rows test them"
            + (f", in {draws} draws of rows and weights." if draws > 1 else "."),
            Picture(
                distance_figure(regime),
                _distance_caption(regime),
                "Bars: four distances of each trained network from a kernel machine, in per cent.",
                "regime_distances",
            ),
            _measured_table(regime),
            Facts(_verdicts(regime)),
            Picture(
                limit_figure(regime),
                _limit_caption(regime),
                "Distance of the kernel at initialisation from its limit against the width, on logarithmic axes.",
                "regime_widths",
            ),
            _widths_table(regime),
            " ".join(one.notes),
        ),
        anchor="regime",
    )


def distance_figure(regime: KernelRegime) -> Figure:
    """Return the distances of the widest networks as grouped bars; whiskers span all draws."""
    traces = []
    for (network, words), colour in zip(NETWORKS.items(), PALETTE, strict=False):
        values = {name: draws for name, of in DISTANCES.items() if (draws := _draws(regime, network, of))}
        traces.append(_draw_bars(words, colour, list(values), list(values.values())))
    limit, labels = f"{percent(CLOSE)}, what counts as close", [broken(name) for name in DISTANCES]
    traces.append(curve([100 * CLOSE] * len(labels), labels, limit, PALETTE[2], dash="dash", width=2))
    return _grouped(traces, {"title": "relative distance, %", "rangemode": "tozero"})


def limit_figure(regime: KernelRegime) -> Figure:
    """Return the distance of kernels at initialisation from their limit, for ridge regression and entry by entry."""
    traces, shown = [], []
    for (network, words), colour in zip(NETWORKS.items(), PALETTE, strict=False):
        at = regime.of(network)[0].at_widths
        widths = [width for width, _ in at]
        for name, dash, what in (
            ("whitened", "solid", "in a ridge fit"),  # short: phones cut long legends
            ("frobenius", "dot", "average entry"),
        ):
            shown.append([float(getattr(distances, name)) for _, distances in at])
            traces.append(curve(widths, shown[-1], f"{words}, {what}", colour, dash=dash, markers=True))
    return draw(traces, log_axis("width of the network", widths), log_axis("distance from the limit kernel", *shown))


def _draws(regime: KernelRegime, network: str, of: Reading, width: int | None = None) -> list[float]:
    readings = (of(answer.measured) for answer in regime.of(network, width))
    return [value for value in readings if value is not None]


def _draw_bars(name: str, colour: str, labels: Sequence[str], draws: Sequence[Sequence[float]]) -> Trace:
    """Return mean percentages over draws as bars; whiskers span all draws if there are several."""
    several = any(len(one) > 1 for one in draws)
    ends = ([100 * min(one) for one in draws], [100 * max(one) for one in draws])
    means = [100 * float(np.mean(one)) for one in draws]
    return bars(means, [broken(label) for label in labels], name, colour, whiskers=ends if several else None)


def _grouped(traces: Sequence[Trace], x: dict[str, object]) -> Figure:
    return draw(traces, x, {"autorange": "reversed"}, barmode="group", hovermode="y unified")


def _measured_table(regime: KernelRegime) -> Table:
    """Return what was measured at every width, the mean over the draws."""
    columns = [(network, width) for network in NETWORKS for width in regime.widths]
    classes = regime.answers[0].outputs > 1
    rows, values = [], []
    for name, of in (FRACTIONS | ERRORS).items():
        draws = [_draws(regime, network, of, width) for network, width in columns]
        means = [float(np.mean(one)) if one else None for one in draws]
        form = percent if name in FRACTIONS or classes else number
        rows.append((name, *("" if mean is None else form(mean) for mean in means)))
        values.append((name, *means))
    head = tuple(f"{NETWORKS[network]}, {width:,} neurons" for network, width in columns)
    return Table(("measured", *head), tuple(rows), tuple(values), "regime_measured")


def _verdicts(regime: KernelRegime) -> tuple[str, ...]:
    """Return, for each network, in how many draws its tangent kernel describes it, and why not in the others."""
    sentences = []
    for network, words in NETWORKS.items():
        draws = [obstacles(one.measured) for one in regime.of(network)]
        good = sum(not found for found in draws)
        first = next((found for found in draws if found), ())
        often = "" if good in (0, len(draws)) else f" in {good} of {len(draws)} draws"
        why = f": {' and '.join(first)}, and at most {percent(CLOSE)} is allowed" if first else ""
        verb = "is" if good else "is not"
        short = sum(not trained(one) for one in regime.of(network))
        left = (
            ""
            if not short
            else f" Its training error was not small in {short} of {len(draws)} draws: that says little."
        )
        sentences.append(
            f"The {words} of {regime.widths[-1]:,} neurons {verb} described by its kernel{often}{why}.{left}"
        )
    return tuple(sentences)


def _distance_caption(regime: KernelRegime) -> str:
    parts = []
    for network, words in NETWORKS.items():
        draws = {name: _draws(regime, network, of) for name, of in DISTANCES.items()}
        means = {name: float(np.mean(values)) for name, values in draws.items() if values}
        if means:
            worst = max(means, key=means.__getitem__)
            parts.append(f"the {words} is at most {percent(means[worst])} away ({worst})")
    here = "; ".join(parts) or "training diverged, so there is nothing to compare"
    return (
        f"What to see: where a bar ends left of the dashed line, the network of {regime.widths[-1]:,} neurons is a "
        f"kernel machine in that sense. Here {here}."
    )


def _limit_caption(regime: KernelRegime) -> str:
    at = {network: regime.of(network)[0].at_widths for network in NETWORKS}
    if not all(at.values()):
        return "What to see: without a limit kernel there is nothing to compare with."
    first, last = at["mlp-attn"][0], at["mlp-attn"][-1]
    plain, attended = at["relu"][-1][1], last[1]
    return (
        f"What to see: as the width grows, the kernel behind attention goes from {number(first[1].whitened, 2)} at "
        f"{first[0]:,} neurons to {number(attended.whitened, 2)} at {last[0]:,}, as ridge regression sees it (solid); "
        f"without attention it is then at {number(plain.whitened, 2)}, {_times(attended.whitened, plain.whitened)}. By "
        f"their average entry (dotted) the two are at {number(attended.frobenius, 2)} and "
        f"{number(plain.frobenius, 2)}."
    )


def _times(far: float, near: float) -> str:
    if far >= near:
        return f"{far / near:.1f} times nearer" if near > 0 else "at its limit"
    return f"{near / far:.1f} times further" if far > 0 else "not there yet"


def _widths_table(regime: KernelRegime) -> Table:
    """Return the width that each meaning of "close to the limit" requires."""

    def needed(one: Criterion | None) -> float | None:
        """Return log10 of the width expected to be enough, or of the one the formula requires."""
        if one is None:
            return None
        return max(one.log10_sufficient if one.log10_expected is None else one.log10_expected, 0.0)

    criteria = [{one.name: one for one in regime.of(network)[0].criteria} for network in NETWORKS]
    columns: dict[str, Form] = {"close in the sense of": "", "required distance": "g"}
    for words in ("plain", "behind attention"):
        columns |= {f"{words}, distance at {regime.widths[-1]:,}": number, f"{words}, neurons needed": power_of_ten}
    rows = []
    for name, meaning in MEANINGS.items():
        pair = [found.get(name) for found in criteria]
        required = next((one.tolerance for one in pair if one is not None), None)
        rows.append((meaning, required, *(v for one in pair for v in (None if one is None else one.here, needed(one)))))
    return Table.of(columns, rows, "regime_criteria")


# -- influence and malleability --------------------------------------------------------------------


def influence_section(audit: Audit) -> Section:
    """Return the section on influence and malleability."""
    parts = (*_one_prediction(audit), *_malleability(audit.malleability))
    return Section("Influence and malleability", parts, anchor="influence")


def _one_prediction(audit: Audit) -> list[Part]:
    answer = audit.attribution
    if isinstance(answer, Skipped):
        return [f"Influence on one prediction was not measured: {answer.reason}"]
    hardest = "with the smallest margin" if answer.task == "classification" else "with the largest error"
    images = [] if audit.data.dataset.image_shape is None else [influence_strip(answer, audit.data.dataset)]
    return [
        f"Which training rows made one prediction? Row {answer.row} is the held-out row {hardest}. The score of a "
        "training row is what the prediction loses without it, computed exactly and without refitting.",
        Facts(answer.sentences),
        *images,
        influence_table(answer),
    ]


def _malleability(found: Malleable | Skipped) -> list[Part]:
    if isinstance(found, Skipped):
        return [f"Malleability was not measured: {found.reason}"]
    keys = [(model, size) for model in found.models for size in found.sizes]
    columns: dict[str, Form] = {"influences of": "", "size of the move": percent}
    columns |= dict.fromkeys(CONTROLS.values(), percent)
    rows = [
        (model, size, *(flips and flips.mean for flips in (found.of(model, size, control) for control in CONTROLS)))
        for model, size in keys
    ]
    return [
        f"How robust is such an explanation? The {found.moved} most influential of {found.rows} training rows are "
        f"moved a little, every feature by at most a fraction of its typical size ({found.typical:.3g} as the kernel "
        f"sees it), and the influences on {found.queries} held-out rows are computed again. A flip is an influence "
        "whose sign changes. Each attack is compared with two controls: random noise of the same size and, for "
        "networks, re-initialised weights without any attack. A flip rate no larger than its controls says nothing "
        "about the attack.",
        Picture(
            flips_figure(found),
            _flips_caption(found),
            "Bars: fraction of influences that change sign, by model, for two controls and two attacks.",
            "malleability",
        ),
        Table.of(columns, rows, "malleability"),
    ]


def flips_figure(found: Malleable) -> Figure:
    """Return the flip rates at the first size as grouped bars; whiskers span all draws."""
    traces = []
    for control, words in CONTROLS.items():
        flips = [one for model in found.models if (one := found.of(model, found.sizes[0], control))]
        traces.append(_draw_bars(words, COLOURS[control], [one.model for one in flips], [one.shares for one in flips]))
    return _grouped(traces, {"title": "sign changes, %", "range": [0, 101]})


def _flips_caption(found: Malleable) -> str:
    size, parts = found.sizes[0], []
    for model in found.models:
        chance, attack = (
            max((one for name in names if (one := found.of(model, size, name))), key=lambda one: one.mean)
            for names in (("noise", "redrawn"), ("attacked", "adaptive"))
        )
        more = "more than" if min(attack.shares) > max(chance.shares) else "not clearly more than"
        parts.append(f"{model} {percent(attack.mean)}, {more} the controls ({percent(chance.mean)})")
    draws = len(found.flips[0].shares)
    over = f"Means over {draws} draws; whiskers span all of them." if draws > 1 else "One draw only: a hint."
    return (
        f"What to see: influences flipped by the stronger attack of size {percent(size)} of a typical feature: "
        f"{'; '.join(parts)}. {over}"
    )
