"""What becomes of a fit when its most influential points are taken out or moved: accuracy, margin, influences."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any

import torch
from torch import Tensor

from ridgeformer.checks import as_matrix, as_query, as_targets
from ridgeformer.influence.attacks import Attack
from ridgeformer.influence.comparison import Comparison, compare, top_rows
from ridgeformer.influence.exact import RidgeFit, fit
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influence import Loss
from ridgeformer.influence.losses import squared_loss
from ridgeformer.influence.malleability import as_share
from ridgeformer.influence.objectives import training_loss
from ridgeformer.influence.scores import check_measure, score
from ridgeformer.kernels import Kernel

__all__ = ["Intervention", "Interventions", "intervene"]


@dataclass(frozen=True, eq=False)
class Intervention:
    """A fit to changed training rows.

    Attributes:
        accuracy: share of the queries whose class it finds.
        margin: mean over the queries of the true class's output over the best other one; for one output y f(x).
        influence: mean absolute influence over points and queries.
        changed: its influences beside those of the untouched fit, on the points both have; None for that fit itself.
        X: its training rows.
        kept: which of the original rows these are.
    """

    accuracy: float
    margin: float
    influence: float
    changed: Comparison | None = field(repr=False)
    X: Tensor = field(repr=False)
    kept: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class Interventions:
    """The untouched fit, and three others.

    Attributes:
        untouched: the fit to the rows as they are.
        curated: without the top rows.
        transformed: with the top rows attacked.
        adversarial: with all rows attacked: adversarial training, one round of it.
        top: the top rows.
    """

    untouched: Intervention
    curated: Intervention
    transformed: Intervention
    adversarial: Intervention
    top: Tensor = field(repr=False)


def intervene(
    kernel: Kernel,
    X: Any,
    y: Any,
    Xq: Any,
    yq: Any,
    ridge: Any,
    attack: Attack,
    tau: Any = 0.1,
    *,
    features: Features | None = None,
    loss: Loss = squared_loss,
    seed: int = 0,
) -> Interventions:
    """Fit again without the most influential points, with them attacked, and with all points attacked.

    Influence is that on the true class. Attacks raise the loss of the untouched fit, which is held meanwhile.
    Arguments as for `malleability`.

    Raises:
        InputError: tau outside (0, 1], one class only, bounds that exclude the data, a singular system, ...

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.kernels import Exponential
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> found = intervene(Exponential(1.0), X, [-1, -1, 1, 1], [[1.9]], [1], 0.1, FGSM(0.2), tau=0.25)
        >>> found.top.tolist(), found.curated.kept.tolist(), found.untouched.accuracy
        ([2], [0, 1, 3], 1.0)
    """
    features, share = features or RawFeatures(), as_share(tau)
    X = as_matrix(X, "X").detach()
    Xq = as_query(Xq, X).detach()
    y, yq = (
        as_targets(targets, rows, name).detach().reshape(len(rows), -1).to(rows.dtype)
        for targets, rows, name in ((y, X, "y"), (yq, Xq, "yq"))
    )
    check_measure("true_class", y, yq)
    fitted, before = _fitted(kernel, X, y, Xq, yq, ridge, features)
    everyone = torch.arange(len(X), device=X.device)
    top = top_rows(before.mean(1), min(ceil(share * len(X)), len(X) - 1))

    def judge(rows: Tensor, kept: Tensor) -> Intervention:
        again, after = _fitted(kernel, rows, y[kept], Xq, yq, ridge, features)
        accuracy, margin = _judged(again, features(rows, Xq)[1], yq)
        shared = torch.arange(len(kept), device=kept.device)[torch.isin(kept, top)]
        changed = compare(before[kept], after, shared if len(shared) else torch.arange(len(kept), device=kept.device))
        return Intervention(accuracy, margin, float(after.abs().mean()), changed, rows, kept)

    def attacked(rows: Tensor) -> Tensor:
        return attack(training_loss(fitted, Xq, features, rows, loss), X, rows=rows, seed=seed)

    accuracy, margin = _judged(fitted, features(X, Xq)[1], yq)
    rest = everyone[~torch.isin(everyone, top)]
    return Interventions(
        untouched=Intervention(accuracy, margin, float(before.abs().mean()), None, X, everyone),
        curated=judge(X[rest], rest),
        transformed=judge(attacked(top), everyone),
        adversarial=judge(attacked(everyone), everyone),
        top=top,
    )


def _fitted(
    kernel: Kernel, X: Tensor, y: Tensor, Xq: Tensor, yq: Tensor, ridge: Any, features: Features
) -> tuple[RidgeFit, Tensor]:
    rows, queries = features(X, Xq)
    fitted = fit(kernel, rows, y, ridge)
    return fitted, score(fitted.influence(queries), yq, "true_class")


def _judged(fitted: RidgeFit, queries: Tensor, yq: Tensor) -> tuple[float, float]:
    """Return the accuracy and the mean margin at the queries."""
    outputs = fitted.cross(queries).T @ fitted.alpha
    if yq.shape[1] == 1:
        margins = (outputs * yq.sign())[:, 0]
    else:
        own = yq.argmax(1, keepdim=True)
        margins = outputs.gather(1, own)[:, 0] - outputs.scatter(1, own, -torch.inf).amax(1)
    return float((margins > 0).double().mean()), float(margins.mean())
