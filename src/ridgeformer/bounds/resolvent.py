"""How far the inverse moves when the kernel does: R(K) = (K + l I)^-1."""

from __future__ import annotations

from typing import SupportsFloat, SupportsIndex

from ridgeformer.bounds._inputs import Numbers, as_ridge, nonnegative
from ridgeformer.bounds.effective_dimension import pca_relative_error
from ridgeformer.bounds.shrinkage import shrinkage

__all__ = ["resolvent_error_bound", "resolvent_error_floor"]


def resolvent_error_bound(difference: SupportsFloat, ridge: SupportsFloat) -> float:
    """Return s/(l(l + s)), an upper bound on norm(R(K) - R(Kh)) for s = norm(K - Kh) (W2).

    Holds for all positive semidefinite K and Kh, of any rank, in the spectral norm: Kh <= K + s I, and the
    inverse of t + l falls fastest at t = 0. Attained by K = s I and Kh = 0. It saturates at 1/l, whereas
    the perturbation bound s/l^2 grows for ever.

    Args:
        difference: The spectral norm s of K - Kh, or any upper bound on it.
        ridge: The regularisation l > 0.

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

    Args:
        spectrum: Eigenvalues >= 0 of K, in any order.
        width: The rank m >= 0 allowed.
        ridge: The regularisation l > 0.

    Example:
        >>> round(resolvent_error_floor([1 / i**2 for i in range(1, 41)], width=3, ridge=0.01), 2)
        86.21
    """
    return pca_relative_error(spectrum, width, ridge) / as_ridge(ridge)
