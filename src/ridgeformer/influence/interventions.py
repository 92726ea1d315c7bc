"""Fits to changed training rows: adversarial training, and the most influential points taken out or moved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.influence.attacks import Attack
from ridgeformer.influence.baseline import Baseline, baseline, training_loss
from ridgeformer.influence.comparison import Comparison, compare
from ridgeformer.influence.exact import as_problem, fit
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influences import Loss, squared_loss
from ridgeformer.kernels import Kernel
from ridgeformer.solving import Fit

__all__ = ["Intervention", "Interventions", "adversarial_rows", "intervene"]


def adversarial_rows(
    kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, attack: Attack, rounds: Any = 1, *,
    features: Features | None = None, loss: Loss = squared_loss, seed: int = 0,
) -> Tensor:  # fmt: skip
    """Return the training rows after `rounds` rounds of adversarial training.

    Each round attacks all rows as they were given, to raise the loss of the fit to the rows of the round before: so no
    row is ever further than eps from where it was, and one round is the attack on the untouched fit. The kernel is
    held.

    `kernel`, `X`, `y`, `Xq` and `ridge` are those of `influence`; only the features look at the queries.

    Further arguments:
        attack: such as `PGD(eps=0.3)`.
        rounds: how many, >= 0; 0 returns X.
        features: what the kernel sees of the rows.
        loss: what the attack raises.
        seed: of random starts.

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.kernels import DotProduct
        >>> adversarial_rows(DotProduct(), [[1.0], [2.0]], [1.0, 1.0], [[1.0]], 0.1, FGSM(0.5), rounds=2)
        tensor([[0.5000], [1.5000]], dtype=torch.float64)
    """
    features = features or RawFeatures()
    X, y, Xq = as_problem(X, y, Xq)
    moved, everyone = X, torch.arange(len(X), device=X.device)
    for _ in range(whole(rounds, "rounds", 0)):
        fitted = fit(kernel, features(moved, Xq)[0], y, ridge)
        moved = attack(training_loss(fitted, Xq, features, everyone, loss), X, rows=everyone, seed=seed)
    return moved


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
        adversarial: with all rows attacked: `rounds` rounds of adversarial training.
        top: the top rows.
    """

    untouched: Intervention
    curated: Intervention
    transformed: Intervention
    adversarial: Intervention
    top: Tensor = field(repr=False)


def intervene(
    kernel: Kernel, X: Any, y: Any, Xq: Any, yq: Any, ridge: Any, attack: Attack, tau: Any = 0.1, *,
    features: Features | None = None, loss: Loss = squared_loss, rounds: Any = 1, seed: int = 0,
) -> Interventions:  # fmt: skip
    """Fit again without the most influential points, with them attacked, and with all points attacked.

    Influence is that on the true class. Attacks raise the loss of the untouched fit, which is held meanwhile; with
    several `rounds` the adversarial rows are those of `adversarial_rows`. Other arguments as for `malleability`.

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
    rounds = whole(rounds, "rounds", 1)
    base = baseline(kernel, X, y, Xq, yq, ridge, tau, features, "true_class")
    X = base.X
    everyone = torch.arange(len(X), device=X.device)
    top = base.top(len(X) - 1)  # one row at least is left to fit
    rest = everyone[~torch.isin(everyone, top)]
    attacked = attack(base.raised_loss(top, loss), X, rows=top, seed=seed)
    adversarial = adversarial_rows(
        kernel, X, base.y, base.Xq, ridge, attack, rounds, features=base.features, loss=loss, seed=seed
    )
    accuracy, margin = _judged(base.fitted, base.features(X, base.Xq)[1], base.yq)
    return Interventions(
        untouched=Intervention(accuracy, margin, float(base.before.abs().mean()), None, X, everyone),
        curated=_judge(base, X[rest], rest, top),
        transformed=_judge(base, attacked, everyone, top),
        adversarial=_judge(base, adversarial, everyone, top),
        top=top,
    )


def _judge(base: Baseline, rows: Tensor, kept: Tensor, top: Tensor) -> Intervention:
    """Return what a fit to these rows is worth; influences are compared on the top rows that are left, else on all."""
    again, after = base.refit(rows, kept=kept)
    accuracy, margin = _judged(again, base.features(rows, base.Xq)[1], base.yq)
    places = torch.arange(len(kept), device=kept.device)
    shared = places[torch.isin(kept, top)]
    changed = compare(base.before[kept], after, shared if len(shared) else places)
    return Intervention(accuracy, margin, float(after.abs().mean()), changed, rows, kept)


def _judged(fitted: Fit, queries: Tensor, yq: Tensor) -> tuple[float, float]:
    """Return the accuracy and the mean margin at the queries."""
    outputs = fitted.predict(queries)
    if yq.shape[1] == 1:
        margins = (outputs * yq.sign())[:, 0]
    else:
        own = yq.argmax(1, keepdim=True)
        margins = outputs.gather(1, own)[:, 0] - outputs.scatter(1, own, -torch.inf).amax(1)
    return float((margins > 0).double().mean()), float(margins.mean())
