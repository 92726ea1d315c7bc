"""Malleability of a network through its tangent kernel, beside the control that a finite width asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, as_targets, positive, whole
from ridgeformer.core.errors import InputError
from ridgeformer.influence.attacks import Attack
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.malleability import Malleability, malleability
from ridgeformer.kernels import Kernel, ReluNTK
from ridgeformer.regime.network_kernel import network_kernel
from ridgeformer.regime.training import Training

__all__ = ["Network", "network_malleability"]


@dataclass(frozen=True)
class Network:
    """A two-layer ReLU network, seen through its tangent kernel.

    Args:
        width: m; None is infinitely many neurons.
        training: before the kernel is taken; None is the kernel at initialisation.
        retrain: train again on the attacked rows, from the same initialisation.
        relative_ridge: the ridge over tr(K)/n, so that ridges compare across kernels.
        precision: of the network: its weights, its training, and which neurons are active. float32 takes half the time.
    """

    width: Any = None
    training: Training | None = None
    retrain: bool = False
    relative_ridge: Any = 1e-3
    precision: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        if self.width is not None:
            whole(self.width, "width", 1)
        elif self.training is not None:
            raise InputError("an infinitely wide network cannot be trained: give a width, or no training.")
        if self.retrain and self.training is None:
            raise InputError("retrain is for a trained network: give its training.")
        positive(self.relative_ridge, "relative_ridge", "the ridge over tr(K)/n")

    def kernel(self, rows: Tensor, y: Tensor, seed: int) -> Kernel:
        """Return the tangent kernel of the draw `seed`, trained on these rows if there is training."""
        if self.width is None:
            return ReluNTK()
        return network_kernel(rows.to(self.precision), y.to(self.precision), self.width, seed, self.training)

    def ridge(self, kernel: Kernel, rows: Tensor) -> float:
        """Return the ridge for a kernel on these rows."""
        with torch.no_grad():
            return float(self.relative_ridge) * float(kernel.diagonal(rows).mean())


def network_malleability(
    network: Network,
    X: Any,
    y: Any,
    Xq: Any,
    yq: Any,
    attack: Attack,
    tau: Any = 0.1,
    *,
    features: Features | None = None,
    seed: int = 0,
    **options: Any,
) -> Malleability:
    """Return `malleability` under a network's kernel; at finite width `redrawn` is the same network drawn anew.

    At finite width the kernel is itself a random draw, so influences change sign when the initialisation is drawn
    again, with nobody attacking anything. A flip rate below that of `redrawn` says nothing about the attack.

    Args:
        network: width, training, ridge.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        yq: their targets, coded like y.
        attack: such as `PGD(eps=0.3)`.
        tau: the share of the training rows to attack.
        features: what the network sees of the rows.
        seed: of the network; the control takes the next one.
        options: measure, loss, adaptive, as for `malleability`.

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> X = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]]
        >>> found = network_malleability(Network(width=64), X, [-1, -1, 1, 1], [[0.6, 0.8]], [1], FGSM(0.0), tau=0.5)
        >>> found.attacked.flips_all, found.redrawn is None
        (0.0, False)
    """
    features = features or RawFeatures()
    X = as_matrix(X, "X").detach()
    Xq = as_query(Xq, X).detach()
    y = as_targets(y, X).detach().reshape(len(X), -1).to(X.dtype)
    rows = features(X, Xq)[0]
    kernel = network.kernel(rows, y, seed)

    def rebuild(moved: Tensor, targets: Tensor) -> Kernel:
        return network.kernel(features(moved, Xq)[0], targets, seed)

    return malleability(
        kernel, X, y, Xq, yq, network.ridge(kernel, rows), attack, tau, features=features, seed=seed,
        redraw=None if network.width is None else lambda: network.kernel(rows, y, seed + 1),
        rebuild=rebuild if network.retrain else None, **options,
    )  # fmt: skip
