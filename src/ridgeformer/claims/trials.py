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
        >>> within("rounding is small", [1e-16, 3e-12], tolerance=1e-12)
        Trial(statement='rounding is small', cases=2, violations=1, worst=3.0, seed=None)
    """
    values = torch.as_tensor(errors, dtype=torch.float64).flatten()
    outside = int((~(values <= tolerance)).sum())
    worst = max((values / tolerance).nan_to_num(nan=torch.inf, posinf=torch.inf).tolist(), default=math.nan)
    return Trial(statement, values.numel(), outside, worst)
