"""Close to the limit, criterion by criterion: how far the kernel is, and the width each criterion asks for (L4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import log10
from typing import Any

from torch import Tensor

from ridgeformer.regime.kernel_distances import KernelDistances
from ridgeformer.regime.widths import REACHABLE, RequiredWidth, required_widths, width_from_measurement

__all__ = ["Criterion", "judge_criteria"]


@dataclass(frozen=True)
class Criterion:
    """One meaning of "close to the limit".

    Attributes:
        name: "additive", "frobenius", "multiplicative", "whitened" or "published".
        tolerance: The distance asked for, in the criterion's own sense; None for the published formula.
        here: The distance of the network's own kernel; None for the published formula.
        widest: The distance at the widest kernel that was drawn.
        log10_expected: log10 of the width at which that distance falls to the tolerance, as 1/sqrt(m).
        log10_sufficient: log10 of the width that the theory, or the published formula, asks for.
        assumption: What that rests on.
    """

    name: str
    tolerance: float | None
    here: float | None
    widest: float | None
    log10_expected: float | None
    log10_sufficient: float
    assumption: str

    @property
    def reachable(self) -> bool:
        """Whether a width that is expected to be enough can be run; by the formula where nothing was measured."""
        least = self.log10_sufficient if self.log10_expected is None else self.log10_expected
        return least <= log10(REACHABLE)

    def as_dict(self) -> dict[str, Any]:
        """Return the record by name."""
        return asdict(self) | {"reachable": self.reachable}


def judge_criteria(
    seen: Tensor,
    here: KernelDistances | None,
    at_widths: tuple[tuple[int, KernelDistances], ...],
    ridge: float,
    kappa: float,
) -> tuple[Criterion, ...]:
    """Return every criterion; none if there is no limit, or if it is singular.

    Args:
        seen: Rows of the ReLU layer.
        here: Distances of the network's kernel at initialisation.
        at_widths: Distances of wider kernels at initialisation, widest last.
        ridge: Of the whitened criterion.
        kappa: Condition number of the rows before attention, for the published formula.
    """
    if here is None or not here.definite:
        return ()
    return tuple(_judge(need, here, at_widths[-1]) for need in required_widths(seen, ridge=ridge, kappa=kappa))


def _judge(need: RequiredWidth, here: KernelDistances, last: tuple[int, KernelDistances]) -> Criterion:
    if need.tolerance is None:
        return Criterion(need.criterion, None, None, None, None, need.log10_width, need.assumption)
    width, distances = last
    widest = float(getattr(distances, need.criterion))
    expected = width_from_measurement(widest, width, need.tolerance)
    own = float(getattr(here, need.criterion))
    return Criterion(need.criterion, need.tolerance, own, widest, expected, need.log10_width, need.assumption)
