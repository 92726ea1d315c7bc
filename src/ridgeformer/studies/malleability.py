"""Malleability: how often attacked training points change the sign of their influence, and how much of it is noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isnan, nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ridgeformer.core.errors import unknown_name
from ridgeformer.core.statistics import mean_interval, rate_interval
from ridgeformer.datasets import Split
from ridgeformer.influence import (
    AttentionFeatures,
    Network,
    RawFeatures,
    UnitRows,
    adversarial_rows,
    network_malleability,
)
from ridgeformer.influence.attacks import build_attack
from ridgeformer.influence.features import Features
from ridgeformer.influence.malleable import FLIPS, FLIPS_AFTER_ADVERSARIAL_TRAINING
from ridgeformer.regime import Training
from ridgeformer.studies.result_cards import ResultCard, make_card
from ridgeformer.studies.study import Preset, Study, load_once

__all__ = ["STUDY", "Gap", "centre_of", "departures", "flip_rate", "gap", "make_cards", "measure"]

Rows: TypeAlias = Sequence[Mapping[str, Any]]
Point: TypeAlias = Mapping[str, Any]

TAU = 0.1
MODELS = ("relu", "attention")
EPOCHS, WIDTH = 500, 1024
ROUNDS = (1, 4)
"""Of adversarial training: the attack on the fit as it is, and four rounds of fitting and attacking again."""
POINT = (
    "data", "classes", "rows", "test_rows", "attack", "eps", "units", "clip", "preprocessing", "ridge", "kernel",
    "width", "context", "score", "rounds",
)  # fmt: skip
"""The parameters of a point."""
CHOICES = POINT[5:14]  # those that the source leaves open
STANDS_FOR = {"digits": "mnist"}  # small datasets in place of the published ones; the cards and the page name them
COLUMNS = ("flips_top", "flips_all", "pair_flips_top", "pair_flips_all", "spearman", "overlap")


def measure(
    data: str,
    classes: str,
    rows: int,
    test_rows: int,
    attack: str,
    eps: float,
    units: str,
    clip: str,
    preprocessing: str,
    ridge: float,
    kernel: str,
    width: int,
    context: str,
    score: str,
    rounds: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return one row a model, ReLU and attention, of the same draw: flip rates beside their controls.

    - `classes`: names joined by "," or "all".
    - `attack`: "fgsm", "pgd" or "mim", of l_inf size `eps`, on the squared loss of the kernel fit at the attacked rows.
    - `units`: of eps: "pixel", of the rows before they are scaled, or "rows", of what the kernel sees.
    - `clip`: "range" keeps rows moved by attacks and by random signs between the smallest and the largest entry of the
      training rows; "none" lets them leave it, as a pixel below black does.
    - `preprocessing`: "unit_rows", or "both": columns standardised, then unit rows.
    - `ridge`: over tr(K)/n.
    - `kernel`: "infinite", or "initial" or "trained" of a network of this width.
    - `context`: "moving" if the attacker's gradient goes through the attention context, else "fixed".
    - `score`: which influence, as in `influence.exact.score`.
    - `rounds`: of adversarial training before the measurement, with the same attack; 0 is none.

    Example:
        >>> point = STUDY.presets["quick"].points[0] | {"rows": 40, "test_rows": 10}
        >>> [row["model"] for row in measure(**point, seed=0)]
        ['relu', 'attention']
    """
    for name, value, known in (
        ("preprocessing", preprocessing, ("both", "unit_rows")),
        ("clip", clip, ("none", "range")),
        ("kernel", kernel, ("infinite", "initial", "trained")),
    ):
        if value not in known:
            raise unknown_name(name, value, known)
    if units != "rows":  # rows as they are, in whose units the attack is; the features scale them
        preprocessing = {"unit_rows": "none", "both": "standardise"}[preprocessing]
    problem = Split.for_networks(
        load_once(data), rows=rows, test_rows=test_rows, seed=seed, preprocessing=preprocessing,
        classes=None if classes == "all" else tuple(classes.split(",")),
    )  # fmt: skip
    network = Network(relative_ridge=ridge)
    if kernel != "infinite":
        loss = "mse" if problem.y.shape[1] == 1 else "cross_entropy"
        training = Training(loss=loss, epochs=EPOCHS) if kernel == "trained" else None
        network = Network(width, training, relative_ridge=ridge, precision=torch.float32)
    force = build_attack(attack, eps)
    if clip == "range":
        force = force.clipped_to(problem.X)
    found = []
    for model in MODELS:
        own: Features = AttentionFeatures(moving_context=context == "moving") if model == "attention" else RawFeatures()
        features: Features = UnitRows(own) if units == "pixel" else own
        seen = features(problem.X, problem.Xt)[0]
        X = problem.X
        if rounds:
            fit = network.fit(network.kernel(seen, problem.y, seed), seen, problem.y)
            X = adversarial_rows(fit, problem.Xt, force, rounds, X=X, features=features, seed=seed)
        result = network_malleability(
            network, X, problem.y, problem.Xt, problem.yt, force, TAU, features=features, seed=seed, measure=score
        )
        row = {"model": model, "length": float(problem.X.norm(dim=1).mean()), "attacked": len(result.top)}
        for control in ("attack", "noise", "adaptive", "redrawn"):
            compared = getattr(result, "attacked" if control == "attack" else control)
            for column in COLUMNS:
                row[f"{control}_{column}"] = None if compared is None else float(getattr(compared, column))
        found.append(row)
    return found


class Gap(NamedTuple):
    """A mean over seeds with its 95 % interval; the mean is NaN without a value, the interval None with one."""

    mean: float
    low: float | None
    high: float | None

    @property
    def known(self) -> bool:
        """Whether there was a value."""
        return not isnan(self.mean)

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes zero, else 0."""
        return 0 if self.low is None or self.high is None else int(self.low > 0) - int(self.high < 0)


def gap(rows: Rows, point: Point, column: str) -> Gap:
    """Return attention minus ReLU in percentage points, paired by seed."""
    pairs = zip(_values(rows, point, "attention", column), _values(rows, point, "relu", column), strict=True)
    found = np.array([100 * (a - r) for a, r in pairs], dtype=np.float64)
    return Gap(float(found.mean()) if found.size else nan, *mean_interval(found))


def flip_rate(rows: Rows, point: Point, model: str, column: str) -> Gap:
    """Return a flip rate with an interval no narrower than the exact one of all rows counted together."""
    values = _values(rows, point, model, column)
    attacked = _attacked(rows, point)
    cases = {"flips_all": point["rows"], "pair_flips_top": attacked * point["test_rows"]}
    if not values:
        return Gap(nan, None, None)
    return Gap(float(np.mean(values)), *rate_interval(values, cases.get(column.removeprefix("attack_"), attacked)))


def centre_of(rows: Rows) -> Point:
    """Return the point with the most neighbours that differ from it in one choice."""
    points = _points(rows)
    return max(points, key=lambda point: sum(len(_unlike(point, other)) == 1 for other in points))


def departures(rows: Rows, centre: Point) -> list[tuple[str, Point]]:
    """Return the points that differ from the centre in one choice or in the classes, with that as their name."""
    unlike = [(_unlike(point, centre), point) for point in _points(rows)]
    return [(f"{names[0]} {point[names[0]]}", point) for names, point in unlike if len(names) == 1]


def make_cards(rows: Rows, centre: Point) -> list[ResultCard]:
    """Return a card for every published number that was measured, and one for every published gap."""
    cards: list[ResultCard] = []
    for point in _points(rows):
        published = _published(point)
        if published is None or any(point[name] != centre[name] for name in CHOICES):
            continue
        source = STANDS_FOR.get(point["data"], point["data"])
        table = f"flips, {source}, {class_names(point)}, {point['attack'].upper()}"
        table += f", after adversarial training, rounds: {point['rounds']}" if point["rounds"] else ""
        choices = {name: str(point[name]) for name in ("data", "rows", *CHOICES)}
        flips = {model: [100 * v for v in _values(rows, point, model, "attack_flips_top")] for model in MODELS}
        interval = partial(_percent_interval, cases=_attacked(rows, point))
        for (model, values), number in zip(flips.items(), published, strict=True):
            cards.append(make_card(table, f"{model}, %", number, values, choices, neutral=None, interval=interval))
        gaps = [a - r for r, a in zip(*flips.values(), strict=True)]
        cards.append(make_card(table, "attention - relu", published[1] - published[0], gaps, choices))
    return cards


def attack_name(point: Point) -> str:
    """Return the attack, and the adversarial training before it."""
    return point["attack"] + (f", adversarial training, {point['rounds']} rounds" if point["rounds"] else "")


def class_names(point: Point) -> str:
    """Return the classes in words."""
    return "all classes" if point["classes"] == "all" else point["classes"].replace(",", " v ")


def _points(rows: Rows) -> Sequence[Point]:
    return _distinct({name: row[name] for name in POINT} for row in rows)


def _unlike(point: Point, other: Point) -> list[str]:
    return [name for name in POINT if point[name] != other[name]]


def _values(rows: Rows, point: Point, model: str, column: str) -> list[float]:
    """Return a column at a point, one value a seed."""
    chosen = [row for row in rows if row["model"] == model and not _unlike(point, row)]
    return [float(row[column]) for row in sorted(chosen, key=lambda row: row["seed"]) if row[column] is not None]


def _attacked(rows: Rows, point: Point) -> int:
    """Return how many training rows were attacked, the same in every draw."""
    return int(next(row["attacked"] for row in rows if not _unlike(point, row)))


def _percent_interval(percent: NDArray[np.float64], cases: int) -> tuple[float | None, float | None]:
    low, high = rate_interval(percent / 100, cases)
    return (None, None) if low is None or high is None else (100 * low, 100 * high)


def _published(point: Point) -> tuple[float, float] | None:
    """Return the published flip rates of ReLU and attention, if there are any."""
    source: str = STANDS_FOR.get(point["data"]) or point["data"]
    if not point["rounds"]:
        return FLIPS.get((source, point["classes"]), {}).get(point["attack"])
    trained = (point["classes"], point["attack"]) == ("all", "pgd")
    return FLIPS_AFTER_ADVERSARIAL_TRAINING.get(source) if trained else None


CENTRE: dict[str, Any] = {
    "attack": "fgsm",
    "eps": 0.3,
    "units": "pixel",
    "clip": "none",
    "preprocessing": "unit_rows",
    "ridge": 1e-3,
    "kernel": "initial",
    "width": WIDTH,
    "context": "moving",
    "score": "true_class",
    "rounds": 0,
}
"""The choices from which the ablation departs one at a time; width, eps and attack are the published ones."""


def _grid(
    tasks: list[tuple[str, str]], size: dict[str, int], variations: dict[str, list[Any]], trained: int | None = None
) -> list[dict[str, Any]]:
    """Return the published tables on these tasks, and every departure from the centre on the first of them.

    `trained` is the width of a trained network to add.
    """
    bases = [{"data": data, "classes": classes} | size | CENTRE for data, classes in tasks]
    points = []
    for base in bases:  # all attacks for the published tables, of all classes and of two; one for the five classes
        tabled = base["classes"] == "all" or base["classes"].count(",") == 1
        points += [base | {"attack": attack} for attack in (("fgsm", "pgd", "mim") if tabled else ("fgsm",))]
    base = bases[0]
    points += [base | {name: value} for name, values in variations.items() for value in values]
    points += [base | {"attack": "pgd", "rounds": rounds} for rounds in ROUNDS]
    points += [] if trained is None else [base | {"kernel": "trained", "width": trained}]
    nulls = [base | {"width": width, "ridge": ridge} for width in variations["width"] for ridge in variations["ridge"]]
    return _distinct(points + nulls)


def _distinct(points: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(point.items()): point for point in points}.values())


OTHER = {"units": ["rows"], "clip": ["range"], "kernel": ["infinite"], "context": ["fixed"], "score": ["loss"]}
QUICK: dict[str, list[Any]] = OTHER | {"eps": [0.1], "ridge": [1e-1], "width": [64, 4096]}
FULL: dict[str, list[Any]] = OTHER | {
    "preprocessing": ["both"],
    "eps": [0.0, 0.02, 0.1, 0.2, 0.5],
    "ridge": [1e-6, 1e-4, 1e-2, 1e-1, 1.0],
    "width": [16, 64, 256, 4096, 16384],
}
REAL = FULL | {"eps": [0.02, 0.1, 0.5], "ridge": [1e-4, 1e-1], "width": [64, 256, 4096]}
"""For the two real datasets at a few hundred rows: the same axes, fewer values on the long ones."""

FIVE = "0,1,2,3,4"
DIGITS = [("digits", "all"), ("digits", "3,8")]
MNIST = [("mnist", "all"), ("mnist", "3,8"), ("mnist", FIVE)]
CIFAR = [
    ("cifar10", "all"), ("cifar10", "automobile,airplane"), ("cifar10", "airplane,automobile,bird,cat,deer")
]  # fmt: skip
HUNDREDS = {"rows": 250, "test_rows": 100}

STUDY = Study(
    name="malleability",
    version=3,
    what="How often attacked training points change the sign of their influence, beside five controls.",
    function="ridgeformer.studies.malleability:measure",
    presets={
        "quick": Preset(_grid(DIGITS, {"rows": 100, "test_rows": 40}, QUICK), seeds=5),
        "default": Preset(_grid([*DIGITS, ("digits", FIVE)], HUNDREDS, FULL, WIDTH), seeds=10),
        "mnist": Preset(_grid(MNIST, HUNDREDS, REAL, WIDTH), seeds=10),
        "cifar10": Preset(_grid(CIFAR, HUNDREDS, REAL, 256), seeds=10),
        "paper": Preset(_grid(MNIST + CIFAR, {"rows": 2000, "test_rows": 500}, FULL, WIDTH), seeds=10),
    },
    within=("model",),
    seconds=3600.0,
    memory=4 << 30,
)
