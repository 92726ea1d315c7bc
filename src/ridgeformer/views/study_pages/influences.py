"""Pages of the studies of influence: malleability, interventions, and influence over training time."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from ridgeformer.core.words import interval, percent
from ridgeformer.studies import malleability
from ridgeformer.studies.malleability import MODELS, Gap, flip_rate, gap
from ridgeformer.views.figures import PALETTE, draw
from ridgeformer.views.parts import Page, Picture, Section, Table
from ridgeformer.views.study_pages.shared import Rows, cards_section, distinct, mean_curve, picture, seeds_of, where

__all__ = ["influence_over_time_page", "interventions_page", "malleability_page"]

COMPARISONS = (
    "Per cent of the attacked rows whose influence, averaged over queries, changed sign. Beside the attack: random "
    "signs of the same size; the same network re-initialised, without an attack; the same attack targeted at the "
    "influence itself. Then the flips by the attack over all training rows and over single pairs of row and query, "
    "Spearman's rank correlation and the overlap of the top sets. eps is given in the units of the attack and of unit "
    "rows, the ridge over tr(K)/n. Brackets are 95 % intervals: Student's t over seeds, and no narrower than the exact "
    "interval of all attacked rows counted together."
)
NULL = (
    "The kernel of a network of finite width is a random draw. The flips when it is re-initialised, without any "
    "attack, are sampling noise of the kernel; a flip rate at or below them is no evidence of malleability."
)
ABLATION = (
    "Attention's flips minus ReLU's, in percentage points, paired by seed, with one choice changed at a time. The gap "
    "of the null is the same difference without an attack."
)


def malleability_page(rows: Rows, means: Rows) -> Page:
    """Return the page; the centre is the point from which most others differ in one choice."""
    centre, first = malleability.centre_of(rows), rows[0]
    stand_ins = [
        f"{name} stands in for {malleability.STANDS_FOR[name]} here: these verdicts are about the protocol on {name}, "
        "and no reproduction of the published number."
        for name in distinct(rows, "data")
        if name in malleability.STANDS_FOR
    ]
    return Page.of(
        "Malleability: do attacked training rows change the sign of their influence?",
        f"{', '.join(distinct(rows, 'data'))}; {first['rows']:,} training rows, {first['test_rows']:,} queries, the "
        f"top tenth attacked, {seeds_of(rows)}",
        _malleability_answer(rows, centre),
        cards_section("The published tables", malleability.make_cards(rows, centre), stand_ins),
        Section.of("Flip rates beside their controls", COMPARISONS, _flip_rates(rows, means)),
        Section.of("No attack at all: the network re-initialised", NULL, _null_picture(means, centre)),
        Section.of("Which choices decide the gap", ABLATION, _ablation(rows, centre)),
    )


def _malleability_answer(rows: Rows, centre: Mapping[str, Any]) -> tuple[str, ...]:
    def both(point: Mapping[str, Any], control: str) -> tuple[str, str]:
        attention, relu = (
            flip_rate(rows, point, model, f"{control}_flips_top").mean for model in ("attention", "relu")
        )
        return f"{100 * attention:.0f} %", f"{100 * relu:.0f} %"

    attack, null = (gap(rows, centre, f"{control}_flips_top") for control in ("attack", "redrawn"))
    changed = malleability.departures(rows, centre)
    unlike = [name for name, point in changed if gap(rows, point, "attack_flips_top").sign != attack.sign]
    attacked, noise, targeted, redrawn = (both(centre, name) for name in ("attack", "noise", "adaptive", "redrawn"))
    answer = [
        f"{centre['attack'].upper()} of eps {centre['eps']:g} ({centre['units']} units) changed the sign of "
        f"{attacked[0]} of attention's top influences and of {attacked[1]} of ReLU's: a gap of {_points(attack)} "
        f"points. Random signs of the same size: {noise[0]} and {noise[1]}; the attack targeted at the influence "
        f"itself: {targeted[0]} and {targeted[1]}.",
        f"Without an attack, the network of width {centre['width']:,} re-initialised, it is {redrawn[0]} and "
        f"{redrawn[1]}: a gap of {_points(null)} points that is sampling noise of the kernel, not malleability.",
        f"Of {len(changed)} departures from these choices {len(unlike)} leave the sign of the gap open or reverse it: "
        f"{'; '.join(unlike) or 'none'}.",
    ]
    for point in (point for name, point in changed if name == "clip range"):
        attacked, noise = both(point, "attack"), both(point, "noise")
        answer.append(
            f"With moved rows clipped to the data's range, the attack flips {attacked[0]} of attention's and "
            f"{attacked[1]} of ReLU's top influences, random signs {noise[0]} and {noise[1]}."
        )
    return tuple(answer)


FLIP_COLUMNS = {
    "attacked": "attack_flips_top",
    "random signs": "noise_flips_top",
    "re-initialised": "redrawn_flips_top",
    "targeted": "adaptive_flips_top",
    "all rows": "attack_flips_all",
    "pairs": "attack_pair_flips_top",
}


def _flip_rates(rows: Rows, means: Rows) -> Table:
    body = []
    for row in means:
        size = row["eps"] / (row["length"] if row["units"] == "pixel" else 1.0)
        kernel = row["kernel"] if row["kernel"] == "infinite" else f"{row['kernel']}, {row['width']}"
        eps, task = f"{row['eps']:g} {row['units']} ({size:.2g})", f"{row['data']}, {malleability.class_names(row)}"
        rates = [flip_rate(rows, row, row["model"], column) for column in FLIP_COLUMNS.values()]
        flips = [interval(*rate, form=".0f", unit=100) if rate.known else "none" for rate in rates]
        agreement = [f"{row[name]:.2f}" for name in ("attack_spearman", "attack_overlap")]
        choices = (task, malleability.attack_name(row), eps, row["clip"], kernel, f"{row['ridge']:g}", row["model"])
        body.append((*choices, *flips, *agreement))
    head = ("task", "attack", "eps (unit rows)", "clip", "kernel", "ridge", "model", *FLIP_COLUMNS)
    return Table((*head, "Spearman", "overlap"), tuple(body))


def _null_picture(means: Rows, centre: Mapping[str, Any]) -> Picture:
    drawn = where(means, **{name: centre[name] for name in malleability.POINT if name not in ("width", "ridge")})
    ridges = distinct(drawn, "ridge")
    traces = []
    for model, dash in (("attention", "solid"), ("relu", "dot")):
        for ridge, colour in zip(ridges, PALETTE * len(ridges), strict=False):
            found, look = where(drawn, model=model, ridge=ridge), {"dash": dash, "markers": True, "whiskers": None}
            name = f"{model}, ridge {ridge:g}"
            traces.append(mean_curve(found, "width", "redrawn_flips_top", name, colour, unit=100, **look))
    return picture(
        traces,
        {"title": "width of the network", "type": "log"},
        {"title": "% of the top rows that changed sign", "rangemode": "tozero"},
        "Solid attention, dotted ReLU, without any attack: a wide enough network or a larger ridge removes these.",
        "Flips by another initialisation against width, for several ridges.",
    )


def _ablation(rows: Rows, centre: Mapping[str, Any]) -> Table:
    columns = ("attack_flips_top", "attack_pair_flips_top", "redrawn_flips_top", "adaptive_flips_top")
    words = {1: "attention more", -1: "ReLU more", 0: "open"}
    body = []
    for name, point in (("as chosen", centre), *malleability.departures(rows, centre)):
        gaps = [gap(rows, point, column) for column in columns]
        body.append((name, *map(_points, gaps), words[gaps[0].sign]))
    return Table(("changed", "gap", "gap over pairs", "gap of the null", "gap, targeted", "flips"), tuple(body))


def _points(found: Gap) -> str:
    return interval(*found, form="+.0f") if found.known else "none"


def interventions_page(rows: Rows, means: Rows) -> Page:
    """Return the page: each intervention beside the untouched fit."""
    first = rows[0]
    rounds = min(row["rounds"] for row in means)
    answer = []
    for model in MODELS:
        found = where(means, model=model, rounds=rounds, attack=means[0]["attack"])
        right = {row["intervention"]: f"{100 * row['accuracy']:.1f} %" for row in found}
        answer.append(
            f"{model}: {right['untouched']} of the queries right; {right['curated']} without the top tenth, "
            f"{right['transformed']} with it attacked, {right['adversarial']} with all rows attacked."
        )
    bars = []
    for model, colour in zip(MODELS, PALETTE, strict=False):
        found = where(means, model=model)
        names = [f"{row['intervention']}, {row['rounds']} rounds" for row in found]
        heights = [100 * row["accuracy"] for row in found]
        bars.append({"type": "bar", "name": model, "marker": {"color": colour}, "x": names, "y": heights})
    return Page.of(
        "Interventions: removing or moving the most influential rows",
        f"{first['data']}; {first['rows']:,} training rows, {first['test_rows']:,} queries, the top tenth, "
        f"{seeds_of(rows)}",
        tuple(answer),
        Section.of(
            "Accuracy",
            "Untouched is the fit to all rows. Curated leaves the top tenth out; transformed keeps them, "
            "attacked; adversarial attacks all rows, against the fit of the round before. Influence is the "
            "mean absolute one on the true class; flips and Spearman's correlation compare it with that of the "
            "untouched fit, on the top rows that are left.",
            Picture(
                draw(bars, "", "test accuracy, %"),
                "Test accuracy of the untouched fit and of the three others; intervals are in the table.",
                "Bars of test accuracy for each intervention and model.",
            ),
        ),
        Section.of("Accuracy, margin and influence before and after", _before_and_after(means)),
    )


def _before_and_after(means: Rows) -> Table:
    shown = {"accuracy": (100, (0.0, 1.0)), "margin": (1, (-inf, inf)), "influence": (1, (-inf, inf)),
             "flips": (100, (0.0, 1.0)), "spearman": (1, (-1.0, 1.0))}  # fmt: skip
    body = []
    for row in means:
        cells = []
        for name, (unit, (least, most)) in shown.items():  # an interval cannot leave the possible values
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            if low is not None and high is not None:
                low, high = max(least, low), min(most, high)
            cells.append(interval(row[name], low, high, unit=unit))
        attack = f"{row['attack']}, {row['eps']:g}"
        body.append((row["model"], row["intervention"], attack, str(row["rounds"]), *cells))
    head = ("model", "intervention", "attack", "rounds", "accuracy, %", "margin", "influence", "flips, %", "Spearman")
    return Table(head, tuple(body))


def influence_over_time_page(rows: Rows, means: Rows) -> Page:
    """Return the page: the influences against the epoch, beside those at the start and at the end."""
    first = rows[0]
    answer = []
    for model in MODELS:
        found = sorted(where(means, model=model), key=lambda row: row["epoch"])
        last = found[-1]
        settled = next((row["epoch"] for row in found if row["spearman_end"] >= 0.9), last["epoch"])
        answer.append(
            f"{model}: {last['epoch']} epochs of training moved the kernel by {percent(last['kernel_drift'])} and "
            f"changed the sign of {percent(last['flips_since_start'])} of the top influences (rank correlation of "
            f"start and end {last['spearman_start']:.2f}); from epoch {settled} on it is 0.9 or more with the end."
        )
    return Page.of(
        "Influence over training time",
        f"{first['data']}; {first['rows']:,} training rows, {first['test_rows']:,} queries, width {first['width']:,}, "
        f"{first['method']}, {first['loss']}, ridge {first['ridge']:g} tr(K)/n, {seeds_of(rows)}",
        tuple(answer),
        Section.of(
            "Beside the end and the start",
            "Spearman's rank correlation of the influences, means over queries, with those at the end of "
            "training and at its start. The kernel is that of the weights at the epoch.",
            _by_epoch(means, "spearman_end", "Spearman's rho with the end"),
            _by_epoch(means, "spearman_start", "Spearman's rho with the start"),
        ),
        Section.of(
            "Signs, and the kernel",
            "Fraction of the top tenth of the start whose influence has another sign by then, and the distance "
            "that the kernel has moved.",
            _by_epoch(means, "flips_since_start", "fraction of the top that changed sign"),
            _by_epoch(means, "kernel_drift", "norm(K_t - K_0) / norm(K_0)"),
        ),
    )


def _by_epoch(means: Rows, column: str, title: str) -> Picture:
    later = [{**row, "epoch": row["epoch"] + 1} for row in means]
    traces = [
        mean_curve(where(later, model=model), "epoch", column, model, colour, markers=True, whiskers=None)
        for model, colour in zip(MODELS, PALETTE, strict=False)
    ]
    axis = {"title": "epoch + 1", "type": "log"}
    return picture(traces, axis, title, f"{title}, mean over seeds.", f"{title} against the epoch, for both models.")
