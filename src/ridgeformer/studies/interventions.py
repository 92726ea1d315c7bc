"""Interventions: what a fit is worth without its most influential points, with them attacked, with all attacked."""

from __future__ import annotations

from typing import Any

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Network, RawFeatures, UnitRows, intervene
from ridgeformer.influence.attacks import build_attack
from ridgeformer.influence.features import Features
from ridgeformer.studies.study import Preset, Study, product

__all__ = ["STUDY", "measure"]

MODELS: dict[str, Features] = {"relu": UnitRows(RawFeatures()), "attention": UnitRows(AttentionFeatures())}
KINDS = ("untouched", "curated", "transformed", "adversarial")
TAU = 0.1


def measure(
    data: str, rows: int, test_rows: int, attack: str, eps: float, rounds: int, ridge: float, seed: int
) -> list[dict[str, Any]]:
    """Return one row a model and intervention: test accuracy, margin, influence, and how much of it changed.

    All classes of the data are used. The attack is "fgsm", "pgd" or "mim" with an l_inf size of `eps` in the units of
    the data, `rounds` are those of adversarial training where all rows are attacked, and `ridge` is over tr(K)/n of the
    infinitely wide kernels.

    Example:
        >>> [row["intervention"] for row in measure("digits", 40, 10, "fgsm", 0.3, 1, 1e-3, seed=0)][:4]
        ['untouched', 'curated', 'transformed', 'adversarial']
    """
    problem = Split.for_networks(datasets.load(data), rows=rows, test_rows=test_rows, seed=seed, preprocessing="none")
    network, results = Network(relative_ridge=ridge), []
    for model, features in MODELS.items():
        seen = features(problem.X, problem.Xt)[0]
        fits = intervene(
            network.fit(network.kernel(seen, problem.y, seed), seen, problem.y), problem.Xt, problem.yt,
            build_attack(attack, eps), TAU, X=problem.X, features=features, rounds=rounds, seed=seed,
        )  # fmt: skip
        for kind in KINDS:
            one = getattr(fits, kind)
            values = {"accuracy": one.accuracy, "margin": one.margin, "influence": one.influence}
            changed = {} if one.changed is None else {"flips": one.changed.flips_top, "spearman": one.changed.spearman}
            results.append(
                {"model": model, "intervention": kind} | values | {"flips": None, "spearman": None} | changed
            )
    return results


def _grid(data: list[str], rows: int, test_rows: int, attacks: list[str]) -> list[dict[str, Any]]:
    return product(
        data=data, rows=[rows], test_rows=[test_rows], attack=attacks, eps=[0.3], rounds=[1, 4], ridge=[1e-3]
    )


STUDY = Study(
    name="interventions",
    version=1,
    what="What a fit is worth without its most influential points, with them attacked, and with all attacked.",
    function="ridgeformer.studies.interventions:measure",
    presets={
        "quick": Preset(_grid(["digits"], 100, 100, ["pgd"]), seeds=5),
        "default": Preset(_grid(["digits"], 200, 200, ["fgsm", "pgd"]), seeds=10),
        "paper": Preset(_grid(["mnist", "cifar10"], 2000, 500, ["pgd"]), seeds=10),
    },
    within=("model", "intervention"),
    seconds=3600.0,
    memory=4 << 30,
)
