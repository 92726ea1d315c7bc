"""What drives the predictions: permutation importance with intervals, and partial dependence of the strongest."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ridgeformer.auditing.certified import Certified
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.core.statistics import mean_interval
from ridgeformer.datasets import Split
from ridgeformer.solving.tuning import probabilities

__all__ = ["Dependence", "Driver", "Drivers", "examine_drivers"]

MOST_COLUMNS, SHUFFLES, STRONGEST, VALUES, ROWS = 100, 5, 2, 12, 300
"""Columns at most, shuffles of each, columns whose effect is drawn, values drawn of each, rows averaged over."""


@dataclass(frozen=True)
class Driver:
    """One column: what the score loses when its held-out values are shuffled, with a 95 % interval over the rows."""

    name: str
    loss: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Dependence:
    """The mean prediction while one column is set to a value in every row.

    Attributes:
        name: The column.
        numeric: Whether its values are numbers.
        values: Its values, as numbers or in words.
        effect: The mean prediction at each: of the target, or the probability of `output`.
        output: The class whose probability it is, or the target.
    """

    name: str
    numeric: bool
    values: tuple[Any, ...]
    effect: tuple[float, ...]
    output: str


@dataclass(frozen=True)
class Drivers:
    """All columns, strongest first, and the effect of the strongest."""

    drivers: tuple[Driver, ...]
    dependence: tuple[Dependence, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return asdict(self)


def examine_drivers(data: Split, certified: Certified, settings: Settings) -> Drivers:
    """Shuffle each column of the held-out rows, as given, and measure what the score of the certified fit loses.

    Columns that say the same share their importance: shuffling one leaves the other.

    Raises:
        InputError: images, or too many columns to name.
    """
    dataset = data.dataset
    if dataset.image_shape is not None or dataset.d > MOST_COLUMNS:
        what = "pixels" if dataset.image_shape is not None else f"{dataset.d:,} columns"
        raise InputError(f"no single one of the {what} of {dataset.name} says much by itself.")
    rows = dataset.X[data.rows_t]
    generator = numpy_generator(settings.seed, "permutation importance")

    def outputs(raw: NDArray[np.float64]) -> torch.Tensor:
        return certified.fit.predict(torch.from_numpy(data.encoder.transform(raw))).nan_to_num(nan=0.0)

    before = data.row_scores(outputs(rows)).numpy()
    drivers = []
    for column, name in enumerate(dataset.features):
        losses = np.zeros(len(rows))
        for _ in range(SHUFFLES):
            raw = rows.copy()
            raw[:, column] = raw[generator.permutation(len(raw)), column]
            losses += (before - data.row_scores(outputs(raw)).numpy()) / SHUFFLES
        drivers.append(Driver(name, float(losses.mean()), *mean_interval(losses)))
    drivers.sort(key=lambda one: -one.loss)
    some = rows[: min(ROWS, len(rows))]
    dependence = []
    for driver in drivers[:STRONGEST]:
        column = dataset.features.index(driver.name)
        levels = dataset.columns[column].levels if dataset.columns else ()
        seen = dataset.X[data.rows, column]
        seen = seen[~np.isnan(seen)]
        values = np.unique(seen) if levels else np.unique(np.quantile(seen, np.linspace(0.05, 0.95, VALUES)))
        found = []
        for value in values[:VALUES]:
            raw = some.copy()
            raw[:, column] = value
            full = (outputs(raw) + data.mean).numpy()
            found.append((probabilities(full) if data.classes else full).mean(0))
        effect = np.array(found)
        output = 1 if len(data.classes) == 2 else int(np.ptp(effect, axis=0).argmax())
        named = tuple(levels[int(v)] for v in values[:VALUES]) if levels else tuple(values.tolist()[:VALUES])
        dependence.append(
            Dependence(
                driver.name, not levels, named, tuple(effect[:, output].tolist()),
                data.classes[output] if data.classes else dataset.target,
            )
        )  # fmt: skip
    return Drivers(tuple(drivers), tuple(dependence))
