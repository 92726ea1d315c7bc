"""Influence over training time: when a network's influences become what they end as."""

from __future__ import annotations

from typing import Any

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Network, RawFeatures, influence_over_time
from ridgeformer.influence.features import Features
from ridgeformer.regime import Training
from ridgeformer.studies.study import Preset, Study, product

__all__ = ["STUDY", "measure"]

MODELS: dict[str, Features] = {"relu": RawFeatures(), "attention": AttentionFeatures()}


def measure(
    data: str, rows: int, test_rows: int, width: int, method: str, loss: str, epochs: int, ridge: float, seed: int
) -> list[dict[str, Any]]:
    """Return one row a model and epoch: the influences then, beside those at the start and at the end.

    All classes of the data are used, with unit rows. The network is trained by "adam", "descent" or "flow" with the
    published rate and L2 penalty on "mse" or "cross_entropy", and looked at after 0, 1, 2, 4, ... epochs; `ridge` is
    over tr(K)/n.

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
        for one in seen:
            start, end = one.since_start, one.until_end
            row = {"model": model, "epoch": one.epoch, "kernel_drift": one.kernel_drift}
            row |= {"flips_since_start": start.flips_top, "spearman_start": start.spearman}
            row |= {"flips_until_end": end.flips_top, "spearman_end": end.spearman, "overlap_end": end.overlap}
            found.append(row)
    return found


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
)
