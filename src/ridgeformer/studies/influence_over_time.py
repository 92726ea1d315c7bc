"""Influence over training time: when a network's influences become what they end as."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Moment, Network, RawFeatures, influence_over_time
from ridgeformer.influence.features import Features
from ridgeformer.regime import Training
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.views import PALETTE, Page, Picture, Section, styled

__all__ = ["STUDY", "make_page", "measure"]

MODELS: dict[str, Features] = {"relu": RawFeatures(), "attention": AttentionFeatures()}


def measure(
    data: str, rows: int, test_rows: int, width: int, method: str, loss: str, epochs: int, ridge: float, seed: int
) -> list[dict[str, Any]]:
    """Return one row a model and epoch: the influences then, beside those at the start and at the end.

    Args:
        data: dataset, all classes, unit rows.
        rows: training rows.
        test_rows: queries.
        width: of the network.
        method: of training: "adam", "descent" or "flow", with the published rate and L2 penalty.
        loss: "mse" or "cross_entropy".
        epochs: of training; looked at after 0, 1, 2, 4, ... of them.
        ridge: over tr(K)/n.
        seed: of rows, weights and batches.

    Example:
        >>> found = measure("digits", 40, 10, 32, "adam", "cross_entropy", 4, 1e-2, seed=0)
        >>> [(row["model"], row["epoch"]) for row in found[:4]]
        [('relu', 0), ('relu', 1), ('relu', 2), ('relu', 4)]
    """
    problem = Split.for_networks(datasets.load(data), rows=rows, test_rows=test_rows, seed=seed)
    network = Network(width, Training(method, loss, epochs=epochs), relative_ridge=ridge)
    moments = [2**k for k in range(epochs.bit_length()) if 2**k <= epochs]
    found = []
    for model, features in MODELS.items():
        seen = influence_over_time(
            network, problem.X, problem.y, problem.Xt, problem.yt, moments, features=features, seed=seed
        )
        found += [{"model": model, "epoch": one.epoch, **_values(one)} for one in seen]
    return found


def _values(one: Moment) -> dict[str, float]:
    return {
        "kernel_drift": one.kernel_drift,
        "flips_since_start": one.since_start.flips_top,
        "spearman_start": one.since_start.spearman,
        "flips_until_end": one.until_end.flips_top,
        "spearman_end": one.until_end.spearman,
        "overlap_end": one.until_end.overlap,
    }


def make_page(rows: list[dict[str, Any]], means: list[dict[str, Any]]) -> Page:
    """Return the page: how far the influences are from their start and end, against the epoch."""
    first = rows[0]
    return Page(
        "Influence over training time",
        f"{first['data']}; {first['rows']:,} training rows, {first['test_rows']:,} queries, width {first['width']:,}, "
        f"{first['method']}, {first['loss']}, ridge {first['ridge']:g} tr(K)/n, {len({r['seed'] for r in rows})} seeds",
        tuple(_sentence(means, model) for model in MODELS),
        (
            Section(
                "Beside the end and the start",
                ("Spearman's rank correlation of the influences, means over queries, after some epochs with those at "
                 "the end of training and at its start. The kernel is that of the weights then.",),
                pictures=(_picture(means, "spearman_end", "Spearman's rho with the end"),
                          _picture(means, "spearman_start", "Spearman's rho with the start")),
            ),
            Section(
                "Signs, and the kernel",
                ("Share of the top tenth of the start whose influence has another sign by then, and how far the kernel "
                 "has moved.",),
                pictures=(_picture(means, "flips_since_start", "share of the top that changed sign"),
                          _picture(means, "kernel_drift", "norm(K_t - K_0) / norm(K_0)")),
            ),
        ),
    )  # fmt: skip


def _sentence(means: list[dict[str, Any]], model: str) -> str:
    curve = _curve(means, model)
    half = next((row["epoch"] for row in curve if row["spearman_end"] >= 0.9), curve[-1]["epoch"])
    last = curve[-1]
    return (
        f"{model}: training of {last['epoch']} epochs moved the kernel by {100 * last['kernel_drift']:.0f} % and "
        f"changed the sign of {100 * last['flips_since_start']:.0f} % of the top influences (rank correlation of start "
        f"and end {last['spearman_start']:.2f}); from epoch {half} on it is 0.9 or more with the end."
    )


def _curve(means: list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    return sorted((row for row in means if row["model"] == model), key=lambda row: row["epoch"])


def _picture(means: list[dict[str, Any]], name: str, title: str) -> Picture:
    figure = go.Figure()
    for model, colour in zip(MODELS, PALETTE, strict=False):
        curve = _curve(means, model)
        figure.add_scatter(
            x=[row["epoch"] + 1 for row in curve], y=[row[name] for row in curve], name=model, mode="lines+markers",
            line_color=colour,
        )  # fmt: skip
    figure.update_xaxes(title="epoch + 1", type="log")
    figure.update_yaxes(title=title)
    return Picture(styled(figure), f"{title}, mean over seeds.", f"{title} against the epoch, for both models.")


def _grid(data: list[str], rows: int, test_rows: int, width: int, epochs: int) -> list[dict[str, Any]]:
    return product(
        data=data, rows=[rows], test_rows=[test_rows], width=[width], method=["adam"], loss=["cross_entropy"],
        epochs=[epochs], ridge=[1e-2],
    )  # fmt: skip


STUDY = Study(
    name="influence-over-time",
    version=1,
    what="How the influences of a network's tangent kernel change while it is trained.",
    function="ridgeformer.studies.influence_over_time:measure",
    presets={
        "quick": Preset(_grid(["digits"], 100, 40, 256, 256), seeds=5),
        "default": Preset(_grid(["digits"], 250, 100, 1024, 512), seeds=10),
        "paper": Preset(_grid(["mnist", "cifar10"], 1000, 250, 1024, 512), seeds=10),
    },
    within=("model", "epoch"),
    seconds=3600.0,
    memory=4 << 30,
    page=make_page,
)
