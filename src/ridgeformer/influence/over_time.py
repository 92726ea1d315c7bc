"""How the influences of a network's tangent kernel change while it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from torch import Tensor

from ridgeformer.core.checks import as_targets, whole
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.comparison import Comparison, compare, top_rows
from ridgeformer.influence.exact import as_problem, fit, influence_of
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influences import check_measure, score
from ridgeformer.influence.malleable import Network
from ridgeformer.regime import NetworkNTK, ReluNetwork, train

__all__ = ["Moment", "influence_over_time"]


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
    network: Network, X: Any, y: Any, Xq: Any, yq: Any, epochs: Any, *, features: Features | None = None,
    tau: float = 0.1, measure: str = "true_class", seed: int = 0,
) -> tuple[Moment, ...]:  # fmt: skip
    """Train a network once, and compare the influences at some epochs with those at its start and end.

    At each moment the kernel is that of the weights then, and the ridge is the same multiple of tr(K)/n.

    `X`, `y` and `Xq` are those of `influence`; `yq` are the targets of the queries, coded like `y`.

    Further arguments:
        network: of finite width, with its training.
        epochs: after which to look; the start and the end are always added.
        features: what the network sees of the rows.
        tau: the share of the rows that is the top.
        measure: which influence, as in `scores`.
        seed: of weights and batches, the same network as `network_malleability` draws.

    Raises:
        InputError: a network without width or training, epochs outside its training, ...

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
    for epoch, weights in _weights(network, rows, y, _moments(epochs, network.training.epochs), seed).items():
        kernel = NetworkNTK(weights)
        fitted = fit(kernel, rows, y, network.ridge(kernel, rows))
        tables[epoch], kernels[epoch] = score(influence_of(fitted, queries), yq, measure), fitted.K
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


def _moments(epochs: Any, last: int) -> set[int]:
    asked = {whole(epoch, "an epoch", 0) for epoch in epochs}
    if asked and max(asked) > last:
        raise InputError(f"epoch {max(asked)} was asked for and training ends at {last}: ask for earlier ones.")
    return asked | {0, last}


def _weights(network: Network, rows: Tensor, y: Tensor, moments: set[int], seed: int) -> dict[int, Tensor]:
    """Return the first-layer weights at each moment of one training."""
    seen, targets = rows.to(network.precision), y.to(network.precision)
    model = ReluNetwork(
        rows.shape[1], network.width, torch_generator(seed, "network"), outputs=y.shape[1], dtype=network.precision
    )
    found = {0: model.weights.detach().clone()}

    def keep(epoch: int) -> None:
        if epoch in moments:
            found[epoch] = model.weights.detach().clone()

    assert network.training is not None
    history = train(model, seen, targets, network.training, torch_generator(seed, "batches"), progress=keep)
    if history.diverged:
        raise InputError(f"training diverged after {history.steps} steps: give a smaller rate.")
    return found
