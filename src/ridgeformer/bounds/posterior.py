"""How wrong an answer can be, judged by its residual r = y - (K + l I) alpha alone.

Throughout, A = K + l I with K positive semidefinite, alpha* = A^-1 y, f(x) = k(x)'alpha and f*(x) = k(x)'alpha*,
so alpha* - alpha = A^-1 r. The residual may come from any method, run for any number of steps.
"""

from __future__ import annotations

import math
from typing import SupportsFloat

import numpy as np

from ridgeformer.bounds._inputs import Array, Numbers, as_norms, as_ridge, outer
from ridgeformer.core.errors import InputError, ShapeError

__all__ = [
    "prediction_error_from_diagonal",
    "prediction_error_from_energy",
    "prediction_error_from_query_norm",
    "prediction_error_from_variance",
    "solution_error_bound",
]


def solution_error_bound(residual_norms: Numbers, ridge: SupportsFloat) -> Array:
    """Return norm(r)/l, which bounds norm(alpha - alpha*) because no eigenvalue of A is below l.

    Attained where r lies in the null space of K.

    Example:
        >>> solution_error_bound([1.0, 3.0], ridge=0.5).tolist()
        [2.0, 6.0]
    """
    with np.errstate(over="ignore"):
        return np.asarray(as_norms(residual_norms, "residual_norms") / as_ridge(ridge))


def prediction_error_from_query_norm(residual_norms: Numbers, ridge: SupportsFloat, query_norms: Numbers) -> Array:
    """Return norm(k(x)) norm(r)/l, which bounds abs(f(x) - f*(x)) for any vector k(x).

    It asks nothing of k(x), not even that it belongs to the kernel of K; the forms below use that it does
    and are often far smaller.

    Example:
        >>> prediction_error_from_query_norm([1.0, 3.0], 0.5, [2.0, 1.0]).tolist()
        [[4.0, 12.0], [2.0, 6.0]]
    """
    return outer(as_norms(query_norms, "query_norms"), solution_error_bound(residual_norms, ridge), 1.0)


def prediction_error_from_energy(residual_norms: Numbers, ridge: SupportsFloat, query_energies: Numbers) -> Array:
    """Return sqrt(k(x)'A^-1 k(x)) norm(r)/sqrt(l), which bounds abs(f(x) - f*(x)) for any vector k(x).

    By the Cauchy-Schwarz inequality in A^-1 and norm(r)^2_{A^-1} <= norm(r)^2/l.

    Example:
        >>> prediction_error_from_energy(3.0, 0.25, [0.25, 1.0]).tolist()
        [3.0, 6.0]
    """
    queries, residuals = as_norms(query_energies, "query_energies"), as_norms(residual_norms, "residual_norms")
    return outer(np.sqrt(queries), residuals, 1.0 / math.sqrt(as_ridge(ridge)))


def prediction_error_from_diagonal(residual_norms: Numbers, ridge: SupportsFloat, query_diagonals: Numbers) -> Array:
    """Return sqrt(k(x, x)) norm(r)/(2 sqrt(l)), which bounds abs(f(x) - f*(x)) without solving for a query.

    Holds where the Gram matrix of the training rows together with x is positive semidefinite. Then
    k(x) = F phi with K = F F' and norm(phi)^2 = k(x, x), and norm(F'A^-1) = max_i sqrt(s_i)/(s_i + l) is at
    most 1/(2 sqrt(l)). Half of what k(x)'A^-1 k(x) <= k(x, x) in `prediction_error_from_energy` gives;
    attained where an eigenvalue of K equals l.

    Example:
        >>> prediction_error_from_diagonal(3.0, 0.25, [1.0, 4.0]).tolist()
        [3.0, 6.0]
    """
    queries, residuals = as_norms(query_diagonals, "query_diagonals"), as_norms(residual_norms, "residual_norms")
    return outer(np.sqrt(queries), residuals, 0.5 / math.sqrt(as_ridge(ridge)))


def prediction_error_from_variance(
    residual_norms: Numbers, ridge: SupportsFloat, query_energies: Numbers, query_diagonals: Numbers
) -> Array:
    """Return sqrt(e v/(k(x, x) l)) norm(r), e = k(x)'A^-1 k(x) and v = k(x, x) - e the posterior variance.

    Bounds abs(f(x) - f*(x)) under the condition of `prediction_error_from_diagonal`, and is never above it
    nor above `prediction_error_from_energy`: in the eigenbasis of K, l norm(A^-1 k(x))^2 averages h (1 - h)
    over h = s/(s + l), which is concave. Attained at every e when K has one eigenvalue. It needs e itself,
    not an upper bound; where v is lost in the round-off of e, use `prediction_error_from_diagonal`.

    Raises:
        InputError: A query energy above its diagonal, which no positive semidefinite kernel has.

    Example:
        >>> prediction_error_from_variance(3.0, 0.25, [0.5, 0.1], [1.0, 1.0]).round(12).tolist()
        [3.0, 1.8]
    """
    energies = as_norms(query_energies, "query_energies")
    diagonals = as_norms(query_diagonals, "query_diagonals")
    if energies.shape != diagonals.shape:
        raise ShapeError(
            f"query_energies has shape {energies.shape} and query_diagonals {diagonals.shape}: "
            "give one of each per query."
        )
    if (energies > diagonals).any():
        where = int(np.argmax(energies - diagonals))
        raise InputError(
            f"query_energies exceeds query_diagonals at query {where}; k(x)'A^-1 k(x) <= k(x, x) was expected: "
            "if that is round-off, use prediction_error_from_diagonal; if not, the kernel is not one."
        )
    kept = np.divide(energies, diagonals, out=np.zeros_like(energies), where=diagonals > 0)
    residuals = as_norms(residual_norms, "residual_norms")
    return outer(np.sqrt(energies) * np.sqrt(1.0 - kept), residuals, 1.0 / math.sqrt(as_ridge(ridge)))
