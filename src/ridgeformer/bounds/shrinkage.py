"""What ridge regression keeps of each eigendirection: s/(s + l)."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np

from ridgeformer.bounds._inputs import Array, Numbers, as_ridge, as_spectrum

__all__ = ["shrinkage"]


def shrinkage(spectrum: Numbers, ridge: SupportsFloat) -> Array:
    """Return s/(s + ridge) for each eigenvalue s: the part of a target along it that the fit reproduces.

    Every width, rank and resolvent bound here is made of this one function: it rises with s, is concave,
    and stays below 1. Nothing overflows on the way, so spectra of any scale are welcome.

    Args:
        spectrum: Eigenvalues >= 0 of the kernel matrix, in any order.
        ridge: The regularisation l > 0.

    Returns:
        The factors, in the order of `spectrum`.

    Example:
        >>> shrinkage([3.0, 1.0, 0.0], ridge=1.0).tolist()
        [0.75, 0.5, 0.0]
    """
    s, ridge = as_spectrum(spectrum), as_ridge(ridge)
    small, large = np.minimum(s, ridge), np.maximum(s, ridge)
    return np.where(s < ridge, small, large) / large / (1.0 + small / large)
