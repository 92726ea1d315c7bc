"""Influence where n x n matrices do not fit: one estimator a file, each with errors of its own.

A new one is a file with a function that returns an `Influence` with errors, and one line in `ESTIMATORS`.
"""

from __future__ import annotations

from collections.abc import Callable

from ridgeformer.influence.estimators.nystrom import nystrom_influence
from ridgeformer.influence.estimators.pcg import pcg_influence
from ridgeformer.influence.estimators.stochastic import stochastic_influence
from ridgeformer.influence.influence import Influence

__all__ = ["ESTIMATORS", "nystrom_influence", "pcg_influence", "stochastic_influence"]

ESTIMATORS: dict[str, Callable[..., Influence]] = {
    "nystrom": nystrom_influence,
    "pcg": pcg_influence,
    "stochastic": stochastic_influence,
}
