"""A trial out of measured errors."""

from __future__ import annotations

import math
from typing import Any

import torch

from ridgeformer.claims.claim import Trial

__all__ = ["within"]


def within(statement: str, errors: Any, tolerance: float) -> Trial:
    """Return the trial that every error stays within the tolerance; one that is not a number does not.

    Example:
        >>> trial = within("rounding is small", [1e-16, 3e-12], tolerance=1e-12)
        >>> trial.cases, trial.violations, trial.worst
        (2, 1, 3.0)
    """
    values = torch.as_tensor(errors, dtype=torch.float64).flatten()
    outside = int((~(values <= tolerance)).sum())
    worst = max((values / tolerance).nan_to_num(nan=torch.inf, posinf=torch.inf).tolist(), default=math.nan)
    return Trial(statement, values.numel(), outside, worst)
