"""The bootstrap: how far a mean over a handful of seeds can be trusted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeformer.errors import InputError
from ridgeformer.seeds import numpy_generator

__all__ = ["bootstrap_interval"]

RESAMPLES = 2000


def bootstrap_interval(
    values: NDArray[np.float64], *, level: float = 0.95, seed: int = 0
) -> tuple[float | None, float | None]:
    """Return the percentile bootstrap interval of the mean; none for fewer than two values.

    Holds asymptotically in the number of values; with a handful of seeds it is a guide to the spread.

    Example:
        >>> bootstrap_interval(np.array([1.0, 1.0, 1.0]))
        (1.0, 1.0)
        >>> bootstrap_interval(np.array([1.0]))
        (None, None)
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; a number between 0 and 1 was expected, such as 0.95.")
    if values.size < 2:
        return None, None
    draws = numpy_generator(seed, "bootstrap", values.size).integers(values.size, size=(RESAMPLES, values.size))
    low, high = np.quantile(values[draws].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
