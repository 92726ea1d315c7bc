"""Distance to the kernel predictor against width: the published table, under each reading of what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any

import plotly.graph_objects as go
import torch

from ridgeformer import datasets
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Dataset, Split
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import Architecture, Measurement, Training
from ridgeformer.regime import measure as measure_network
from ridgeformer.regime.curvature import stable_rate
from ridgeformer.studies.result_cards import CardVerdict, ResultCard, cards_section, make_card
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.views import PALETTE, Page, Picture, Section, Table, styled

__all__ = ["PUBLISHED", "SETTINGS", "STUDY", "make_cards", "make_page", "measure"]

TABLE = "NTK distance"
MODELS = {"relu": "2L-ReLU", "mlp-attn": "MLP-Attn"}

PUBLISHED: dict[tuple[str, str], dict[int, float]] = {
    ("mnist", "relu"): {16: 45.1, 1024: 39.9, 4096: 39.2},
    ("mnist", "mlp-attn"): {16: 10.3, 1024: 33.3, 4096: 43.4},
    ("cifar10", "relu"): {16: 246.2, 1024: 101.7, 4096: 56.9},
    ("cifar10", "mlp-attn"): {16: 3.7, 1024: 10.4, 4096: 12.6},
}
"""The table of the source, by data and network: width and distance."""

SOURCES = {data for data, _ in PUBLISHED}
"""Data the source used."""


@dataclass(frozen=True)
class Setting:
    """One reading of how the source trained its networks and what it compared them with.

    Attributes:
        what: In words.
        scale: Of the initial weights.
        method, loss, l2: As in `regime.Training`; the rate of full-batch descent is half of what is stable.
        reading: The value that is the distance: to ridge regression, or to the kernel trained as long.
    """

    what: str
    scale: float
    method: str
    loss: str
    l2: float
    reading: str


SETTINGS = {
    "published": Setting("Adam, cross-entropy, L2, small start", 0.01, "adam", "cross_entropy", 1e-3, "to_ridge"),
    "adam-mse": Setting("Adam, squared error, L2, small start", 0.01, "adam", "mse", 1e-3, "to_ridge"),
    "descent-small": Setting("gradient descent, squared error, small start", 0.01, "descent", "mse", 0.0, "to_ntk"),
    "descent-unit": Setting("gradient descent, squared error, unit start", 1.0, "descent", "mse", 0.0, "to_ntk"),
    "descent-l2": Setting("gradient descent, squared error, L2, unit start", 1.0, "descent", "mse", 1e-3, "to_ridge"),
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
    problem = Split.for_networks(_load(data), rows=rows, test_rows=test_rows, seed=seed)
    architecture = Architecture(model, scale=chosen.scale)
    training = Training(chosen.method, chosen.loss, epochs=epochs, l2=chosen.l2)
    if chosen.method != "adam":
        pace = stable_rate(_largest(problem, architecture), problem.y, chosen.loss)
        training = Training(chosen.method, chosen.loss, rate=pace, epochs=epochs, l2=chosen.l2)
    found = measure_network(
        problem, architecture, training, width=width, seed=seed, linearise=False, dtype=getattr(torch, dtype)
    )
    distance = getattr(found, chosen.reading)
    return {"distance": None if distance is None else distance.absolute, **_flat(found)}


@lru_cache(maxsize=1)
def _load(data: str) -> Dataset:
    """Read a dataset once a process: reading images takes longer than training on a few of them."""
    return datasets.load(data)


def _largest(problem: Split, architecture: Architecture) -> float:
    """Return the limit kernel's largest eigenvalue, the same at every width: all train for the same time."""
    built = architecture.build(problem.X, 1, 1, torch_generator(0, "shape"))
    return float(torch.linalg.eigvalsh(ReluNTK()(built.features(problem.X)))[-1])


def _flat(found: Measurement) -> dict[str, Any]:
    outputs = {name: getattr(found, name) for name in ("to_ridge", "to_ntk")}
    values: dict[str, Any] = {name: None if one is None else one.absolute for name, one in outputs.items()}
    values |= {f"{name}_relative": None if one is None else one.relative for name, one in outputs.items()}
    for when in ("start", "end"):
        kernel = getattr(found, f"kernel_{when}")
        for name in ("additive", "frobenius", "multiplicative", "whitened"):
            values[f"{name}_{when}"] = None if kernel is None else getattr(kernel, name)
    plain = ("kernel_drift", "weight_movement", "train_error", "test_error", "ridge_test_error", "output_norm", "ridge",
             "train_loss", "dead", "dead_share", "diverged")  # fmt: skip
    return values | {name: getattr(found, name) for name in plain}


def make_cards(rows: list[dict[str, Any]]) -> list[ResultCard]:
    """Return the cards: how the distance changes with width under each setting, and the table's entries.

    On data that the source did not use only the direction is compared, with that of MNIST.
    """
    cards = []
    for data in _unique(rows, "data"):
        for model in MODELS:
            for setting in SETTINGS:
                chosen = [row for row in rows if (row["data"], row["model"], row["setting"]) == (data, model, setting)]
                if chosen:
                    cards += _cards(data, model, setting, chosen)
    return cards


def _cards(data: str, model: str, setting: str, rows: list[dict[str, Any]]) -> list[ResultCard]:
    published = PUBLISHED[data if data in SOURCES else "mnist", model]
    choices = _choices(data, setting, rows[0])
    by_width = {width: [row for row in rows if row["width"] == width] for width in _unique(rows, "width")}
    first, last = min(by_width), max(by_width)
    ends = {width: {row["seed"]: row["distance"] for row in by_width[width]} for width in (first, last)}
    changes = [_log_ratio(ends[last].get(seed), ends[first].get(seed)) for seed in ends[first]]
    change = log(published[max(published)] / published[min(published)])
    label = f"{data}, {MODELS[model]}"
    name = f"{label}: ln of the distance at m = {last:,} over that at {first:,}"
    cards = [make_card(TABLE, name, change, changes, choices)]
    if data in SOURCES and setting == "published":
        for width in sorted(by_width.keys() & published.keys()):
            drawn = [row["distance"] for row in by_width[width]]
            cards.append(make_card(TABLE, f"{label}, m = {width:,}", published[width], drawn, choices, neutral=None))
    return cards


def _choices(data: str, setting: str, row: dict[str, Any]) -> dict[str, str]:
    chosen = SETTINGS[setting]
    stand_in = {} if data in SOURCES else {"data": f"{data} in place of MNIST: the direction alone is compared"}
    compared = {
        "to_ridge": "kernel ridge regression with the limit kernel",
        "to_ntk": "the limit kernel trained as long, from the network's own start",
    }
    return stand_in | {
        "training": f"{setting}: {chosen.what}, {row['epochs']} epochs",
        "kernel predictor": compared[chosen.reading],
        "ridge": f"{row['ridge']:.3g}",
        "sample": f"{row['rows']:,} rows train, {row['test_rows']:,} test",
        "label coding": "+1 and -1, one column a class",
        "test features": "X'X x, normalised",
        "distance": "Frobenius norm over test rows and outputs, not normalised",
    }


def _log_ratio(last: float | None, first: float | None) -> float | None:
    return log(last / first) if last and first else None


def make_page(rows: list[dict[str, Any]], means: list[dict[str, Any]]) -> Page:
    """Return the page: what became of the claim, its cards, and what else moves with width."""
    cards = make_cards(rows)
    lost = sum(bool(row["dead"]) for row in rows), sum(bool(row["diverged"]) for row in rows)
    seeds = max(row["seed"] for row in rows) + 1
    return Page(
        "Distance to the kernel predictor against width",
        f"{', '.join(_unique(rows, 'data'))}; widths {min(_unique(rows, 'width')):,} to "
        f"{max(_unique(rows, 'width')):,}; {seeds} seeds",
        (*_answer(cards), f"{len(rows):,} networks were trained; {lost[0]} are dead, {lost[1]} diverged."),
        (
            cards_section(
                "Result cards", cards,
                ("The claim is that the distance falls with width for ReLU and rises for attention. The source leaves "
                 "the training and the predictor open, so every reading has its card.",),
            ),
            Section(
                "Distances",
                ("Means over seeds with 95 % intervals (Student's t).",),
                pictures=tuple(_picture(means, data) for data in _unique(rows, "data")),
            ),
            Section(
                "What moved",
                ("Kernel at initialisation against its limit (average entry and ridge-whitened), and what training "
                 "changed. A distance that rises while kernel and weights stand still is not the kernel regime lost.",),
                _moved(means),
            ),
        ),
    )  # fmt: skip


def _answer(cards: list[ResultCard]) -> Iterable[str]:
    """Say for each network under how many readings its direction came out as published."""
    for name in MODELS.values():
        found = [card.verdict for card in cards if f", {name}: ln" in card.row]
        same = found.count(CardVerdict.REPRODUCED) + found.count(CardVerdict.SAME_DIRECTION)
        yield (
            f"{name}: under {same} of {len(found)} readings the distance changes with width in the published "
            f"direction, under {found.count(CardVerdict.OPPOSITE)} in the opposite one, under "
            f"{len(found) - same - found.count(CardVerdict.OPPOSITE)} neither way for certain."
        )


def _picture(means: list[dict[str, Any]], data: str) -> Picture:
    figure = go.Figure()
    for setting, colour in zip(SETTINGS, PALETTE, strict=True):
        for model, dash in (("relu", "dot"), ("mlp-attn", "solid")):
            curve = sorted(
                (
                    row
                    for row in means
                    if (row["data"], row["setting"], row["model"]) == (data, setting, model) and row["distance"]
                ),
                key=lambda row: row["width"],
            )
            if not curve:
                continue
            spread = {
                "array": [(row["distance_high"] or row["distance"]) - row["distance"] for row in curve],
                "arrayminus": [row["distance"] - (row["distance_low"] or row["distance"]) for row in curve],
            }
            figure.add_scatter(
                x=[row["width"] for row in curve], y=[row["distance"] for row in curve], error_y=spread,
                name=f"{MODELS[model]}, {setting}", mode="lines+markers", line={"color": colour, "dash": dash},
            )  # fmt: skip
    figure.update_xaxes(title="width m", type="log")
    figure.update_yaxes(title="distance of test outputs", type="log")
    caption = f"{data}. Solid: attention, dotted: ReLU; one colour a reading."
    return Picture(styled(figure), caption, f"Distance to the kernel predictor against width on {data}.")


def _moved(means: list[dict[str, Any]]) -> Table:
    head = ("data", "network", "setting", "width", "distance", "relative", "average entry", "whitened", "kernel drift",
            "weight movement", "test error")  # fmt: skip
    order = list(SETTINGS)
    rows = tuple(
        (
            row["data"], MODELS[row["model"]], row["setting"], f"{row['width']:,}",
            *(_number(row[name]) for name in ("distance", f"{SETTINGS[row['setting']].reading}_relative",
              "frobenius_start", "whitened_start", "kernel_drift", "weight_movement", "test_error")),
        )
        for row in sorted(means, key=lambda row: (row["data"], row["model"], order.index(row["setting"]), row["width"]))
    )  # fmt: skip
    return Table(head, rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _unique(rows: Iterable[dict[str, Any]], name: str) -> list[Any]:
    return sorted({row[name] for row in rows})


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
    page=make_page,
)
