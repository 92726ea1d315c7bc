"""How good are somebody's attribution scores? Judged against exact refits of a ridge head on frozen features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, as_tensor, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.statistics import compare_paired
from ridgeformer.influence.attacks import Attack, RandomNoise
from ridgeformer.influence.baseline import Comparison, baseline, compare, top_rows, training_loss
from ridgeformer.influence.exact import leave_one_out, squared_loss
from ridgeformer.influence.oracle import (
    Agreement,
    as_scores,
    draw_subsets,
    linear_datamodeling_score,
    removal_effects,
    subset_predictions,
)
from ridgeformer.kernels import DotProduct
from ridgeformer.solving import Fit
from ridgeformer.solving.selection import choose_ridge, least
from ridgeformer.solving.solver import solve
from ridgeformer.solving.uncertainty import count_duplicates

__all__ = ["AttributionReport", "JudgedScores", "ScoreMalleability", "judge_scores", "score_malleability"]

COUNTS = (1, 5, 20)
"""Rows that are removed, from the top of a query's scores."""

FEW_CLASSES = 50
"""Whole numbers with at most this many different values are classes."""

Attribute: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], ArrayLike]
"""attribute(X, y, Xq, yq) to scores, (n, q): any attribution method, trained and run on the rows it is given."""


@dataclass(frozen=True, eq=False)
class JudgedScores:
    """One method's scores beside the truth.

    Attributes:
        name: of the method.
        agreement: its linear datamodeling score.
        removed: for each count of `AttributionReport.counts`, the mean over queries by which the output falls when the
            rows it ranks highest are removed, exactly.
        recall: of the rows known to be mislabelled, the fraction among as many rows with the lowest mean score; None if
            none are known.
    """

    name: str
    agreement: Agreement
    removed: tuple[float, ...]
    recall: float | None = None


@dataclass(frozen=True, eq=False)
class AttributionReport:
    """Attribution scores judged by exact counterfactuals, beside baselines judged the same way.

    Attributes:
        sentences: the answer in words.
        methods: the scores given first, then exact leave-one-out, cosine similarity, gradient norm and random scores.
        counts: how many rows were removed.
        rows, queries, subsets: sizes.
        ridge: of the head, chosen by leave-one-out unless given.
        quality: fraction of queries the head gets right, or R^2.
        duplicates: training rows that equal another one.
    """

    sentences: tuple[str, ...]
    methods: tuple[JudgedScores, ...]
    counts: tuple[int, ...]
    rows: int
    queries: int
    subsets: int
    ridge: float
    quality: float
    duplicates: int = 0

    def __str__(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True, eq=False)
class _Head:
    """The ridge head: its fit, and one output for each query that scores are about."""

    fit: Fit
    Xq: Tensor
    targets: Float[Tensor, "q r"]
    classes: bool

    def output(self, values: Float[Tensor, "... q r"]) -> Float[Tensor, "... q"]:
        """Return the output of the query's own class, or the only one."""
        return values.gather(-1, self.own.expand(*values.shape[:-1], 1))[..., 0]

    @property
    def own(self) -> Int[Tensor, "q 1"]:
        return self.targets.argmax(1, keepdim=True) if self.classes else torch.zeros(len(self.targets), 1).long()


def _targets(labels: ArrayLike, query_labels: ArrayLike) -> tuple[Tensor, Tensor, bool]:
    """Return coded targets of rows and queries, and whether they are classes."""
    one, other = np.asarray(labels), np.asarray(query_labels)
    if one.ndim != 1 or other.ndim != 1:
        raise ShapeError(f"labels have shapes {one.shape} and {other.shape}; one label a row was expected.")
    values = np.unique(one)
    discrete = one.dtype.kind in "iubUSO" and len(values) <= FEW_CLASSES
    if not discrete:
        y, yq = (as_tensor(side, name).double() for side, name in ((one, "labels"), (other, "query labels")))
        return y[:, None], yq[:, None], False
    strange = np.setdiff1d(other, values)
    if len(strange):
        raise InputError(f"query labels have the class {strange[0]!r}, which no training row has: leave those out.")
    if len(values) < 2:
        raise InputError(f"labels have one class only ({values[0]!r}); at least two were expected.")
    y, yq = (torch.from_numpy(np.where(side[:, None] == values, 1.0, -1.0)) for side in (one, other))
    return y, yq, True


def judge_scores(
    scores: ArrayLike,
    features: ArrayLike,
    labels: ArrayLike,
    query_features: ArrayLike,
    query_labels: ArrayLike,
    *,
    name: str = "these scores",
    ridge: float | None = None,
    subsets: int = 200,
    fraction: float = 0.5,
    flipped: ArrayLike | None = None,
    seed: int = 0,
) -> AttributionReport:
    """Judge attribution scores by what a ridge head on the same features does when rows are really removed.

    The truth is exact: the head, linear in the features and a constant one of their root mean square length, is
    refitted in closed form on every subset. It is the truth about the *head*; scores computed for the whole network
    are judged as far as its last layer.

    Args:
        scores: (n, q), how much each training row adds to the output of each query's own class (or to the prediction).
        features: (n, d), frozen features of the training rows.
        labels: n classes (whole numbers or text), or n numbers.
        query_features: (q, d).
        query_labels: q of the same.
        name: what the scores are called in words.
        ridge: of the head; None chooses it by leave-one-out.
        subsets: random subsets of the linear datamodeling score.
        fraction: of the rows that each keeps.
        flipped: training rows known to be mislabelled, for the recall.
        seed: of subsets and of the random baseline.

    Raises:
        InputError: scores with NaN, of another shape, a class that no training row has, ...
    """
    head = _fit_head(features, labels, query_features, query_labels, ridge)
    fit, n, q = head.fit, len(head.fit.X), len(head.Xq)
    given = as_scores(scores, n, q)
    subsets = whole(subsets, "subsets", 3)
    kept = draw_subsets(n, subsets, fraction=fraction, seed=seed)
    outputs = head.output(subset_predictions(fit, head.Xq, kept))
    counts = tuple(count for count in COUNTS if count < n)
    wrong = None if flipped is None else torch.as_tensor(np.asarray(flipped)).long()
    methods = tuple(
        _judged(called, one, head, kept, outputs, counts, wrong)
        for called, one in {name: given, **_baselines(head, seed)}.items()
    )
    predicted = fit.predict(head.Xq)
    if head.classes:
        quality = float((predicted.argmax(1) == head.targets.argmax(1)).double().mean())
    else:
        spread = (head.targets - fit.y.mean()).square().sum()
        quality = 1 - float((predicted - head.targets).square().sum() / spread)
    duplicates = count_duplicates(fit.X)
    report = AttributionReport((), methods, counts, n, q, subsets, fit.ridge, quality, duplicates)
    return AttributionReport(
        _sentences(report, head.classes), methods, counts, n, q, subsets, fit.ridge, quality, duplicates
    )


def _fit_head(
    features: ArrayLike, labels: ArrayLike, queries: ArrayLike, query_labels: ArrayLike, ridge: float | None
) -> _Head:
    X = as_matrix(features, "features").double()
    Xq = as_query(queries, X, "query features").double()
    y, yq, classes = _targets(labels, query_labels)
    for side, rows, called in ((y, X, "labels"), (yq, Xq, "query labels")):
        if len(side) != len(rows):
            raise ShapeError(f"{len(side)} {called} were given for {len(rows)} rows: give one a row.")
    bias = X.norm() / len(X) ** 0.5
    X, Xq = (torch.cat([rows, bias.expand(len(rows), 1)], 1) for rows in (X, Xq))
    kernel = DotProduct()
    chosen = choose_ridge(kernel, X, y, rule=least).ridge if ridge is None else ridge
    return _Head(solve(kernel, X, y, chosen, algorithm="direct"), Xq, yq, classes)


def _baselines(head: _Head, seed: int) -> dict[str, Tensor]:
    """Return the scores everybody should beat, and the exact ones."""
    fit, Xq = head.fit, head.Xq
    same = head.output((fit.y.reshape(len(fit.X), 1, -1)).expand(-1, len(Xq), -1))
    unit, unit_q = (torch.nn.functional.normalize(rows, dim=1) for rows in (fit.X, Xq))
    gradient = (fit.ridge * fit.alpha.reshape(len(fit.X), -1)).norm(dim=1) * fit.X.norm(dim=1)
    noise = torch.randn(len(fit.X), len(Xq), generator=torch_generator(seed, "random scores"), dtype=torch.float64)
    exact = leave_one_out(fit, Xq).reshape(len(fit.X), len(Xq), -1)
    return {
        "exact leave-one-out": head.output(exact),
        "cosine similarity": same.sign() * (unit @ unit_q.T),
        "gradient norm": same.sign() * gradient[:, None],
        "random scores": noise,
    }


def _judged(
    name: str,
    scores: Float[Tensor, "n q"],
    head: _Head,
    kept: Bool[Tensor, "m n"],
    outputs: Float[Tensor, "m q"],
    counts: tuple[int, ...],
    flipped: Tensor | None,
) -> JudgedScores:
    order = scores.argsort(dim=0, descending=True, stable=True)
    removed = head.output(removal_effects(head.fit, head.Xq, order, counts)).mean(1)
    recall = None
    if flipped is not None:
        lowest = scores.mean(1).argsort(stable=True)[: len(flipped)]
        recall = float(torch.isin(flipped, lowest).double().mean())
    agreement = linear_datamodeling_score(scores, kept, outputs)
    return JudgedScores(name, agreement, tuple(float(one) for one in removed), recall)


def _sentences(report: AttributionReport, classes: bool) -> tuple[str, ...]:
    given, exact, *others = report.methods
    best = max(others, key=lambda one: one.agreement.mean)
    paired = compare_paired(*(one.agreement.by_query.nan_to_num().numpy() for one in (given, best)))
    if paired.significant and paired.lead > 0:
        verdict = f"That is better than every simple baseline (the best, {best.name}: {best.agreement.mean:.3f})."
    elif paired.significant:
        verdict = f"That is worse than {best.name}, which needs no attribution method ({best.agreement.mean:.3f})."
    else:
        verdict = (
            f"That cannot be told from {best.name} ({best.agreement.mean:.3f}; p = {paired.p:.2g} over "
            f"{report.queries} queries)."
        )
    count = report.counts[-1]
    what = "the output of the query's own class" if classes else "the prediction"
    quality = f"gets {100 * report.quality:.1f} % of the queries right" if classes else f"has R^2 {report.quality:.3f}"
    lines = [
        f"{given.name}: {given.agreement}; exact leave-one-out reaches {exact.agreement.mean:.3f}. {verdict}",
        f"Removing the {count} rows ranked highest lowers {what} by {given.removed[-1]:.3g} on average (exact "
        f"leave-one-out: {exact.removed[-1]:.3g}, random rows: {report.methods[-1].removed[-1]:.3g}).",
        f"The truth is {report.subsets:,} exact refits of a ridge head on {report.rows:,} rows of frozen features; the "
        f"head {quality}.",
    ]
    if given.recall is not None:
        theirs = f"exact leave-one-out: {100 * (exact.recall or 0):.0f} %"
        lines.insert(2, f"The rows scored lowest hold {100 * given.recall:.0f} % of the mislabelled ones ({theirs}).")
    if given.agreement.constant:
        lines.append(f"The scores of {given.agreement.constant} queries are all equal over subsets and count as 0.")
    if report.duplicates:
        lines.append(
            f"{report.duplicates:,} training rows equal another one: duplicates shield each other, so the "
            "leave-one-out effect of each is small even where both together matter."
        )
    return tuple(lines)


@dataclass(frozen=True, eq=False)
class ScoreMalleability:
    """What an attack on training rows does to somebody's attribution scores, beside its controls.

    Attributes:
        attacked: scores before and after the attack.
        noise: before and after random noise of the same size.
        repeated: the same call twice on the same rows; a method that draws random numbers disagrees with itself.
        top: the rows that were moved.
    """

    attacked: Comparison
    noise: Comparison
    repeated: Comparison
    top: Tensor = field(repr=False)

    def __str__(self) -> str:
        return (
            f"The attack flips the sign of {100 * self.attacked.flips_top:.0f} % of the {len(self.top)} largest "
            f"aggregated scores, random noise of the same size {100 * self.noise.flips_top:.0f} %, and calling the "
            f"method again on the same rows {100 * self.repeated.flips_top:.0f} %."
        )


def score_malleability(
    attribute: Attribute,
    fit: Fit,
    Xq: ArrayLike,
    yq: ArrayLike,
    attack: Attack,
    tau: float = 0.1,
    *,
    measure: str = "true_class",
    seed: int = 0,
) -> ScoreMalleability:
    """Move the rows that a method scores highest, call it again, and count the signs that changed.

    The attack raises the training loss of a fit at those rows, as in `malleability`; the method is only called, four
    times.

    Args:
        attribute: the method.
        fit: what the attack sees, on targets of +1 and -1 in a column a class, or in one column.
        Xq: queries.
        yq: their targets, coded like those of the fit.
        attack: such as `PGD(eps=0.3)`.
        tau: the fraction of rows to move.
        measure: as for `malleability`.
        seed: of the attack and the noise.
    """
    base = baseline(fit, Xq, yq, tau, measure)
    n, q = len(base.X), len(base.Xq)

    def call(rows: Tensor) -> Tensor:
        return as_scores(attribute(rows, base.y, base.Xq, base.yq), n, q)

    before = call(base.X)
    top = top_rows(before.mean(1), len(base.top()))
    objective = training_loss(fit, base.Xq, base.features, top, squared_loss)
    moved = attack(objective, base.X, rows=top, seed=seed)
    noisy = RandomNoise(attack.eps, attack.norm, attack.bounds)(objective, base.X, rows=top, seed=seed)
    attacked, noise, repeated = (compare(before, call(rows), top) for rows in (moved, noisy, base.X))
    return ScoreMalleability(attacked, noise, repeated, top)
