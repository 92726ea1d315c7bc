"""Whether networks on these data are kernel machines: with attention in front of them and without."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ridgeformer.auditing.prepare import Prepared
from ridgeformer.auditing.settings import Settings
from ridgeformer.datasets import Dataset

if TYPE_CHECKING:  # the rooms above stand on this one's preparation, so they are imported when they are asked
    from ridgeformer.regime import RegimeAnswer

__all__ = ["NETWORKS", "KernelRegime", "examine_regime"]

NETWORKS = {"relu": "ReLU network", "mlp-attn": "ReLU network behind attention"}
"""The networks asked about, in words."""

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


def examine_regime(data: Prepared, settings: Settings) -> KernelRegime:
    """Train each network at each width and compare it with the kernel machines it might be.

    Rows are those of the audit, prepared as there and scaled to unit length.

    Raises:
        InputError: a row of zeros, one class only, ...
    """
    from ridgeformer.regime import Architecture, Training, answer_regime

    rows = min(settings.regime_rows, len(data.X))
    options: dict[str, Any] = {
        "rows": rows,
        "test_rows": max(1, min(rows // 2, len(data.Xt))),
        "widest": settings.regime_widest,
    }
    training = Training("descent", rate=1.0, epochs=settings.regime_epochs, l2=0.0)
    dataset = _as_dataset(data)
    return KernelRegime(
        tuple(
            answer_regime(
                dataset, Architecture(network, scale=SCALE), width=width, training=training,
                seed=settings.seed + draw, **options,
            )
            for network in NETWORKS
            for width in settings.regime_widths
            for draw in range(settings.repeats)
        )
    )  # fmt: skip


def _as_dataset(data: Prepared) -> Dataset:
    """Return the prepared rows as a dataset again, training rows first."""
    X = torch.cat([data.X, data.Xt]).numpy()
    if data.labels is not None and data.labels_t is not None:
        y: Any = torch.cat([data.labels, data.labels_t]).numpy()
    else:
        y = (torch.cat([data.y, data.yt])).numpy()
        y = y / (np.sqrt(np.square(y).mean()) or 1.0)  # networks at initialisation answer with numbers of size one
    return replace(data.dataset, X=X, y=y)
