"""Which training points made one prediction: the held-out row that the fit was least right about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ridgeformer.auditing.fits import Certified
from ridgeformer.auditing.settings import Settings
from ridgeformer.datasets import Dataset, Split

if TYPE_CHECKING:
    from ridgeformer.influence import Answer

__all__ = ["examine_attribution", "hardest_row"]


def examine_attribution(dataset: Dataset, data: Split, certified: Certified, settings: Settings) -> Answer:
    """Ask which training points made the prediction at the hardest held-out row.

    Raises:
        InputError: a row of a class that no training row is of, ...
    """
    from ridgeformer.influence import ask

    place = hardest_row(data, certified.solution.predict(data.Xt))
    return ask(dataset, int(data.rows_t[place]), settings, points=settings.points)


def hardest_row(data: Split, outputs: Tensor) -> int:
    """Return the held-out row whose own class leads least over the others, or whose error is largest.

    Rows of a class that was never trained on are passed over: no training point can speak for them.
    """
    if data.labels is None or data.labels_t is None:
        return int((outputs - data.yt).norm(dim=1).argmax())
    own = data.labels_t[:, None]
    outputs = outputs + data.mean
    lead = outputs.gather(1, own)[:, 0] - outputs.scatter(1, own, -torch.inf).max(1).values
    lead[~torch.isin(data.labels_t, data.labels)] = torch.inf
    return int(lead.argmin())
