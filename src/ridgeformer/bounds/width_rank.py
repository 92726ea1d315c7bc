"""How much of each eigendirection a ridge keeps, how wide a model must be, and what one of width m loses."""

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
    as_norms,
    as_ridge,
    as_spectrum,
    nonnegative,
    outer,
    spectrum_tail,
)

__all__ = [
    "effective_dimension",
    "gaussian_sketch_relative_error",
    "in_sample_bound",
    "pca_expected_squared_error",
    "pca_prediction_bound",
    "pca_prediction_factor",
    "pca_relative_error",
    "pca_relative_error_bound",
    "pca_saturation",
    "resolvent_error_bound",
    "resolvent_error_floor",
    "shrinkage",
    "simple_prediction_bound",
    "sketch_error_floor",
    "smallest_pca_width",
    "tail_mass",
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


def sketch_error_floor(spectrum: Numbers, width: SupportsIndex) -> float:
    """Return s_{m+1}: no matrix Kh of rank m brings norm(K - Kh) below it (W1, [EckartYoung1936]).

    The top m eigendirections attain it; from the rank of K on it is 0. No upper bound holds for every linear map to
    width m: a map that keeps the bottom m directions, or nothing, errs by s_1.

    Example:
        >>> sketch_error_floor([100.0, 10.0, 1.0, 0.1], width=3)
        0.1
    """
    return float(spectrum_tail(spectrum, width)[0])


def tail_mass(spectrum: Numbers, width: SupportsIndex) -> float:
    """Return sum_{i>m} s_i: no matrix Kh of rank m brings the nuclear norm of K - Kh below it (W1).

    A floor for every sketch, attained by the top m eigendirections. As a ceiling on norm(K - Kh) for
    arbitrary linear maps, as it is sometimes quoted, it is false.

    Example:
        >>> tail_mass([4.0, 2.0, 1.0, 0.5], width=2)
        1.5
    """
    return float(spectrum_tail(spectrum, width).sum())


def pca_prediction_factor(spectrum: Numbers, width: SupportsIndex, ridge: SupportsFloat) -> float:
    """Return max_{i>m} sqrt(s_i)/(s_i + l), the gain of the directions that the best width-m model drops (W3).

    At most 1/(2 sqrt(l)), reached where some dropped s_i equals l; not always that of the largest dropped s_i. From
    the rank of K on it is 0.

    Example:
        >>> pca_prediction_factor([9.0, 4.0, 1.0], width=1, ridge=1.0)
        0.5
    """
    tail = spectrum_tail(spectrum, width)
    factors = np.divide(shrinkage(tail, ridge), np.sqrt(tail), out=np.zeros_like(tail), where=tail > 0)
    return float(factors.max())


def pca_prediction_bound(
    spectrum: Numbers,
    width: SupportsIndex,
    ridge: SupportsFloat,
    query_residual_norms: Numbers,
    target_residual_norms: Numbers,
) -> Array:
    """Bound abs(f(x) - fh(x)) at any query for the model that keeps the top m eigendirections (W3).

    With K = F F' and k(x) = F phi(x), the model projects both F and phi(x). The bound is
    norm(phi_perp(x)) norm(y_perp) max_{i>m} sqrt(s_i)/(s_i + l): the query residual phi_perp is the part of the query's
    features outside the kept directions, the target residual y_perp the part of the targets outside the top m
    eigenvectors of K. Attained where both residuals lie along the maximising direction.

    Example:
        >>> pca_prediction_bound([9.0, 4.0, 1.0], 1, 1.0, [2.0, 4.0], 3.0).tolist()
        [3.0, 6.0]
    """
    queries = as_norms(query_residual_norms, "query_residual_norms")
    targets = as_norms(target_residual_norms, "target_residual_norms")
    return outer(queries, targets, pca_prediction_factor(spectrum, width, ridge))


def simple_prediction_bound(ridge: SupportsFloat, query_residual_norms: Numbers, target_norms: Numbers) -> Array:
    """Return norm(phi_perp(x)) norm(y)/(2 sqrt(l)): `pca_prediction_bound` without a spectrum (W3).

    Attained where a dropped eigenvalue equals l and both vectors lie along its direction.

    Example:
        >>> simple_prediction_bound(0.25, [2.0, 4.0], [3.0, 1.0]).tolist()
        [[6.0, 2.0], [12.0, 4.0]]
    """
    queries = as_norms(query_residual_norms, "query_residual_norms")
    targets = as_norms(target_norms, "target_norms")
    return outer(queries, targets, 0.5 / math.sqrt(as_ridge(ridge)))


def in_sample_bound(difference: SupportsFloat, ridge: SupportsFloat, target_norms: Numbers) -> Array:
    """Return s/(l + s) norm(y) for s = norm(K - Kh): it bounds norm(f - fh) over the training rows (W3).

    Holds for every positive semidefinite Kh, since K R(K) - Kh R(Kh) = l (R(Kh) - R(K)). The top m
    eigendirections attain it with s = s_{m+1}.

    Example:
        >>> float(in_sample_bound(difference=3.0, ridge=1.0, target_norms=2.0))
        1.5
    """
    factor = float(shrinkage([nonnegative(difference, "difference")], ridge)[0])
    return np.asarray(as_norms(target_norms, "target_norms") * factor)


def pca_expected_squared_error(spectrum: Numbers, width: SupportsIndex, ridge: SupportsFloat) -> float:
    """Return E norm(f - fh)^2 = sum_{i>m} (s_i/(s_i + l))^2 over the training rows for y ~ N(0, I) (W5).

    Exact for the top m eigendirections. It is not in proportion to the tail mass: each term stays below 1,
    and targets inside the top m eigenspace lose nothing. From the rank of K on it is 0.

    Example:
        >>> pca_expected_squared_error([9.0, 1.0, 1.0], width=1, ridge=1.0)
        0.5
    """
    return float(np.square(shrinkage(spectrum_tail(spectrum, width), ridge)).sum())


def pca_saturation(spectrum: Numbers, ridge: SupportsFloat) -> float:
    """Return s_1/(s_1 + l) < 1, which the relative in-sample error never exceeds at any width (W5).

    The error of the top m eigendirections rises to it as m falls to 0, however heavy the tail is.

    Example:
        >>> pca_saturation([3.0, 3.0, 3.0, 3.0], ridge=1.0)
        0.75
    """
    return pca_relative_error(spectrum, 0, ridge)


def resolvent_error_bound(difference: SupportsFloat, ridge: SupportsFloat) -> float:
    """Return s/(l(l + s)), an upper bound on norm(R(K) - R(Kh)) for s = norm(K - Kh) (W2).

    Holds for all positive semidefinite K and Kh, of any rank, in the spectral norm: Kh <= K + s I, and the
    inverse of t + l falls fastest at t = 0. Attained by K = s I and Kh = 0. It saturates at 1/l, whereas
    the perturbation bound s/l^2 grows for ever.

    Example:
        >>> resolvent_error_bound(difference=3.0, ridge=1.0)
        0.75
    """
    ridge = as_ridge(ridge)
    return float(shrinkage([nonnegative(difference, "difference")], ridge)[0]) / ridge


def resolvent_error_floor(spectrum: Numbers, width: SupportsIndex, ridge: SupportsFloat) -> float:
    """Return s_{m+1}/(l(l + s_{m+1})), below which no rank-m Kh brings norm(R(K) - R(Kh)) (W2).

    Holds for every Kh of rank <= m with Kh + l I invertible: I/l - R(Kh) has rank <= m as well, so the
    Eckart-Young theorem applies to I/l - R(K). Attained by the top m eigendirections of K; 0 from the rank
    of K on.

    Example:
        >>> round(resolvent_error_floor([1 / i**2 for i in range(1, 41)], width=3, ridge=0.01), 2)
        86.21
    """
    return pca_relative_error(spectrum, width, ridge) / as_ridge(ridge)
