"""Interventions: what a fit is worth without its most influential points, with them attacked, with all attacked."""

from __future__ import annotations

from math import inf
from typing import Any

import plotly.graph_objects as go

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Network, RawFeatures, UnitRows, intervene
from ridgeformer.influence.attacks import build_attack
from ridgeformer.influence.features import Features
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.views import PALETTE, Page, Picture, Section, Table, styled

__all__ = ["STUDY", "make_page", "measure"]

MODELS: dict[str, Features] = {"relu": UnitRows(RawFeatures()), "attention": UnitRows(AttentionFeatures())}
KINDS = ("untouched", "curated", "transformed", "adversarial")
TAU = 0.1
POSSIBLE = {"accuracy": (0.0, 1.0), "flips": (0.0, 1.0), "spearman": (-1.0, 1.0)}
"""Values that a mean can have; an interval shown ends there."""


def measure(
    data: str, rows: int, test_rows: int, attack: str, eps: float, rounds: int, ridge: float, seed: int
) -> list[dict[str, Any]]:
    """Return one row a model and intervention: test accuracy, margin, influence, and how much of it changed.

    Args:
        data: dataset; its classes are all used.
        rows: training rows.
        test_rows: queries.
        attack: "fgsm", "pgd" or "mim", eps in the units of the data.
        eps: its size, l_inf.
        rounds: of adversarial training, for the rows that are all attacked.
        ridge: over tr(K)/n, of the infinitely wide kernels.
        seed: of the draw and of random starts.

    Example:
        >>> [row["intervention"] for row in measure("digits", 40, 10, "fgsm", 0.3, 1, 1e-3, seed=0)][:4]
        ['untouched', 'curated', 'transformed', 'adversarial']
    """
    problem = Split.for_networks(datasets.load(data), rows=rows, test_rows=test_rows, seed=seed, preprocessing="none")
    network, found = Network(relative_ridge=ridge), []
    for model, features in MODELS.items():
        seen = features(problem.X, problem.Xt)[0]
        kernel = network.kernel(seen, problem.y, seed)
        made = intervene(
            kernel, problem.X, problem.y, problem.Xt, problem.yt, network.ridge(kernel, seen),
            build_attack(attack, eps), TAU, features=features, rounds=rounds, seed=seed,
        )  # fmt: skip
        for kind in KINDS:
            one = getattr(made, kind)
            values = {"accuracy": one.accuracy, "margin": one.margin, "influence": one.influence}
            changed = {} if one.changed is None else {"flips": one.changed.flips_top, "spearman": one.changed.spearman}
            found.append({"model": model, "intervention": kind} | values | {"flips": None, "spearman": None} | changed)
    return found


def make_page(rows: list[dict[str, Any]], means: list[dict[str, Any]]) -> Page:
    """Return the page: what each intervention leaves, beside the untouched fit."""
    first = rows[0]
    return Page(
        "Interventions: what taking out or moving the most influential points does",
        f"{first['data']}; {first['rows']:,} training rows, {first['test_rows']:,} queries, the top tenth, "
        f"{len({row['seed'] for row in rows})} seeds",
        tuple(_sentence(means, model) for model in MODELS),
        (
            Section("Accuracy", _WHAT, pictures=(_picture(means),)),
            Section("Accuracy, margin and influence before and after", (), _table(means)),
        ),
    )


_WHAT = (
    "Untouched is the fit to all rows. Curated leaves the top tenth out; transformed keeps them, attacked; adversarial "
    "attacks all rows, against the fit of the round before. Influence is the mean absolute one on the true class; "
    "flips and Spearman's correlation compare it with that of the untouched fit, on the top rows that are left.",
)


def _sentence(means: list[dict[str, Any]], model: str) -> str:
    rounds = min(row["rounds"] for row in means)
    accuracy = {
        row["intervention"]: 100 * row["accuracy"]
        for row in means
        if (row["model"], row["rounds"], row["attack"]) == (model, rounds, means[0]["attack"])
    }
    return (
        f"{model}: {accuracy['untouched']:.1f} % of the queries right; {accuracy['curated']:.1f} % without the top "
        f"tenth, {accuracy['transformed']:.1f} % with it attacked, {accuracy['adversarial']:.1f} % with all rows "
        f"attacked."
    )


def _table(means: list[dict[str, Any]]) -> Table:
    head = ("model", "intervention", "attack", "rounds", "accuracy, %", "margin", "influence", "flips, %", "Spearman")
    body = tuple(
        (
            row["model"], row["intervention"], f"{row['attack']}, {row['eps']:g}", str(row["rounds"]),
            _shown(row, "accuracy", 100.0), _shown(row, "margin"), _shown(row, "influence"),
            _shown(row, "flips", 100.0), _shown(row, "spearman"),
        )
        for row in means
    )  # fmt: skip
    return Table(head, body)


def _shown(row: dict[str, Any], name: str, unit: float = 1.0) -> str:
    if row[name] is None:
        return ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        return f"{unit * row[name]:.3g}"
    least, most = POSSIBLE.get(name, (-inf, inf))
    return f"{unit * row[name]:.3g} [{unit * max(least, low):.3g}, {unit * min(most, high):.3g}]"


def _picture(means: list[dict[str, Any]]) -> Picture:
    figure = go.Figure()
    for model, colour in zip(MODELS, PALETTE, strict=False):
        shown = [row for row in means if row["model"] == model]
        figure.add_bar(
            x=[f"{row['intervention']}, {row['rounds']} rounds" for row in shown],
            y=[100 * row["accuracy"] for row in shown], name=model, marker_color=colour,
        )  # fmt: skip
    figure.update_yaxes(title="test accuracy, %")
    caption = "Test accuracy of the untouched fit and of the three others; intervals are in the table."
    return Picture(styled(figure), caption, "Bars of test accuracy for each intervention and model.")


STUDY = Study(
    name="interventions",
    version=1,
    what="What a fit is worth without its most influential points, with them attacked, and with all attacked.",
    function="ridgeformer.studies.interventions:measure",
    presets={
        "quick": Preset(
            product(data=["digits"], rows=[100], test_rows=[100], attack=["pgd"], eps=[0.3], rounds=[1, 4],
                    ridge=[1e-3]),
            seeds=5,
        ),
        "default": Preset(
            product(data=["digits"], rows=[200], test_rows=[200], attack=["fgsm", "pgd"], eps=[0.3], rounds=[1, 4],
                    ridge=[1e-3]),
            seeds=10,
        ),
        "paper": Preset(
            product(data=["mnist", "cifar10"], rows=[2000], test_rows=[500], attack=["pgd"], eps=[0.3], rounds=[1, 4],
                    ridge=[1e-3]),
            seeds=10,
        ),
    },
    within=("model", "intervention"),
    seconds=3600.0,
    memory=4 << 30,
    page=make_page,
)  # fmt: skip
