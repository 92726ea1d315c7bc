"""How easily the influences of a fit are changed by someone who can move the training rows a little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from torch import Tensor

from ridgeformer.checks import as_matrix, as_query, as_targets
from ridgeformer.errors import DtypeError, InputError, ShapeError
from ridgeformer.influence.attacks import Attack, RandomNoise
from ridgeformer.influence.comparison import Comparison, compare, top_rows
from ridgeformer.influence.exact import fit
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influence import Loss
from ridgeformer.influence.losses import squared_loss
from ridgeformer.influence.objectives import influence_reversal, training_loss
from ridgeformer.influence.scores import check_measure, score
from ridgeformer.kernels import Kernel

__all__ = ["Malleability", "as_share", "malleability"]


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
    measure: str = "true_class",
    loss: Loss = squared_loss,
    adaptive: bool = True,
    redraw: Callable[[], Kernel] | None = None,
    rebuild: Callable[[Tensor, Tensor], Kernel] | None = None,
    seed: int = 0,
) -> Malleability:
    """Move the most influential training rows by an attack, and see which influences changed sign, rank and place.

    Influence is leave-one-out with the features held; aggregated, it is the mean over queries.

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        yq: their targets, coded like y.
        ridge: lambda > 0.
        attack: such as `PGD(eps=0.3)`; its eps is in the units of X.
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
    features = features or RawFeatures()
    X = as_matrix(X, "X").detach()
    Xq = as_query(Xq, X).detach()
    y, yq = _targets(y, X, "y"), _targets(yq, Xq, "yq")
    if y.shape[1] != yq.shape[1]:
        raise ShapeError(f"y has {y.shape[1]} outputs and yq has {yq.shape[1]}: code both alike.")
    check_measure(measure, y, yq)
    share = as_share(tau)
    rows, queries = features(X, Xq)
    fitted = fit(kernel, rows, y, ridge)
    before = score(fitted.influence(queries), yq, measure)
    top = top_rows(before.mean(1), ceil(share * len(X)))

    def influences(moved: Tensor, judge: Kernel) -> Tensor:
        rows, queries = features(moved, Xq)
        return score(fit(judge, rows, y, ridge).influence(queries), yq, measure)

    def after(moved: Tensor) -> Tensor:
        return influences(moved, kernel if rebuild is None else rebuild(moved, y))

    objective = training_loss(fitted, Xq, features, top, loss)
    moved = attack(objective, X, rows=top, seed=seed)
    noisy = RandomNoise(attack.eps, attack.norm, attack.bounds)(objective, X, rows=top, seed=seed)
    reversed_ = None
    if adaptive:
        reversal = influence_reversal(fitted, Xq, yq, features, top, measure, before.mean(1))
        reversed_ = compare(before, after(attack(reversal, X, rows=top, seed=seed)), top)
    final = after(moved)
    return Malleability(
        attacked=compare(before, final, top),
        noise=compare(before, after(noisy), top),
        adaptive=reversed_,
        redrawn=None if redraw is None else compare(before, influences(X, redraw()), top),
        top=top,
        before=before,
        after=final,
        X=moved,
        attack=attack,
        tau=share,
        measure=measure,
    )


def _targets(values: Any, rows: Tensor, name: str) -> Tensor:
    targets = as_targets(values, rows, name).detach()
    return targets.reshape(len(rows), -1).to(rows.dtype)


def as_share(tau: Any) -> float:
    """Return a share of the training rows in (0, 1].

    Example:
        >>> as_share("0.1")
        0.1
    """
    try:
        share = float(tau)
    except (TypeError, ValueError):
        raise DtypeError(f"tau is {tau!r}; a share of the training rows in (0, 1] was expected.") from None
    if not 0 < share <= 1:
        raise InputError(f"tau is {share:g}; a share of the training rows in (0, 1] was expected.")
    return share
