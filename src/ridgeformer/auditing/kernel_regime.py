"""Whether networks on these data are kernel machines: with attention in front of them and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeformer.auditing.settings import Settings
from ridgeformer.datasets import Split
from ridgeformer.regime import Architecture, RegimeAnswer, Training, answer_regime

__all__ = ["NETWORKS", "SMALL_ERROR", "KernelRegime", "examine_regime"]

NETWORKS = {"relu": "ReLU network", "mlp-attn": "ReLU network behind attention"}
"""The networks asked about, in words."""

SMALL_ERROR = 0.05
"""Fraction of training rows wrong, or mean squared error over the targets' mean square, at which training ends; a
network that does not get there in the epochs allowed supports no verdict."""

SCALE = 1.0
"""Standard deviation of the weights at initialisation: that of the theory."""


@dataclass(frozen=True, eq=False)
class KernelRegime:
    """The answers for every network, width and draw.

    Attributes:
        answers: One a network, width and draw, in this order.
    """

    answers: tuple[RegimeAnswer, ...]

    def of(self, network: str, width: int | None = None) -> tuple[RegimeAnswer, ...]:
        """Return the draws of one network, of the widest unless told."""
        mine = [answer for answer in self.answers if answer.model == network]
        width = width or max(answer.measured.width for answer in mine)
        return tuple(answer for answer in mine if answer.measured.width == width)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths that were trained, ascending."""
        return tuple(sorted({answer.measured.width for answer in self.answers}))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {"answers": [answer.as_dict() for answer in self.answers]}


def examine_regime(data: Split, settings: Settings) -> KernelRegime:
    """Train each network at each width and compare it with the kernel machines it might be.

    Rows are those of the audit, prepared as there and scaled to unit length.

    Raises:
        InputError: a row of zeros, one class only, ...
    """
    rows = min(settings.regime_rows, len(data.X))
    test_rows = max(1, rows // 2)
    training = Training("descent", rate=1.0, epochs=settings.regime_epochs, l2=0.0)
    answers = []
    for network in NETWORKS:
        for width in settings.regime_widths:
            for draw in range(settings.repeats):
                seed = settings.seed + draw
                drawn = data.draw_for_networks(rows, test_rows, seed)
                architecture = Architecture(network, scale=SCALE)
                answers.append(
                    answer_regime(
                        drawn,
                        architecture,
                        width=width,
                        widest=settings.regime_widest,
                        training=training,
                        seed=seed,
                        until=SMALL_ERROR,
                    )
                )
    return KernelRegime(tuple(answers))
