"""How easily the influences of a fit are changed by someone who can move the training rows a little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ridgeformer.influence.attacks import Attack, Objective, RandomNoise
from ridgeformer.influence.baseline import Baseline, baseline
from ridgeformer.influence.comparison import Comparison, compare
from ridgeformer.influence.features import Features
from ridgeformer.influence.influence import Loss
from ridgeformer.influence.losses import squared_loss
from ridgeformer.influence.objectives import influence_reversal
from ridgeformer.kernels import Kernel

__all__ = ["Malleability", "malleability"]


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

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        yq: their targets, coded like y.
        ridge: lambda > 0.
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
