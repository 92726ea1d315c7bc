"""Which training points made a prediction, for a network: by its tangent kernel, and whether that speaks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ridgeformer.auditing.settings import Settings
from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Dataset, Split
from ridgeformer.influence.answer import Answer, explain, hold_out
from ridgeformer.influence.exact import fit
from ridgeformer.kernels import Kernel
from ridgeformer.regime import (
    Architecture,
    Built,
    CustomArchitecture,
    Measurement,
    NetworkNTK,
    ReluNetwork,
    Training,
    measure,
    stable_rate,
    tangent_norm,
    train,
)
from ridgeformer.regime.answer import SHORT, choose_ridge, influence_supported, obstacles
from ridgeformer.regime.tangent_kernel import EmpiricalNTK

__all__ = ["ROWS", "ask_network"]

ROWS = 300
"""Rows used at most unless told: a tangent kernel takes a gradient a row and output."""


def ask_network(
    dataset: Dataset, row: Any, architecture: Architecture | CustomArchitecture, settings: Settings | None = None, *,
    model: str = "", width: Any = 1024, training: Training = SHORT, rate: Any = None, points: Any = 5,
) -> Answer:  # fmt: skip
    """Say which training points made the prediction at one row, by the tangent kernel of a network trained on them.

    The network is drawn and trained, and influences are those of ridge regression with its kernel at the trained
    weights; the ridge is the largest that predicts nearly best, leaving one row out. They are about the network as
    far as it is a kernel machine. That is measured as in `answer_regime`; where it is not so, `Answer.warning` says
    why, and stands first in the answer. A network that is no plain ReLU layer has no robustness line: its kernel is
    computed, not differentiated.

    Args:
        dataset: classes, or a regression, of whose outputs the first is explained.
        row: the number of a row of the dataset; it is held out.
        architecture: which network; `CustomArchitecture(factory)` for your own.
        settings: of split and preprocessing; by default with at most `ROWS` rows.
        model: what to call it.
        width: of the network.
        training: how it is trained; 0 epochs is the network as drawn. Its rate is found from the network unless Adam's.
        rate: learning rate; None as above.
        points: how many to name on either side.

    Raises:
        InputError: no such row, one class only, a factory that fails, training that diverges, a dead network, ...

    Example:
        >>> from ridgeformer import datasets
        >>> found = ask_network(datasets.load("wine"), 7, Architecture("relu", scale=1.0), width=256)
        >>> found.helpful[0].score > 0, found.warning is None or found.sentences[0] == found.warning
        (True, True)
    """
    settings, count = settings or Settings(max_rows=ROWS), whole(points, "points", 1)
    split = hold_out(dataset, row, settings)
    built, training = _built(split, architecture, whole(width, "width", 1), training, rate, settings.seed)
    seen = built.features(split.X)
    _train(built, seen, split.y, training, settings.seed)
    kernel = _kernel(built)
    with torch.no_grad():
        K = kernel(seen)
    if not float(K.diagonal().mean()) > 0:
        raise InputError(
            "the network is dead: no output has a gradient at any training row, so no point has influence."
        )
    ridge = choose_ridge(K, split.y)[0]
    query = built.features(split.Xt[-1:])
    measured = measure(split, architecture, training, width=width, seed=settings.seed, ridge=ridge)
    name = f"{model or getattr(architecture, 'name', 'your network')} of width {width:,}"
    answer = explain(
        split, fit(kernel, seen, split.y, ridge), -1, count, query=query, model=f"the tangent kernel of {name}",
        robustness=isinstance(kernel, NetworkNTK),
    )  # fmt: skip
    notes = (_note(training, width), _itself(split, built, query), *answer.notes)
    return replace(answer, warning=_warning(measured), notes=notes)


def _built(
    split: Split, architecture: Architecture | CustomArchitecture, width: int, training: Training, rate: Any, seed: int
) -> tuple[Built, Training]:
    """Return the network that `measure` draws for these rows, and its training with a rate."""
    X, y = split.X, split.y
    built = architecture.build(X, width, y.shape[1], torch_generator(seed, "regime.network", width))
    if rate is not None:
        return built, replace(training, rate=rate)
    if training.method == "adam":
        return built, training
    norm = tangent_norm(built.model, built.features(X), torch_generator(seed, "power"))
    return built, replace(training, rate=stable_rate(norm, y, training.loss))


def _train(built: Built, seen: Tensor, y: Tensor, training: Training, seed: int) -> None:
    if train(built.model, seen, y, training, torch_generator(seed, "regime.batches")).diverged:
        raise InputError(f"training diverged at rate {float(training.rate):.3g}: give a smaller rate.")


def _kernel(built: Built) -> Kernel:
    return NetworkNTK(built.model.weights) if isinstance(built.model, ReluNetwork) else EmpiricalNTK(built.model)


def _warning(measured: Measurement) -> str | None:
    if influence_supported(measured):
        return None
    return (
        f"Warning: on these data the network is not the kernel machine that its tangent kernel describes, because "
        f"{' and '.join(obstacles(measured))}. What follows is true of the kernel, and may not be of the network."
    )


def _note(training: Training, width: int) -> str:
    how = {"adam": "Adam", "descent": "full-batch gradient descent", "flow": "gradient flow"}[training.method]
    return f"The network was trained for {training.epochs} epochs by {how}, {training.loss}, rate {training.rate:.3g}."


def _itself(split: Split, built: Built, query: Tensor) -> str:
    with torch.no_grad():
        outputs = built.model(query)[0].double()
    return f"The network itself says {split.describe_outputs(outputs)}."
