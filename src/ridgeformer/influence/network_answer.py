"""Which training points made a prediction of a network: by its tangent kernel, and whether that kernel describes it."""

from __future__ import annotations

from dataclasses import replace

import torch

from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError
from ridgeformer.datasets import Dataset, Split
from ridgeformer.influence.answer import Answer, explain
from ridgeformer.influence.exact import fit
from ridgeformer.kernels import Kernel
from ridgeformer.regime import (
    Architecture,
    CustomArchitecture,
    Measurement,
    NetworkNTK,
    ReluNetwork,
    Training,
    measure,
)
from ridgeformer.regime.answer import SHORT, choose_ridge, influence_supported, obstacles, set_rate
from ridgeformer.regime.measurement import draw_network
from ridgeformer.regime.tangent_kernel import EmpiricalNTK

__all__ = ["ROWS", "ask_network"]

ROWS = 300
"""Rows used at most unless told: a tangent kernel takes a gradient a row and output."""


def ask_network(
    dataset: Dataset,
    row: int,
    architecture: Architecture | CustomArchitecture,
    *,
    model: str = "",
    width: int = 1024,
    training: Training = SHORT,
    rate: float | None = None,
    max_rows: int = ROWS,
    preprocessing: str = "auto",
    seed: int = 0,
    points: int = 5,
) -> Answer:
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
        model: what to call it.
        width: of the network.
        training: how it is trained; 0 epochs is the network as drawn. Its rate is found from the network unless Adam's.
        rate: learning rate; None as above.
        max_rows: rows used at most.
        preprocessing: as for `Split.of`.
        seed: of sample, split and network.
        points: how many to name on either side.

    Raises:
        InputError: no such row, one class only, a factory that fails, training that diverges, a dead network, ...

    Example:
        >>> from ridgeformer import datasets
        >>> found = ask_network(datasets.load("wine"), 7, Architecture("relu", scale=1.0), width=256)
        >>> found.helpful[0].score > 0, found.warning is None or found.sentences[0] == found.warning
        (True, True)
    """
    count, width = whole(points, "points", 1), whole(width, "width", 1)
    split = Split.of(dataset, held_out=row, max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    built = draw_network(split, architecture, width, seed, torch.float64)
    training = set_rate(training, rate, built, split, seed)
    measured = measure(
        split, architecture, training, width=width, seed=seed, ridge=lambda K: choose_ridge(K, split.y)[0], built=built
    )
    if measured.diverged:
        raise InputError(f"training diverged at rate {float(training.rate):.3g}: give a smaller rate.")
    trained = built.model
    kernel: Kernel = NetworkNTK(trained.weights) if isinstance(trained, ReluNetwork) else EmpiricalNTK(trained)
    seen, query = built.features(split.X), built.features(split.Xt[-1:])
    with torch.no_grad():
        alive, outputs = float(kernel.diagonal(seen).mean()) > 0, trained(query)[0].double()
    if not alive:
        raise InputError(
            "the network is dead: no output has a gradient at any training row, so no point has influence."
        )
    name = f"the tangent kernel of {model or getattr(architecture, 'name', 'your network')} of width {width:,}"
    answer = explain(
        split, fit(kernel, seen, split.y, measured.ridge), -1, count, query=query, model=name,
        robustness=isinstance(kernel, NetworkNTK),
    )  # fmt: skip
    notes = (f"The network had {training}.", f"The network itself says {split.describe_outputs(outputs)}.")
    return replace(answer, warning=_warning(measured), notes=notes + answer.notes)


def _warning(measured: Measurement) -> str | None:
    if influence_supported(measured):
        return None
    return (
        f"Warning: on these data the network is not the kernel machine that its tangent kernel describes, because "
        f"{' and '.join(obstacles(measured))}. What follows is true of the kernel, and may not be of the network."
    )
