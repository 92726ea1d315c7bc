"""Adversarial training: a fit to rows that were attacked under the fit of the round before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, as_targets, whole
from ridgeformer.influence.attacks import Attack
from ridgeformer.influence.exact import fit
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influence import Loss
from ridgeformer.influence.losses import squared_loss
from ridgeformer.influence.objectives import training_loss
from ridgeformer.kernels import Kernel

__all__ = ["adversarial_rows"]


def adversarial_rows(
    kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, attack: Attack, rounds: Any = 1, *,
    features: Features | None = None, loss: Loss = squared_loss, seed: int = 0,
) -> Tensor:  # fmt: skip
    """Return the training rows after so many rounds of adversarial training.

    Each round attacks all rows as they were given, to raise the loss of the fit to the rows of the round before: so no
    row is ever further than eps from where it was, and one round is the attack on the untouched fit. The kernel is
    held.

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: queries, (q, d), which only the features may look at.
        ridge: lambda > 0.
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
    X = as_matrix(X, "X").detach()
    Xq = as_query(Xq, X).detach()
    y = as_targets(y, X).detach().reshape(len(X), -1).to(X.dtype)
    moved, everyone = X, torch.arange(len(X), device=X.device)
    for _ in range(whole(rounds, "rounds", 0)):
        fitted = fit(kernel, features(moved, Xq)[0], y, ridge)
        moved = attack(training_loss(fitted, Xq, features, everyone, loss), X, rows=everyone, seed=seed)
    return moved
