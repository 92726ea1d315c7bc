"""How easily influences change when training rows move: those of a fit, and of a network through its tangent kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError
from ridgeformer.influence.attacks import Attack, Objective, RandomNoise
from ridgeformer.influence.baseline import Baseline, baseline, influence_reversal
from ridgeformer.influence.comparison import Comparison, compare
from ridgeformer.influence.exact import as_problem
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influences import Loss, squared_loss
from ridgeformer.kernels import Kernel, ReluNTK
from ridgeformer.regime.network_ntk import network_kernel
from ridgeformer.regime.training import Training

__all__ = [
    "FLIPS",
    "FLIPS_AFTER_ADVERSARIAL_TRAINING",
    "Malleability",
    "Network",
    "malleability",
    "network_malleability",
]


@dataclass(frozen=True, eq=False)
class Malleability:
    """Influences before and after an attack on the top rows, with the controls that give a flip rate a meaning.

    Attributes:
        attacked: what the attack on the training loss changed.
        noise: what random noise of the same size changed.
        adaptive: what the same attack changed when aimed at the influence itself; None if it was not asked for.
        redrawn: what another draw of the kernel changed, with no attack at all; None without `redraw`.
        top: the attacked rows, by absolute aggregated influence, largest first.
        before, after: the influences of every training point on every query, (n, q).
        X: the rows after the attack.
        attack, tau, measure: what was done.
    """

    attacked: Comparison
    noise: Comparison
    adaptive: Comparison | None
    redrawn: Comparison | None
    top: Tensor = field(repr=False)
    before: Tensor = field(repr=False)
    after: Tensor = field(repr=False)
    X: Tensor = field(repr=False)
    attack: Attack
    tau: float
    measure: str


def malleability(
    kernel: Kernel, X: Any, y: Any, Xq: Any, yq: Any, ridge: Any, attack: Attack, tau: Any = 0.1, *,
    features: Features | None = None, measure: str = "true_class", loss: Loss = squared_loss, adaptive: bool = True,
    redraw: Callable[[], Kernel] | None = None, rebuild: Callable[[Tensor, Tensor], Kernel] | None = None,
    seed: int = 0,
) -> Malleability:  # fmt: skip
    """Move the most influential training rows by an attack, and see which influences changed sign, rank and place.

    Influence is leave-one-out with the features held; aggregated, it is the mean over queries.

    `kernel`, `X`, `y`, `Xq` and `ridge` are those of `influence`.

    Further arguments:
        yq: the targets of the queries, coded like y.
        attack: such as `PGD(eps=0.3)`; its eps is in the units of X. `PGD(eps=0.3).clipped_to(X)` keeps moved rows in
            the range of the data. The random noise has the size and the bounds of the attack.
        tau: the share of the training rows to attack, in (0, 1], rounded up.
        features: what the kernel sees of the rows; with `AttentionFeatures` moving one row moves all, and its
            `moving_context` says whether the attacker knows that.
        measure: "true_class", "output" or "loss"; see `scores`.
        loss: what the attack raises, at the attacked rows, the fitted model held.
        adaptive: also attack the influence itself; costs O(n^3) a step.
        redraw: returns another draw of the kernel, for kernels of finite width.
        rebuild: given the moved rows and the targets, returns the kernel to judge them by, such as that of a
            network trained again on them; None keeps the kernel.
        seed: of random starts and of the noise.

    Raises:
        InputError: tau outside (0, 1], one class only, bounds that exclude the data, a singular system, ...

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.kernels import Exponential
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> found = malleability(Exponential(1.0), X, [-1, -1, 1, 1], [[1.4]], [1], 0.1, FGSM(0.2), tau=0.5)
        >>> found.top.tolist(), found.attacked.flips_top
        ([2, 1], 0.0)
    """
    base = baseline(kernel, X, y, Xq, yq, ridge, tau, features, measure)
    top, objective = base.top(), base.raised_loss(base.top(), loss)

    def after(moved: Tensor) -> Tensor:
        return base.refit(moved, None if rebuild is None else rebuild(moved, base.y))[1]

    def changed(influences: Tensor) -> Comparison:
        return compare(base.before, influences, top)

    moved = attack(objective, base.X, rows=top, seed=seed)
    final = after(moved)
    noisy = RandomNoise(attack.eps, attack.norm, attack.bounds)(objective, base.X, rows=top, seed=seed)
    return Malleability(
        attacked=changed(final),
        noise=changed(after(noisy)),
        adaptive=changed(after(attack(_reversal(base, top), base.X, rows=top, seed=seed))) if adaptive else None,
        redrawn=None if redraw is None else changed(base.refit(base.X, redraw())[1]),
        top=top,
        before=base.before,
        after=final,
        X=moved,
        attack=attack,
        tau=base.share,
        measure=measure,
    )


def _reversal(base: Baseline, top: Tensor) -> Objective:
    return influence_reversal(base.fitted, base.Xq, base.yq, base.features, top, base.measure, base.before.mean(1))


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

    `X`, `y` and `Xq` are those of `influence`; `yq` are the targets of the queries, coded like `y`.

    Further arguments:
        network: width, training, ridge.
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
    X, y, Xq = as_problem(X, y, Xq)
    rows = features(X, Xq)[0]
    kernel = network.kernel(rows, y, seed)

    def rebuild(moved: Tensor, targets: Tensor) -> Kernel:
        return network.kernel(features(moved, Xq)[0], targets, seed)

    return malleability(
        kernel, X, y, Xq, yq, network.ridge(kernel, rows), attack, tau, features=features, seed=seed,
        redraw=None if network.width is None else lambda: network.kernel(rows, y, seed + 1),
        rebuild=rebuild if network.retrain else None, **options,
    )  # fmt: skip


FLIPS: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("mnist", "all"): {"fgsm": (4.1, 34.6), "pgd": (3.3, 28.9), "mim": (3.4, 21.9)},
    ("mnist", "3,8"): {"fgsm": (8.4, 25.9), "pgd": (8.4, 41.0), "mim": (8.6, 40.5)},
    ("cifar10", "all"): {"fgsm": (3.3, 26.4), "pgd": (3.1, 19.1), "mim": (3.2, 20.5)},
    ("cifar10", "automobile,airplane"): {"fgsm": (15.2, 14.3), "pgd": (15.5, 14.0), "mim": (15.3, 14.8)},
}
"""By data, classes and attack: ReLU and attention."""

FLIPS_AFTER_ADVERSARIAL_TRAINING = {"mnist": (43.4, 42.2), "cifar10": (36.5, 38.6)}
"""Under PGD, ten classes: ReLU and attention."""
