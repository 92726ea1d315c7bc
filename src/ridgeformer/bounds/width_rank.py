"""What a model of width m must lose, what the best one loses, and how far the inverse moves when the kernel does."""

from __future__ import annotations

import math
from typing import SupportsFloat, SupportsIndex

import numpy as np

from ridgeformer.bounds._inputs import Array, Numbers, as_norms, as_ridge, nonnegative, outer, spectrum_tail
from ridgeformer.bounds.dimension import pca_relative_error, shrinkage

__all__ = [
    "in_sample_bound",
    "pca_expected_squared_error",
    "pca_prediction_bound",
    "pca_prediction_factor",
    "pca_saturation",
    "resolvent_error_bound",
    "resolvent_error_floor",
    "simple_prediction_bound",
    "sketch_error_floor",
    "tail_mass",
]


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
