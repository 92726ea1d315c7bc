"""Pages of the studies of compiled transformers: depth and accuracy, width and rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeformer.studies import depth_accuracy, width_rank
from ridgeformer.views.figures import GREY, PALETTE, Trace, curve
from ridgeformer.views.parts import Page, Picture, Section, Table
from ridgeformer.views.study_pages.shared import Rows, distinct, mean_curve, picture, seeds_of, where

__all__ = ["depth_accuracy_page", "width_rank_page"]

LOG = {"type": "log", "exponentformat": "power"}
DASHES = ("solid", "dot", "longdash", "dashdot", "longdashdot")
GEOMETRIC = {"decay": "log", "dtype": "float64"}
"""The runs that are drawn: a spectrum that falls geometrically, in float64."""


def depth_accuracy_page(rows: Rows, means: Rows) -> Page:
    """Return the page: errors under their bounds, and the depth that each method needs."""
    runs = {tuple(row[name] for name in ("attention", "algorithm", "kappa", "decay", "dtype", "seed")) for row in rows}
    broken = sum(not row["error"] <= row["bound"] for row in rows)
    verdict = "at every step" if not broken else f"except at {broken} of {len(rows):,} steps"
    powers = [
        f"With {method} the depth that linear attention needs grew like the condition number to the power {power:.2f}; "
        f"the steps that suffice grow like the power {theory}."
        for method, algorithm, theory in (("conjugate gradients", "cg", "1/2"), ("gradient descent", "richardson", "1"))
        if (power := depth_accuracy.depth_exponent(means, algorithm)) is not None
    ]
    groups: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for row in means:
        if row["step"] == row["steps"]:
            group = row["attention"], row["algorithm"], row["kappa"]
            groups.setdefault(group, {"float64": [], "float32": []})[row["dtype"]].append(row["error"])
    precision = [
        (*group, *(float(np.mean(errors)) if errors else None for errors in cells.values()))
        for group, cells in sorted(groups.items())
    ]
    columns = {"attention": "", "method": "", "condition number": "g", "float64": ".1e", "float32": ".1e"}
    return Page.of(
        "Depth and accuracy of compiled transformers",
        f"{depth_accuracy.SUPPORTS} supports, {depth_accuracy.FEATURES} features, {seeds_of(rows)}",
        (f"{len(runs):,} compiled transformers ran; the error of each stayed below its bound {verdict}.", *powers),
        Section.of(
            "Every step under its bound",
            "Lines are means over seeds, dashed lines the bounds: the rate of the theory plus the rounding "
            "error. The spectrum falls geometrically.",
            *(_errors_by_step(means, attention) for attention in ("linear", "softmax")),
        ),
        Section.of(
            "The depth a problem needs",
            f"The first step with a relative error below {depth_accuracy.ENOUGH:g}, with 95 % intervals over seeds.",
            _depths(means),
        ),
        Section.of(
            "Precision", "Error after the last step, mean over seeds and spectra.", Table.of(columns, precision)
        ),
    )


def _errors_by_step(means: Rows, attention: str) -> Picture:
    chosen = where(means, attention=attention, **GEOMETRIC)
    traces = []
    for algorithm, colour in zip(distinct(chosen, "algorithm"), PALETTE, strict=False):
        for kappa, dash in zip(distinct(chosen, "kappa"), DASHES * 2, strict=False):
            found = where(chosen, algorithm=algorithm, kappa=kappa)
            name = f"{algorithm}, condition number {kappa:g}"
            shown = [{**row, "error": max(row["error"], 1e-16)} for row in found]
            faint: dict[str, Any] = {"dash": "dash", "width": 1, "opacity": 0.45, "showlegend": False}
            traces += [
                mean_curve(shown, "step", "error", name, colour, dash=dash, whiskers=None),
                mean_curve(found, "step", "bound", f"bound, {name}", colour, whiskers=None, **faint),
            ]
    return picture(
        traces,
        LOG | {"title": "step (one block of layers)"},
        LOG | {"title": "relative error", "range": [-16, 0.5]},
        f"{attention.capitalize()} attention. A line that turns flat has reached the precision of the numbers.",
        f"Error against step for {attention} attention, each line below its bound.",
    )


def _depths(means: Rows) -> Picture:
    chosen = depth_accuracy.reached_depths(means)
    traces: list[Trace] = []
    for attention, algorithm in dict.fromkeys((row["attention"], row["algorithm"]) for row in chosen):
        found = where(chosen, attention=attention, algorithm=algorithm)
        name, colour = f"{attention}, {algorithm}", PALETTE[len(traces) % len(PALETTE)]
        traces.append(mean_curve(found, "condition", "depth", name, colour, markers=True))
    kappas = np.geomspace(2, max((row["kappa"] for row in chosen), default=10.0), 40)
    for (method, depths), colour in zip(depth_accuracy.sufficient_depths(kappas).items(), PALETTE, strict=False):
        traces.append(curve(kappas, depths, f"bound, {method}", colour, dash="dash"))
    return picture(
        traces,
        LOG | {"title": "condition number"},
        LOG | {"title": "steps needed"},
        "Dashed: the steps that suffice for every right-hand side, with the best step size for gradient descent. The "
        "networks find a safe step in context, which may be several times smaller.",
        "Steps needed against the condition number, with the theory's curves.",
    )


def width_rank_page(rows: Rows, means: Rows) -> Page:
    """Return the page: the error of narrow models beside the corrected bounds, and the bound that is none."""
    broken = sum(not row["error"] <= row["bound"] for row in rows)
    verdict = "in every run" if not broken else f"in all but {broken} of {len(rows):,} runs"
    drawn = [row for row in rows if row["sketch"] != "pca" and row["attention"] == "linear"]
    above = sum(row["kernel"] > row["tail"] for row in drawn)
    shape = f"{width_rank.SUPPORTS} supports, {width_rank.FEATURES} features, condition number {width_rank.KAPPA:g}"
    errors = [
        picture(
            _by_width(means, attention, "error", ("bound",), BEST if attention == "linear" else {}),
            "feature columns m",
            LOG | {"title": "relative in-sample error"},
            f"{attention.capitalize()} attention: every line is below the dashed line of its colour.",
            f"In-sample error against width for {attention} attention, with bounds.",
        )
        for attention in ("linear", "softmax")
    ]
    kernels = picture(
        _by_width(means, "linear", "kernel", (), {"tail": "tail, as published", "floor": "floor s_(m+1)"}),
        "feature columns m",
        LOG | {"title": "norm(K - Kh) / norm(K)"},
        "PCA lies on the floor; where a random sketch is above the published line, the published bound is false.",
        "Distance between the kernels against width for three sketches.",
    )
    return Page.of(
        "Width and rank of compiled transformers",
        f"{shape}, {seeds_of(rows)}",
        (
            f"The in-sample error of {len(rows):,} narrow transformers stayed below s/(s + ridge), with "
            f"s = norm(K - Kh), {verdict}.",
            "The sum of the eigenvalues past the width, quoted as a bound on norm(K - Kh) for any linear map (claim "
            f"W1), was exceeded by {above:,} of {len(drawn):,} random sketches of linear attention.",
        ),
        Section.of(
            "What a narrow model loses",
            "In-sample prediction error relative to norm(y), mean over seeds with 95 % intervals. Dashed: the "
            "bound of each sketch. The spectrum falls geometrically, the precision is float64.",
            *errors,
        ),
        Section.of(
            "How far the kernel moves",
            "A sketch of rank m cannot come nearer to K than the eigenvalue m + 1 (Eckart-Young), and PCA "
            "does. Random sketches can be further away than the whole tail.",
            kernels,
        ),
    )


SKETCHES = ("pca", "gaussian", "orthogonal")
BEST = {"best": "best sketch, worst targets", "expected": "best sketch, random targets", "dimension": "d_eff/(m + 1)"}
"""Further curves of linear attention, whose best sketch is known."""


def _by_width(means: Rows, attention: str, column: str, dashed: tuple[str, ...], dotted: dict[str, str]) -> list[Trace]:
    """Return a column for three sketches, with dashed curves of each sketch and dotted ones that are for all."""
    found = {sketch: where(means, attention=attention, sketch=sketch, **GEOMETRIC) for sketch in SKETCHES}
    traces = []
    for (sketch, chosen), colour in zip(found.items(), PALETTE, strict=False):
        traces.append(mean_curve(chosen, "width", column, sketch, colour, markers=True))
        for other in dashed:
            name = f"{other}, {sketch}"
            traces.append(mean_curve(chosen, "width", other, name, colour, dash="dash", whiskers=None))
    for (other, name), colour in zip(dotted.items(), (*PALETTE[3:], GREY), strict=False):
        traces.append(mean_curve(found["pca"], "width", other, name, colour, dash="dot", whiskers=None))
    return traces
