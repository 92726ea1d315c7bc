"""How influences change when training rows move or are taken out, and while a network is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_targets, positive, whole
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.attacks import Attack, RandomNoise
from ridgeformer.influence.baseline import Baseline, Comparison, baseline, compare, top_rows, training_loss
from ridgeformer.influence.exact import Loss, as_problem, check_measure, influence, rows_behind, score, squared_loss
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.kernels import Kernel, ReluNTK
from ridgeformer.regime import NetworkNTK, ReluNetwork, train
from ridgeformer.regime.finite_ntk import network_kernel
from ridgeformer.regime.training import Training
from ridgeformer.solving import Fit, solve

__all__ = [
    "FLIPS",
    "FLIPS_AFTER_ADVERSARIAL_TRAINING",
    "Intervention",
    "Interventions",
    "Malleability",
    "Moment",
    "Network",
    "adversarial_rows",
    "influence_over_time",
    "intervene",
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
    fit: Fit, Xq: ArrayLike, yq: ArrayLike, attack: Attack, tau: float = 0.1, *, X: ArrayLike | None = None,
    features: Features | None = None, measure: str = "true_class", loss: Loss = squared_loss, adaptive: bool = True,
    redraw: Callable[[], Kernel] | None = None, rebuild: Callable[[Tensor, Tensor], Kernel] | None = None,
    seed: int = 0,
) -> Malleability:  # fmt: skip
    """Move the most influential training rows by an attack, and see which influences changed sign, rank and place.

    Influence is leave-one-out with the features held; aggregated, it is the mean over queries. Moved rows are fitted
    again with the kernel and the ridge of the fit.

    `yq` are the targets of the queries, coded like y. The attack's eps is in the units of the rows;
    `PGD(eps=0.3).clipped_to(X)` keeps moved rows in the range of the data, and the random noise has its size and
    bounds. It moves the fraction `tau` of the rows, rounded up, to raise their `loss` under the fitted model;
    `adaptive` also attacks the influence itself, at O(n^3) a step. A fit to `features` of rows `X` is attacked in X:
    with `AttentionFeatures` moving one row moves all, and `moving_context` says whether the attacker knows that.
    `measure` is "true_class", "output" or "loss"; see `score`. For kernels of finite width `redraw` returns another
    draw; `rebuild`, given the moved rows and the targets, returns the kernel to judge them by, such as that of a
    network trained again.

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.kernels import Exponential
        >>> fit = solve(Exponential(1.0), [[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1], 0.1, algorithm="direct")
        >>> found = malleability(fit, [[1.4]], [1], FGSM(0.2), tau=0.5)
        >>> found.top.tolist(), found.attacked.flips_top
        ([2, 1], 0.0)
    """
    base = baseline(fit, Xq, yq, tau, measure, X, features)
    top = base.top()
    objective = training_loss(fit, base.Xq, base.features, top, loss)

    def after(moved: Tensor) -> Tensor:
        return base.refit(moved, None if rebuild is None else rebuild(moved, base.y))[1]

    def changed(influences: Tensor) -> Comparison:
        return compare(base.before, influences, top)

    moved = attack(objective, base.X, rows=top, seed=seed)
    final = after(moved)
    reversing = attack(base.reversed_influence(top), base.X, rows=top, seed=seed) if adaptive else None
    noisy = RandomNoise(attack.eps, attack.norm, attack.bounds)(objective, base.X, rows=top, seed=seed)
    return Malleability(
        attacked=changed(final),
        noise=changed(after(noisy)),
        adaptive=None if reversing is None else changed(after(reversing)),
        redrawn=None if redraw is None else changed(base.refit(base.X, redraw())[1]),
        top=top,
        before=base.before,
        after=final,
        X=moved,
        attack=attack,
        tau=base.share,
        measure=measure,
    )


@dataclass(frozen=True)
class Network:
    """A two-layer ReLU network, seen through its tangent kernel.

    `width` None is infinitely many neurons; `training` None is the kernel at initialisation. `retrain` trains again on
    the attacked rows, from the same initialisation. `relative_ridge` is the ridge over tr(K)/n, so that ridges compare
    across kernels. float32 `precision` of weights, training and activations takes half the time.
    """

    width: int | None = None
    training: Training | None = None
    retrain: bool = False
    relative_ridge: float = 1e-3
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

    def fit(self, kernel: Kernel, rows: Tensor, y: Tensor) -> Fit:
        """Return the ridge regression with a kernel on these rows."""
        with torch.no_grad():
            ridge = float(self.relative_ridge) * float(kernel.diagonal(rows).mean())
        return solve(kernel, rows, y, ridge, algorithm="direct")


def network_malleability(
    network: Network,
    X: ArrayLike,
    y: ArrayLike,
    Xq: ArrayLike,
    yq: ArrayLike,
    attack: Attack,
    tau: float = 0.1,
    *,
    features: Features | None = None,
    seed: int = 0,
    **options: Any,
) -> Malleability:
    """Return `malleability` under a network's kernel; at finite width `redrawn` is the same network drawn anew.

    At finite width the kernel is itself a random draw, so influences change sign when the initialisation is drawn
    again, with nobody attacking anything. A flip rate below that of `redrawn` says nothing about the attack.

    `yq` are the targets of the queries `Xq`, coded like `y`.

    `seed` is that of the network; the control takes the next one. `options` are measure, loss and adaptive, as for
    `malleability`.

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
        network.fit(kernel, rows, y), Xq, yq, attack, tau, X=X, features=features, seed=seed,
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


def adversarial_rows(
    fit: Fit, Xq: ArrayLike, attack: Attack, rounds: int = 1, *, X: ArrayLike | None = None,
    features: Features | None = None, loss: Loss = squared_loss, seed: int = 0,
) -> Tensor:  # fmt: skip
    """Return the training rows after `rounds` rounds of adversarial training.

    Each round attacks all rows as they were given, to raise the `loss` of the fit to the rows of the round before: so
    no row is ever further than eps from where it was, and one round is the attack on the untouched fit. The kernel is
    held. A fit to `features` of rows `X` is attacked in X; nothing but the features looks at the queries.

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.kernels import DotProduct
        >>> fit = solve(DotProduct(), [[1.0], [2.0]], [1.0, 1.0], ridge=0.1, algorithm="direct")
        >>> adversarial_rows(fit, [[1.0]], FGSM(0.5), rounds=2)
        tensor([[0.5000], [1.5000]], dtype=torch.float64)
    """
    X, Xq, features = rows_behind(fit, Xq, X, features)
    moved, everyone = X, torch.arange(len(X), device=X.device)
    for number in range(whole(rounds, "rounds", 0)):
        if number:
            fit = solve(fit.kernel, features(moved, Xq)[0], fit.y, fit.ridge, algorithm="direct")
        moved = attack(training_loss(fit, Xq, features, everyone, loss), X, rows=everyone, seed=seed)
    return moved


@dataclass(frozen=True, eq=False)
class Intervention:
    """A fit to changed training rows.

    `margin` is the mean over the queries of the true class's output over the best other one (for one output y f(x)),
    `influence` the mean absolute influence over points and queries. `changed` compares its influences with those of
    the untouched fit, on the points both have; None for that fit itself. `kept` are the original row numbers.
    """

    accuracy: float
    margin: float
    influence: float
    changed: Comparison | None = field(repr=False)
    X: Tensor = field(repr=False)
    kept: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class Interventions:
    """The untouched fit, and those without the top rows, with them attacked, and with all rows attacked."""

    untouched: Intervention
    curated: Intervention
    transformed: Intervention
    adversarial: Intervention
    top: Tensor = field(repr=False)


def intervene(
    fit: Fit, Xq: ArrayLike, yq: ArrayLike, attack: Attack, tau: float = 0.1, *, X: ArrayLike | None = None,
    features: Features | None = None, loss: Loss = squared_loss, rounds: int = 1, seed: int = 0,
) -> Interventions:  # fmt: skip
    """Fit again without the most influential points, with them attacked, and with all points attacked.

    Influence is that on the true class. Attacks raise the loss of the untouched fit, which is held meanwhile; with
    several `rounds` the adversarial rows are those of `adversarial_rows`. Other arguments as for `malleability`.

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.kernels import Exponential
        >>> fit = solve(Exponential(1.0), [[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1], 0.1, algorithm="direct")
        >>> found = intervene(fit, [[1.9]], [1], FGSM(0.2), tau=0.25)
        >>> found.top.tolist(), found.curated.kept.tolist(), found.untouched.accuracy
        ([2], [0, 1, 3], 1.0)
    """
    rounds = whole(rounds, "rounds", 1)
    base = baseline(fit, Xq, yq, tau, X=X, features=features)
    X, Xq, features = base.X, base.Xq, base.features
    everyone = torch.arange(len(X), device=X.device)
    top = base.top(len(X) - 1)  # one row at least is left to fit
    rest = everyone[~torch.isin(everyone, top)]
    attacked = attack(training_loss(fit, Xq, features, top, loss), X, rows=top, seed=seed)
    adversarial = adversarial_rows(fit, Xq, attack, rounds, X=X, features=features, loss=loss, seed=seed)
    return Interventions(
        untouched=_judge(base, X, everyone),
        curated=_judge(base, X[rest], rest, top),
        transformed=_judge(base, attacked, everyone, top),
        adversarial=_judge(base, adversarial, everyone, top),
        top=top,
    )


def _judge(base: Baseline, rows: Tensor, kept: Tensor, top: Tensor | None = None) -> Intervention:
    """Return what a fit to these rows is worth, without `top` the untouched fit.

    Influences are compared on the top rows that are left, else on all.
    """
    yq, changed, fit, table = base.yq, None, base.fit, base.before
    if top is not None:
        fit, table = base.refit(rows, kept=kept)
        places = torch.arange(len(kept), device=kept.device)
        shared = places[torch.isin(kept, top)]
        changed = compare(base.before[kept], table, shared if len(shared) else places)
    outputs = fit.predict(base.features(rows, base.Xq)[1]).reshape(yq.shape)
    if yq.shape[1] == 1:
        margins = (outputs * yq.sign())[:, 0]
    else:
        own = yq.argmax(1, keepdim=True)
        margins = outputs.gather(1, own)[:, 0] - outputs.scatter(1, own, -torch.inf).amax(1)
    accuracy, margin = float((margins > 0).double().mean()), float(margins.mean())
    return Intervention(accuracy, margin, float(table.abs().mean()), changed, rows, kept)


@dataclass(frozen=True, eq=False)
class Moment:
    """The influences after some epochs of training.

    Attributes:
        epoch: how many.
        since_start: beside those at initialisation, on the top tenth at initialisation.
        until_end: beside those at the end, on the top tenth at the end.
        kernel_drift: norm(K_t - K_0) / norm(K_0) on the training rows.
    """

    epoch: int
    since_start: Comparison
    until_end: Comparison
    kernel_drift: float


def influence_over_time(
    network: Network, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, yq: ArrayLike, epochs: Sequence[int], *,
    features: Features | None = None, tau: float = 0.1, measure: str = "true_class", seed: int = 0,
) -> tuple[Moment, ...]:  # fmt: skip
    """Train a network once, and compare the influences at some epochs with those at its start and end.

    At each moment the kernel is that of the weights then, and the ridge is the same multiple of tr(K)/n.

    `yq` are the targets of the queries `Xq`, coded like `y`.

    The network has finite width and a training. The start and the end are added to `epochs`; `tau` is the fraction of
    rows that is the top. A seed gives the same network as in `network_malleability`.

    Example:
        >>> from ridgeformer.regime import Training
        >>> trained = Network(16, Training("descent", rate=0.5, epochs=4))
        >>> X = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]]
        >>> found = influence_over_time(trained, X, [-1, -1, 1, 1], [[0.6, 0.8]], [1], [2])
        >>> [moment.epoch for moment in found], found[0].kernel_drift, found[-1].until_end.flips_all
        ([0, 2, 4], 0.0, 0.0)
    """
    if network.width is None or network.training is None:
        raise InputError("influence over time is that of a network in training: give Network a width and a training.")
    features = features or RawFeatures()
    X, y, Xq = as_problem(X, y, Xq)
    yq = as_targets(yq, Xq, "yq").reshape(len(Xq), -1).to(X)
    check_measure(measure, y, yq)
    rows, queries = features(X, Xq)
    tables, kernels = {}, {}
    moments = {whole(epoch, "an epoch", 0) for epoch in epochs} | {0}
    if max(moments) > (end := network.training.epochs):
        raise InputError(f"epoch {max(moments)} was asked for and training ends at {end}: ask for earlier ones.")
    seen, targets = rows.to(network.precision), y.to(network.precision)
    generator = torch_generator(seed, "network")
    model = ReluNetwork(seen.shape[1], network.width, generator, outputs=y.shape[1], dtype=seen.dtype)
    weights = {0: model.weights.detach().clone()}

    def keep(epoch: int) -> None:
        if epoch in moments | {end}:
            weights[epoch] = model.weights.detach().clone()

    history = train(model, seen, targets, network.training, torch_generator(seed, "batches"), progress=keep)
    if history.diverged:
        raise InputError(f"training diverged after {history.steps} steps: give a smaller rate.")
    for epoch, then in weights.items():
        fit = network.fit(NetworkNTK(then), rows, y)
        tables[epoch], kernels[epoch] = score(influence(fit, queries), yq, measure), fit.K
    first, last = min(tables), max(tables)
    count = ceil(tau * len(X))
    tops = {epoch: top_rows(tables[epoch].mean(1), count) for epoch in (first, last)}
    return tuple(
        Moment(
            epoch,
            compare(tables[first], table, tops[first]),
            compare(tables[last], table, tops[last]),
            float((kernels[epoch] - kernels[first]).norm() / kernels[first].norm()),
        )
        for epoch, table in sorted(tables.items())
    )
