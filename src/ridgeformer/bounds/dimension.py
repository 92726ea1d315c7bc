"""How much of each eigendirection a ridge keeps, how many directions that leaves, and how wide a model must be."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import SupportsFloat, SupportsIndex

import numpy as np

from ridgeformer.bounds._inputs import (
    Array,
    Numbers,
    as_count,
    as_eps,
    as_ridge,
    as_spectrum,
    nonnegative,
    spectrum_tail,
)

__all__ = [
    "effective_dimension",
    "gaussian_sketch_relative_error",
    "pca_relative_error",
    "pca_relative_error_bound",
    "shrinkage",
    "smallest_pca_width",
    "width_for_relative_error",
    "width_from_effective_dimension",
]


def shrinkage(spectrum: Numbers, ridge: SupportsFloat) -> Array:
    """Return s/(s + ridge) for each eigenvalue s: the part of a target along it that the fit reproduces.

    Every width, rank and resolvent bound here is made of this one function: it rises with s, is concave,
    and stays below 1. Nothing overflows on the way, so spectra of any scale are welcome.

    Example:
        >>> shrinkage([3.0, 1.0, 0.0], ridge=1.0).tolist()
        [0.75, 0.5, 0.0]
    """
    s, ridge = as_spectrum(spectrum), as_ridge(ridge)
    small, large = np.minimum(s, ridge), np.maximum(s, ridge)
    return np.where(s < ridge, small, large) / large / (1.0 + small / large)


def effective_dimension(spectrum: Numbers, ridge: SupportsFloat) -> float:
    """Return d_eff = sum_i s_i/(s_i + ridge), the trace of K (K + ridge I)^-1.

    It lies between 0 and the rank of K and falls as the ridge grows.

    Example:
        >>> effective_dimension([3.0, 1.0, 1.0], ridge=1.0)
        1.75
    """
    return float(shrinkage(spectrum, ridge).sum())


def pca_relative_error(spectrum: Numbers, width: SupportsIndex, ridge: SupportsFloat) -> float:
    """Return s_{m+1}/(s_{m+1} + ridge), the exact worst in-sample error of the best width-m model (W4).

    The model keeps the top m eigendirections of K. The worst is over all targets y, relative to norm(y),
    and is reached by the eigenvector m + 1. From the rank of K on it is 0.

    Example:
        >>> pca_relative_error([3.0, 1.0, 1.0], width=1, ridge=1.0)
        0.5
    """
    return float(shrinkage(spectrum_tail(spectrum, width), ridge)[0])


def pca_relative_error_bound(d_eff: SupportsFloat, width: SupportsIndex) -> float:
    """Return d_eff/(m + 1), which `pca_relative_error` never exceeds (W4).

    The shrinkage factors fall, so m + 1 times the (m+1)-th is at most their sum. K = m ridge I of size
    m + 1 attains it: d_eff = m there, and yet the relative error is m/(m + 1). A width equal to the
    effective dimension therefore guarantees nothing.

    Example:
        >>> pca_relative_error_bound(d_eff=4.0, width=4)
        0.8
    """
    return nonnegative(d_eff, "d_eff") / (as_count(width, "width") + 1)


def width_from_effective_dimension(d_eff: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the smallest m with m + 1 >= d_eff/eps: the best width-m model then errs by at most eps (W4).

    Sufficient whatever the spectrum is; `smallest_pca_width` is exact where the spectrum is known.

    Example:
        >>> width_from_effective_dimension(d_eff=4.0, eps=0.1)
        39
    """
    ratio = Fraction(nonnegative(d_eff, "d_eff")) / Fraction(as_eps(eps))
    return max(0, math.ceil(ratio) - 1)


def width_for_relative_error(spectrum: Numbers, ridge: SupportsFloat, eps: SupportsFloat) -> int:
    """Return a width that suffices for a relative in-sample error of eps: d_eff/eps - 1, or the rank (W4).

    Example:
        >>> width_for_relative_error([3.0] + [0.01] * 99, ridge=1.0, eps=0.1)
        17
    """
    rank = int(np.count_nonzero(as_spectrum(spectrum)))
    return min(rank, width_from_effective_dimension(effective_dimension(spectrum, ridge), eps))


def smallest_pca_width(spectrum: Numbers, ridge: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the smallest m with s_{m+1}/(s_{m+1} + ridge) <= eps: what `width_for_relative_error` bounds.

    Also necessary: no rank-m kernel, however chosen, errs less in the worst case (`resolvent_error_floor`).

    Example:
        >>> smallest_pca_width([3.0] + [0.01] * 99, ridge=1.0, eps=0.1)
        1
    """
    return int(np.count_nonzero(shrinkage(spectrum, ridge) > as_eps(eps)))


def gaussian_sketch_relative_error(d_eff: SupportsFloat, width: SupportsIndex) -> float:
    """Return 2 sqrt(d_eff/m) + d_eff/m: a guide for Gaussian sketches, NOT a theorem (W4).

    It estimates norm(A^-1/2 (K - Kh) A^-1/2), A = K + ridge I, for Kh = F S S'F'/m with S Gaussian and
    F F' = K, from the edge of the Marchenko-Pastur law. Single draws do exceed it, most where m is small.
    Where the true value d is below 1, the relative in-sample error is at most d/(1 - d). Infinite at width 0.

    Example:
        >>> gaussian_sketch_relative_error(d_eff=4.0, width=64)
        0.5625
    """
    d_eff, width = nonnegative(d_eff, "d_eff"), as_count(width, "width")
    if width == 0:
        return math.inf
    return 2.0 * math.sqrt(d_eff / width) + d_eff / width
