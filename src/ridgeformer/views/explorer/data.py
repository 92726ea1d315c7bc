"""From a state to a regression: training points and queries, as a transformer is given them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets import Dataset, Split
from ridgeformer.views.explorer.cache import remember
from ridgeformer.views.explorer.state import DRAWN, State
from ridgeformer.views.explorer.uploads import find_upload

__all__ = ["FUNCTIONS", "HARMONICS", "Task", "lift", "pose"]

Array = NDArray[np.float64]

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sine": lambda x: np.sin(2 * pi * x),
    "steps": lambda x: np.sign(np.sin(3 * x)),
    "bumps": lambda x: np.exp(-((x + 0.5) ** 2) / 0.02) - np.exp(-((x - 0.4) ** 2) / 0.08),
    "line": lambda x: 0.8 * x,
}
"""One-dimensional truths on [-1, 1]; their points have noise added."""

NOISE = 0.1
GRID = 121
"""Queries of one-dimensional data: the curve."""

MARGIN = 0.05
"""The curve goes on a little beyond the outermost points, as a part of their range."""

HELD_OUT = 50
"""Queries of other data, at most."""

HARMONICS = 4
FEWEST = 2


@dataclass(frozen=True, eq=False)
class Task:
    """One regression with one output.

    Attributes:
        name: What to call the data.
        X, y: Training rows and targets, (k, features) and (k,); the targets' mean is taken off.
        Xq: Queries.
        mean: What was taken off; every prediction shown has it added again.
        truth: Targets of the queries without the mean taken off, or None where no one knows.
        x, grid: Positions of the points and of the queries on the line; None if the data are not one-dimensional.
        outputs: Names of the targets there are to choose from.
        labels: One for each training point.
        notes: What was done to the data, in sentences.
        image_shape: Shape of a row that is an image, else None.
    """

    name: str
    X: Tensor
    y: Tensor
    Xq: Tensor
    mean: float
    truth: Array | None
    x: Array | None
    grid: Array | None
    outputs: tuple[str, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    image_shape: tuple[int, ...] | None = None

    @property
    def line(self) -> bool:
        """Whether the data are one-dimensional."""
        return self.x is not None

    @property
    def targets(self) -> Array:
        """Targets of the training points as given."""
        return np.asarray(self.y.numpy() + self.mean)


def pose(state: State) -> Task:
    """Return the regression of a state.

    Raises:
        InputError: too few points, or an upload that is no longer at hand.
    """
    return _pose(state.data, state.rows, state.output, state.points)


@remember(most=16)
def _pose(data: str, rows: int, output: int, points: tuple[tuple[float, float], ...]) -> Task:
    if data in FUNCTIONS:
        function, generator = FUNCTIONS[data], numpy_generator(0, "explorer", data)
        x = generator.uniform(-1, 1, rows)
        y = function(x) + NOISE * numpy_generator(0, "explorer", data, "noise").standard_normal(rows)
        return _on_a_line(f"{data}, {rows} points", x, y, (-1.0, 1.0), function)
    if data == DRAWN:
        drawn = np.array(points, dtype=np.float64).reshape(-1, 2)
        span = max(1.0, float(np.abs(drawn[:, 0]).max(initial=0)))
        return _on_a_line(f"{len(drawn)} drawn points", drawn[:, 0], drawn[:, 1], (-span, span))
    dataset = datasets.load(data) if data in datasets.REGISTRY else find_upload(data)
    if dataset.d == 1 and dataset.task == "regression" and dataset.outputs == 1:
        return _table_on_a_line(dataset, rows)
    return _rows(dataset, rows, output)


def lift(x: Array) -> Tensor:
    """Return the features of positions in [-1, 1]: unit rows whose products are a Fejer kernel of the distance.

    A transformer's kernel is made of inner products, which one raw number serves badly. Sines and cosines up to a
    quarter of a turn times `HARMONICS`, weighted so that x'z >= 0 falls with distance, serve it well.

    Example:
        >>> phi = lift(np.array([-0.3, 0.0, 0.8]))
        >>> phi.shape, torch.allclose(phi.square().sum(1), torch.ones(3, dtype=torch.float64))
        (torch.Size([3, 9]), True)
    """
    angle = torch.from_numpy(np.asarray(x, dtype=np.float64)) * (pi / 2)
    top = HARMONICS + 1
    columns = [torch.full_like(angle, sqrt(1 / top))]
    for j in range(1, top):
        weight = sqrt(2 * (top - j)) / top
        columns += [weight * torch.cos(j * angle), weight * torch.sin(j * angle)]
    return torch.stack(columns, dim=1)


def _on_a_line(
    name: str, x: Array, y: Array, ends: tuple[float, float], function: Callable[[Array], Array] | None = None
) -> Task:
    if len(x) < FEWEST:
        raise InputError(f"there {'is 1 point' if len(x) == 1 else 'are no points'}; draw at least {FEWEST}.")
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    low, high = ends
    centre, half = (low + high) / 2, (high - low) / 2
    grid = np.linspace(low - MARGIN * (high - low), high + MARGIN * (high - low), GRID)
    mean = float(y.mean())
    return Task(
        name=name,
        X=lift((x - centre) / half),
        y=torch.from_numpy(y - mean),
        Xq=lift((grid - centre) / half),
        mean=mean,
        truth=None if function is None else function(grid),
        x=x,
        grid=grid,
        outputs=("y",),
        labels=tuple(f"point {i} at x = {value:.3g}" for i, value in enumerate(x)),
        notes=(f"A position x is given to the transformer as {2 * HARMONICS + 1} sines and cosines of unit length.",),
    )


def _table_on_a_line(dataset: Dataset, rows: int) -> Task:
    notes: tuple[str, ...] = ()
    if dataset.n > rows:
        notes = (f"{rows} of {dataset.n:,} rows were drawn at random.",)
        dataset = dataset.sample(rows, seed=0)
    x, y = dataset.X[:, 0], dataset.targets()[:, 0]
    if x.min() == x.max():
        raise InputError(f"the only feature of {dataset.name} is constant, so nothing can be learnt from it.")
    task = _on_a_line(dataset.name, x, y, (float(x.min()), float(x.max())))
    return Task(**{**vars(task), "notes": notes + task.notes})


def _rows(dataset: Dataset, rows: int, output: int) -> Task:
    held = max(1, min(HELD_OUT, round(0.3 * dataset.n)))
    total = min(dataset.n, rows + held)
    split = Split.of(dataset, max_rows=total, test_fraction=held / total)
    names = dataset.classes or tuple(f"output {j}" for j in range(dataset.outputs))
    if output >= len(names):
        raise InputError(f"{dataset.name} has no output {output}: it has {len(names)}, counted from 0.")
    kind = f"class {names[output]} against the rest, +1 or -1" if dataset.classes else names[output]
    labels = (
        tuple(f"training row {i}" for i in range(len(split.X)))
        if split.labels is None
        else tuple(f"training row {i} ({names[int(code)]})" for i, code in enumerate(split.labels))
    )
    return Task(
        name=dataset.name,
        X=split.X,
        y=split.y[:, output],
        Xq=split.Xt,
        mean=float(split.mean[output]),
        truth=(split.yt[:, output] + split.mean[output]).numpy(),
        x=None,
        grid=None,
        outputs=names,
        labels=labels,
        notes=(*split.notes, f"What is predicted: {kind}."),
        image_shape=dataset.image_shape,
    )
