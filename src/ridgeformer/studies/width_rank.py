"""Width against rank: what a compiled transformer loses that carries fewer columns than there are features."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from ridgeformer import bounds
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.compiler.certificate.certify import promise_of
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.certificate.sketching import measure_sketch
from ridgeformer.compiler.compile import compile
from ridgeformer.studies.compiled_problem import kernel_of, pose_with_condition_number
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.views import PALETTE, Page, Picture, Section, styled

__all__ = ["STUDY", "make_page", "measure"]

SUPPORTS, FEATURES, KAPPA = 48, 24, 100.0
STEPS = 80
"""Enough for conjugate gradients to leave nothing that the sketch's error could be mistaken for."""


def measure(attention: str, sketch: str, decay: str, width: int, dtype: str, seed: int) -> dict[str, Any]:
    """Return what a model that carries `width` of the features loses, relative to norm(y) or norm(K).

    `kernel` is norm(K - Kh), `tail` the sum of eigenvalues past the width, which is sometimes quoted as its bound (W1,
    false), `floor` what no sketch of this rank can beat (linear attention only: softmax carries logits, W6). `error` is
    the in-sample error of the network and `bound` s/(s + ridge) plus what the steps may leave (W2, W3); `best` is the
    worst case of the best sketch, `expected` its root mean square for random targets (W5), `dimension` d_eff/(m + 1),
    which is above `best` (W4).

    Example:
        >>> row = measure("linear", "pca", "log", 8, "float64", seed=0)
        >>> row["floor"] <= row["kernel"] * (1 + 1e-9), row["error"] <= row["bound"]
        (True, True)
    """
    posed = pose_with_condition_number(attention, SUPPORTS, FEATURES, KAPPA, decay, seed)
    common: dict[str, Any] = {"features": FEATURES, "ridge": posed.ridge, "dtype": dtype}
    kernel, algorithm = kernel_of(attention), ConjugateGradients(steps=STEPS)
    overhead = compile(kernel, algorithm, **common).budget.overhead
    model = compile(kernel, algorithm, width=width + overhead, sketch=sketch, reference=posed.X, seed=seed, **common)
    evidence = gather(model, posed.X, posed.y, posed.X)[0]
    true, lost = evidence.true, measure_sketch(evidence)
    spectrum = (true.eigenvalues - true.ridge).clamp_min(0).numpy()
    size, norm = float(true.y.norm()), float(spectrum.max())
    steps = float(promise_of(evidence).predictions[-1].norm()) / size
    linear = attention == "linear"
    return {
        "kernel": lost.difference / norm,
        "tail": bounds.tail_mass(spectrum, width) / norm,
        "floor": bounds.sketch_error_floor(spectrum, width) / norm if linear else None,
        "error": float((evidence.predictions - true.f).norm()) / size,
        "bound": float(bounds.in_sample_bound(lost.bound, true.ridge, 1.0)) + lost.rounding + steps,
        "best": bounds.pca_relative_error(spectrum, width, true.ridge) if linear else None,
        "expected": (bounds.pca_expected_squared_error(spectrum, width, true.ridge) / SUPPORTS) ** 0.5
        if linear
        else None,
        "dimension": min(1.0, bounds.pca_relative_error_bound(bounds.effective_dimension(spectrum, true.ridge), width))
        if linear
        else None,
    }


def _grid(widths: list[int], decays: list[str]) -> list[dict[str, Any]]:
    return product(
        attention=["linear", "softmax"], sketch=["pca", "gaussian", "orthogonal"], decay=decays, width=widths,
        dtype=["float64", "float32"],
    )  # fmt: skip


def make_page(rows: list[dict[str, Any]], means: list[dict[str, Any]]) -> Page:
    """Return the page: the error of narrow models beside the corrected bounds, and the bound that is none."""
    broken = sum(not row["error"] <= row["bound"] for row in rows)
    verdict = "in every run" if not broken else f"in all but {broken} of {len(rows):,} runs"
    drawn = [row for row in rows if row["sketch"] != "pca" and row["attention"] == "linear"]
    above = sum(row["kernel"] > row["tail"] for row in drawn)
    answer = (
        f"The in-sample error of {len(rows):,} narrow transformers stayed below s/(s + ridge), with s = norm(K - Kh), "
        f"{verdict}.",
        f"The sum of the eigenvalues past the width, quoted as a bound on norm(K - Kh) for any linear map (claim W1), "
        f"was exceeded by {above:,} of {len(drawn):,} random sketches of linear attention.",
    )
    pictures = tuple(_error_picture(means, attention) for attention in ("linear", "softmax"))
    return Page(
        "Width and rank of compiled transformers",
        f"{SUPPORTS} supports, {FEATURES} features, condition number {KAPPA:g}, {len({r['seed'] for r in rows})} seeds",
        answer,
        (
            Section(
                "What a narrow model loses",
                ("In-sample prediction error relative to norm(y), mean over seeds with 95 % intervals. Dashed: "
                 "the bound of each sketch. The spectrum falls geometrically, the precision is float64.",),
                pictures=pictures,
            ),
            Section(
                "How far the kernel moves",
                ("A sketch of rank m cannot come nearer to K than the eigenvalue m + 1 (Eckart-Young), and PCA does. "
                 "Random sketches can be further away than the whole tail.",),
                pictures=(_kernel_picture(means),),
            ),
        ),
    )  # fmt: skip


def _error_picture(means: list[dict[str, Any]], attention: str) -> Picture:
    figure = go.Figure()
    for sketch, colour in zip(("pca", "gaussian", "orthogonal"), PALETTE, strict=False):
        curve = _curve(means, attention, sketch)
        widths = [row["width"] for row in curve]
        figure.add_scatter(
            x=widths, y=[row["error"] for row in curve], name=sketch, mode="lines+markers", line_color=colour,
            error_y=_spread(curve, "error"),
        )  # fmt: skip
        figure.add_scatter(
            x=widths, y=[row["bound"] for row in curve], name=f"bound, {sketch}", mode="lines",
            line={"color": colour, "dash": "dash"},
        )  # fmt: skip
    if attention == "linear":
        curve = _curve(means, attention, "pca")
        for name, value, colour in (
            ("best sketch, worst targets", "best", PALETTE[3]),
            ("best sketch, random targets", "expected", PALETTE[4]),
            ("d_eff/(m + 1)", "dimension", "#888888"),
        ):
            figure.add_scatter(
                x=[row["width"] for row in curve], y=[row[value] for row in curve], name=name, mode="lines",
                line={"color": colour, "dash": "dot"},
            )  # fmt: skip
    figure.update_xaxes(title="feature columns m")
    figure.update_yaxes(title="relative in-sample error", type="log", exponentformat="power")
    caption = f"{attention.capitalize()} attention: every line stays below the dashed line of its colour."
    return Picture(styled(figure), caption, f"In-sample error against width for {attention} attention, with bounds.")


def _kernel_picture(means: list[dict[str, Any]]) -> Picture:
    figure = go.Figure()
    for sketch, colour in zip(("pca", "gaussian", "orthogonal"), PALETTE, strict=False):
        curve = _curve(means, "linear", sketch)
        figure.add_scatter(
            x=[row["width"] for row in curve], y=[row["kernel"] for row in curve], name=sketch, mode="lines+markers",
            line_color=colour, error_y=_spread(curve, "kernel"),
        )  # fmt: skip
    curve = _curve(means, "linear", "pca")
    for name, value, colour in (("tail, as published", "tail", PALETTE[3]), ("floor s_(m+1)", "floor", PALETTE[4])):
        figure.add_scatter(
            x=[row["width"] for row in curve], y=[row[value] for row in curve], name=name, mode="lines",
            line={"color": colour, "dash": "dash"},
        )  # fmt: skip
    figure.update_xaxes(title="feature columns m")
    figure.update_yaxes(title="norm(K - Kh) / norm(K)", type="log", exponentformat="power")
    caption = "PCA lies on the floor; where a random sketch is above the published line, the published bound is false."
    return Picture(styled(figure), caption, "Distance between the kernels against width for three sketches.")


def _curve(means: list[dict[str, Any]], attention: str, sketch: str) -> list[dict[str, Any]]:
    wanted = (attention, sketch, "log", "float64")
    return [row for row in means if (row["attention"], row["sketch"], row["decay"], row["dtype"]) == wanted]


def _spread(curve: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return error bars from the interval; a single seed has none."""
    up = [0.0 if row[f"{name}_high"] is None else row[f"{name}_high"] - row[name] for row in curve]
    down = [0.0 if row[f"{name}_low"] is None else row[name] - row[f"{name}_low"] for row in curve]
    return {"array": np.asarray(up), "arrayminus": np.asarray(down)}


STUDY = Study(
    name="width-rank",
    version=1,
    what="What compiled transformers lose that carry fewer columns than there are features.",
    function="ridgeformer.studies.width_rank:measure",
    presets={
        "quick": Preset(_grid([2, 6, 12, 18, 22], ["log"]), seeds=3),
        "default": Preset(_grid(list(range(1, FEATURES, 2)), ["log", "linear", "power"]), seeds=5),
        "paper": Preset(_grid(list(range(1, FEATURES)), ["log", "linear", "power"]), seeds=20),
    },
    seconds=600.0,
    memory=4 << 30,
    page=make_page,
)
