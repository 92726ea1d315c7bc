"""Distance to the kernel predictor against width: the published table, under each reading of what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as product_of
from math import log
from typing import Any

import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import Architecture, Training
from ridgeformer.regime import measure as measure_network
from ridgeformer.regime.tangent_kernel import stable_rate
from ridgeformer.studies.result_cards import ResultCard, make_card
from ridgeformer.studies.study import Preset, Study, load_once, product

__all__ = ["PUBLISHED", "SETTINGS", "STUDY", "make_cards", "measure"]

TABLE = "NTK distance"
MODELS = {"relu": "2L-ReLU", "mlp-attn": "MLP-Attn"}

PUBLISHED: dict[tuple[str, str], dict[int, float]] = {
    ("mnist", "relu"): {16: 45.1, 1024: 39.9, 4096: 39.2},
    ("mnist", "mlp-attn"): {16: 10.3, 1024: 33.3, 4096: 43.4},
    ("cifar10", "relu"): {16: 246.2, 1024: 101.7, 4096: 56.9},
    ("cifar10", "mlp-attn"): {16: 3.7, 1024: 10.4, 4096: 12.6},
}
"""The table of the source, by data and network: width and distance."""

SOURCES = {data for data, _ in PUBLISHED}  # data the source used


@dataclass(frozen=True)
class TrainingSetting:
    """One interpretation of how the source trained its networks and what it compared them with.

    Attributes:
        what: In words.
        scale: Of the initial weights.
        method, loss, l2: As in `regime.Training`; the rate of full-batch descent is half of what is stable.
        compared_with: The distance measured: to ridge regression, or to the kernel trained as long.
    """

    what: str
    scale: float
    method: str
    loss: str
    l2: float
    compared_with: str = "to_ridge"


DESCENT = "gradient descent, squared error"
SETTINGS = {
    "published": TrainingSetting("Adam, cross-entropy, L2, small start", 0.01, "adam", "cross_entropy", 1e-3),
    "adam-mse": TrainingSetting("Adam, squared error, L2, small start", 0.01, "adam", "mse", 1e-3),
    "descent-small": TrainingSetting(f"{DESCENT}, small start", 0.01, "descent", "mse", 0.0, "to_ntk"),
    "descent-unit": TrainingSetting(f"{DESCENT}, unit start", 1.0, "descent", "mse", 0.0, "to_ntk"),
    "descent-l2": TrainingSetting(f"{DESCENT}, L2, unit start", 1.0, "descent", "mse", 1e-3),
}


def measure(
    data: str, model: str, setting: str, width: int, rows: int, test_rows: int, epochs: int, dtype: str, seed: int
) -> dict[str, Any]:
    """Return what is measured of one network: distances of its outputs and kernel, movement, errors.

    The seed draws the rows, the initialisation and the batches, so intervals over seeds allow for all three.

    Example:
        >>> found = measure("digits", "relu", "descent-unit", 64, 40, 20, 20, "float64", seed=0)
        >>> 0 < found["to_ntk"] < found["to_ridge"], found["dead"]
        (True, False)
    """
    chosen = SETTINGS[setting]
    problem = Split.for_networks(load_once(data), rows=rows, test_rows=test_rows, seed=seed)
    architecture = Architecture(model, scale=chosen.scale)
    training = Training(chosen.method, chosen.loss, epochs=epochs, l2=chosen.l2)
    if chosen.method != "adam":  # at the rate of the limit kernel, the same at every width: all train for the same time
        built = architecture.build(problem.X, 1, 1, torch_generator(0, "shape"))
        largest = float(torch.linalg.eigvalsh(ReluNTK()(built.features(problem.X)))[-1])
        training = replace(training, rate=stable_rate(largest, problem.y, chosen.loss))
    found = measure_network(
        problem, architecture, training, width=width, seed=seed, linearise=False, dtype=getattr(torch, dtype)
    )
    values: dict[str, Any] = {}
    for kind, name in product_of(("absolute", "relative"), ("to_ridge", "to_ntk")):
        one = getattr(found, name)
        values[name if kind == "absolute" else f"{name}_relative"] = None if one is None else getattr(one, kind)
    for when, name in product_of(("start", "end"), ("additive", "frobenius", "multiplicative", "whitened")):
        kernel = getattr(found, f"kernel_{when}")
        values[f"{name}_{when}"] = None if kernel is None else getattr(kernel, name)
    plain = ("kernel_drift", "weight_movement", "train_error", "test_error", "ridge_test_error", "output_norm", "ridge",
             "train_loss", "dead", "dead_share", "diverged")  # fmt: skip
    return {"distance": values[chosen.compared_with], **values, **{name: getattr(found, name) for name in plain}}


def make_cards(rows: Sequence[Mapping[str, Any]]) -> list[ResultCard]:
    """Return the cards: how the distance changes with width under each setting, and the table's entries.

    On data that the source did not use only the direction is compared, with that of MNIST.
    """
    cards = []
    for which in product_of(sorted({row["data"] for row in rows}), MODELS, SETTINGS):
        chosen = [row for row in rows if (row["data"], row["model"], row["setting"]) == which]
        if chosen:
            cards += _cards(*which, chosen)
    return cards


def _cards(data: str, model: str, setting: str, rows: Sequence[Mapping[str, Any]]) -> list[ResultCard]:
    published = PUBLISHED[data if data in SOURCES else "mnist", model]
    choices = _choices(data, setting, rows[0])
    by_width = {
        width: [row for row in rows if row["width"] == width] for width in sorted({row["width"] for row in rows})
    }
    first, last = min(by_width), max(by_width)
    ends = {width: {row["seed"]: row["distance"] for row in by_width[width]} for width in (first, last)}
    changes = [
        log(ends[last][seed] / start) if start and ends[last].get(seed) else None for seed, start in ends[first].items()
    ]
    change = log(published[max(published)] / published[min(published)])
    label = f"{data}, {MODELS[model]}"
    name = f"{label}: ln of the distance at m = {last:,} over that at {first:,}"
    cards = [make_card(TABLE, name, change, changes, choices)]
    if data in SOURCES and setting == "published":
        for width in sorted(by_width.keys() & published.keys()):
            drawn = [row["distance"] for row in by_width[width]]
            cards.append(make_card(TABLE, f"{label}, m = {width:,}", published[width], drawn, choices, neutral=None))
    return cards


def _choices(data: str, setting: str, row: Mapping[str, Any]) -> dict[str, str]:
    chosen = SETTINGS[setting]
    stand_in = {} if data in SOURCES else {"data": f"{data} in place of MNIST: the direction alone is compared"}
    compared = {
        "to_ridge": "kernel ridge regression with the limit kernel",
        "to_ntk": "the limit kernel trained as long, from the network's own start",
    }
    return stand_in | {
        "training": f"{setting}: {chosen.what}, {row['epochs']} epochs",
        "kernel predictor": compared[chosen.compared_with],
        "ridge": f"{row['ridge']:.3g}",
        "sample": f"{row['rows']:,} rows train, {row['test_rows']:,} test",
        "label coding": "+1 and -1, one column a class",
        "test features": "X'X x, normalised",
        "distance": "Frobenius norm over test rows and outputs, not normalised",
    }


def _grid(
    data: list[str], settings: Iterable[str], widths: list[int], rows: int, epochs: int, dtype: str
) -> list[dict[str, Any]]:
    return product(
        data=data, model=list(MODELS), setting=list(settings), width=widths, rows=[rows], test_rows=[rows // 2],
        epochs=[epochs], dtype=[dtype],
    )  # fmt: skip


WIDTHS = [16, 64, 256, 1024, 4096]
FEWER = [16, 256, 1024, 4096]

STUDY = Study(
    name="ntk-distance",
    version=3,
    what="The distance of trained networks to their kernel predictors against width, beside the published table.",
    function="ridgeformer.studies.ntk_distance:measure",
    presets={
        "quick": Preset(
            _grid(["digits"], ["published", "descent-unit"], [16, 256, 4096], 100, 100, "float64"), seeds=5
        ),
        "default": Preset(_grid(["digits"], SETTINGS, WIDTHS, 200, 500, "float64"), seeds=5),
        "mnist": Preset(_grid(["mnist"], SETTINGS, FEWER, 250, 500, "float32"), seeds=5),
        "cifar10": Preset(_grid(["cifar10"], SETTINGS, FEWER, 250, 125, "float32"), seeds=5),
        "paper": Preset(
            _grid(["mnist", "cifar10"], SETTINGS, [*WIDTHS, 16384, 100_000], 1000, 500, "float32"), seeds=5
        ),
    },
    seconds=6 * 3600.0,
    memory=8 << 30,
)
