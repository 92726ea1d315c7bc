"""Whether prediction intervals, or sets of classes, keep their promise on rows that the fit has not seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from ridgeformer.auditing.certified import Certified
from ridgeformer.core.statistics import proportion_interval
from ridgeformer.datasets import Split
from ridgeformer.solving.uncertainty import fit_interval, fit_set

__all__ = ["LEVEL", "CoveredRows", "HeldOutCoverage", "examine_coverage"]

LEVEL = 0.9
"""Nominal coverage."""

THIRDS = ("low predictions", "middle predictions", "high predictions")


@dataclass(frozen=True)
class CoveredRows:
    """Some held-out rows: how many were covered, and how wide their intervals, or large their sets, are on average."""

    name: str
    rows: int
    covered: int
    width: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the probability of being covered."""
        return proportion_interval(self.covered, self.rows)


@dataclass(frozen=True)
class HeldOutCoverage:
    """Jackknife+ intervals, or prediction sets, of the certified fit at the held-out rows.

    Attributes:
        level: the nominal coverage.
        everything: all held-out rows.
        groups: those of each class, or a third of them each by predicted value.
        sets: whether these are sets of classes; widths are then numbers of classes.
        ordered: whether held-out rows are later than, or of other groups than, the training rows, so that they are not
            exchangeable and nothing is guaranteed.
    """

    level: float
    everything: CoveredRows
    groups: tuple[CoveredRows, ...]
    sets: bool
    ordered: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return asdict(self)


def examine_coverage(data: Split, certified: Certified, level: float = LEVEL) -> HeldOutCoverage:
    """Make jackknife+ intervals, or sets, at the held-out rows and count the targets they cover.

    Raises:
        InputError: too few training rows for the level.
    """
    fit, dataset = certified.fit, data.dataset
    if data.labels_t is not None:
        sets = fit_set(fit, data.Xt, level, mean=data.mean)
        covered, size = sets.covers(data.labels_t), sets.size.double()
        named = [(name, data.labels_t == code) for code, name in enumerate(dataset.classes)]
    else:
        found = fit_interval(fit, data.Xt, level, centred=True)
        covered, size = found.covers(data.yt.reshape(found.low.shape)).reshape(len(data.Xt), -1).all(1), found.width
        size = size.reshape(len(data.Xt), -1).mean(1)
        order = certified.outputs[:, 0].argsort().argsort()
        named = [(name, 3 * order // len(order) == third) for third, name in enumerate(THIRDS)]

    def count(name: str, chosen: torch.Tensor) -> CoveredRows:
        return CoveredRows(name, int(chosen.sum()), int(covered[chosen].sum()), float(size[chosen].mean()))

    groups = tuple(count(name, chosen) for name, chosen in named if bool(chosen.any()))
    everything = count("all held-out rows", torch.ones_like(covered))
    ordered = dataset.times is not None or dataset.groups is not None
    return HeldOutCoverage(level, everything, groups, data.labels_t is not None, ordered)
