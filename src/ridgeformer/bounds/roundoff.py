"""How far a residual can be from the true one: evaluated in float64, or carried along by inexact products.

What an inexact matrix-vector product does to conjugate gradients is in [SimonciniSzyld2003].
"""

from __future__ import annotations

from typing import SupportsFloat, SupportsIndex

import numpy as np

from ridgeformer.bounds._inputs import Array, Numbers, as_array, as_count, as_norms, as_ridge, nonnegative
from ridgeformer.core.errors import InputError, ShapeError

__all__ = [
    "UNIT_ROUNDOFF",
    "inexact_cg_residual_bound",
    "residual_gap_bound",
    "residual_norm_bound",
    "residual_roundoff",
    "residual_roundoff_from_sums",
    "rounding_gamma",
]

UNIT_ROUNDOFF = 2.0**-53
"""The relative error of one float64 operation, rounding to nearest."""


def rounding_gamma(count: SupportsIndex) -> float:
    """Return gamma_m = m u/(1 - m u), u = 2^-53: the relative error of m roundings one after the other.

    A product of m factors (1 + d_i)^(+-1) with abs(d_i) <= u differs from 1 by at most gamma_m [Higham2002].
    The `count` m is below 2^53.

    Example:
        >>> rounding_gamma(0), rounding_gamma(2**52)
        (0.0, 1.0)
    """
    count = as_count(count, "count")
    if count >= 2**53:
        raise InputError(f"count is {count}; fewer than 2^53 roundings were expected: no float64 digit would be left.")
    return count * UNIT_ROUNDOFF / (1.0 - count * UNIT_ROUNDOFF)


def residual_roundoff(
    diagonal: Numbers, alpha: Numbers, targets_norm: Numbers, ridge: SupportsFloat, *, extra: SupportsIndex = 0
) -> Array:
    """Bound norm(fl(r) - r) for r = y - K alpha - l alpha evaluated in float64, per column.

    The bound is gamma_{n+3+extra} (sqrt(tr K) sum_j sqrt(K_jj) abs(alpha_j) + l norm(alpha) + norm(y)). Row i is a
    sum of n + 2 terms K_ij alpha_j, l alpha_i and y_i. In whatever order it is added up, with or without
    fused operations, with the ridge added to K_ii first or apart, no term passes through more than n + 2
    roundings, so the row errs by at most gamma_{n+2} times the sum of the terms' absolute values. There
    abs(K_ij) <= sqrt(K_ii K_jj), and the 2-norm over rows obeys the triangle inequality.

    K means the float64 entries as they were evaluated: the distance from them to the exact kernel is not
    counted. The step from n + 2 to n + 3 pays for entries that exceed sqrt(K_ii K_jj) by round-off, up to a
    factor 1 + 1/(n + 2), and the result is rounded up for its own evaluation. Not covered: underflow, lower
    precision, and products that are not sums of n terms (Strassen).

    Args:
        diagonal: K_ii, (n,).
        alpha: The coefficients, (n,) or (n, outputs).
        targets_norm: norm(y), one number or (outputs,).
        ridge: The regularisation l > 0.
        extra: Further roundings a term passes through, such as p where K alpha is evaluated as Phi (Phi' alpha)
            with p features.

    Returns:
        One bound, shape (), or one per output, (outputs,).

    Example:
        >>> bound = residual_roundoff([1.0, 1.0], alpha=[0.5, -0.5], targets_norm=1.0, ridge=0.1)
        >>> f"{bound:.2e}"
        '1.38e-15'
    """
    diagonal, alpha = as_norms(diagonal, "diagonal"), as_array(alpha, "alpha")
    targets, ridge = as_norms(targets_norm, "targets_norm"), as_ridge(ridge)
    if diagonal.ndim != 1 or alpha.ndim not in (1, 2) or len(alpha) != len(diagonal):
        raise ShapeError(
            f"diagonal has shape {diagonal.shape} and alpha {alpha.shape}; (n,) and (n,) or (n, outputs) were "
            "expected: give one diagonal entry of K per row of alpha."
        )
    if targets.shape != alpha.shape[1:]:
        raise ShapeError(
            f"targets_norm has shape {targets.shape} and alpha has outputs of shape {alpha.shape[1:]}: "
            "give the norm of each target column."
        )
    with np.errstate(over="ignore"):  # a bound that float64 cannot hold is infinite
        trace, weighted = diagonal.sum(), np.sqrt(diagonal) @ np.abs(alpha)
        norms = np.linalg.norm(alpha, axis=0)
    return residual_roundoff_from_sums(len(diagonal), trace, weighted, norms, targets, ridge, extra=extra)


def residual_roundoff_from_sums(
    rows: SupportsIndex,
    trace: Numbers,
    weighted: Numbers,
    alpha_norm: Numbers,
    targets_norm: Numbers,
    ridge: SupportsFloat,
    *,
    extra: SupportsIndex = 0,
) -> Array:
    """Return `residual_roundoff` from its sums, where copies of all coefficients would not fit into memory.

    Sums that float64 cannot hold may be infinite, and so is the bound then.

    Args:
        rows: n.
        trace: tr K, the sum of K_ii.
        weighted: sum_j sqrt(K_jj) abs(alpha_j), one number or (outputs,); so are both norms.
        alpha_norm: norm(alpha).
        targets_norm: norm(y).
        ridge: The regularisation l > 0.
        extra: Further roundings a term passes through.

    Example:
        >>> from_sums = residual_roundoff_from_sums(2, 2.0, 1.0, 0.5**0.5, 1.0, ridge=0.1)
        >>> bool(from_sums == residual_roundoff([1.0, 1.0], [0.5, -0.5], targets_norm=1.0, ridge=0.1))
        True
    """
    total, weighted, alpha_norm, targets_norm = sums = [
        np.asarray(one, dtype=np.float64) for one in (trace, weighted, alpha_norm, targets_norm)
    ]
    if not all((one >= 0).all() for one in sums) or len({one.shape for one in sums[1:]}) > 1 or total.ndim:
        raise InputError(
            f"trace is {total}, weighted {weighted}, alpha_norm {alpha_norm} and targets_norm {targets_norm}; one "
            "number >= 0 was expected for the trace, and one per output for each of the others."
        )
    n = as_count(rows, "rows")
    gamma = rounding_gamma(n + 3 + as_count(extra, "extra"))
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.sqrt(total) * weighted + as_ridge(ridge) * alpha_norm + targets_norm
        bound = gamma * (1.0 + rounding_gamma(2 * n + 16)) * size
    return np.asarray(np.where(np.isnan(bound), np.inf, bound))  # 0 times an infinite sum


def residual_norm_bound(residual: Numbers, roundoff: Numbers) -> Array:
    """Bound norm(r) of the true residual from the evaluated one and its round-off, per column.

    It is norm(fl(r)) + `roundoff` for the evaluated `residual`, (n,) or (n, outputs), rounded up for the evaluation of
    the norm itself; the bounds of `posterior` take it from there.

    Example:
        >>> float(residual_norm_bound([3e-8, 4e-8], roundoff=1e-8).round(15))
        6e-08
    """
    residual, roundoff = as_array(residual, "residual"), as_norms(roundoff, "roundoff")
    if residual.ndim not in (1, 2) or roundoff.shape != residual.shape[1:]:
        raise ShapeError(
            f"residual has shape {residual.shape} and roundoff {roundoff.shape}; (n,) with one number or "
            "(n, outputs) with (outputs,) was expected."
        )
    spare = 1.0 + rounding_gamma(len(residual) + 4)
    return np.asarray((np.linalg.norm(residual, axis=0) + roundoff) * spare)


def residual_gap_bound(
    eps: SupportsFloat, operator_norm: SupportsFloat, step_lengths: Numbers, direction_norms: Numbers
) -> Array:
    """Return eps norm(A) sum_{j<t} abs(gamma_j) norm(p_j): how far the recursive residual can drift (B3).

    Step j of the iteration takes q_j = A p_j + e_j with norm(e_j) <= eps norm(A) norm(p_j), then
    alpha += gamma_j p_j and r -= gamma_j q_j. Whatever the gamma_j and p_j are, the true residual is
    b - A alpha_t = r_t + sum_{j<t} gamma_j e_j exactly, and the bound is the triangle inequality. Attained
    where all gamma_j e_j point the same way; 0 before the first step. Round-off of the updates themselves is
    not counted. Step lengths gamma_j and direction norms norm(p_j) have the shape (steps,) or (steps, outputs), and
    there is one bound per output.

    Example:
        >>> float(residual_gap_bound(0.5, 2.0, step_lengths=[1.0, -2.0], direction_norms=[3.0, 1.0]))
        5.0
    """
    lengths = as_array(step_lengths, "step_lengths", least=0)
    norms = as_array(direction_norms, "direction_norms", least=0)
    if lengths.ndim not in (1, 2):
        raise ShapeError(f"step_lengths has shape {lengths.shape}; (steps,) or (steps, outputs) was expected.")
    if lengths.shape != norms.shape:
        raise ShapeError(
            f"step_lengths has shape {lengths.shape} and direction_norms {norms.shape}: "
            "give one direction norm for each step length."
        )
    if (norms < 0).any():
        raise InputError(f"direction_norms holds {norms.min():g}; numbers >= 0 were expected: pass norms.")
    travelled = np.asarray((np.abs(lengths) * norms).sum(axis=0))
    return np.asarray(nonnegative(eps, "eps") * nonnegative(operator_norm, "operator_norm") * travelled)


def inexact_cg_residual_bound(
    recursive_residual_norms: Numbers,
    eps: SupportsFloat,
    operator_norm: SupportsFloat,
    step_lengths: Numbers,
    direction_norms: Numbers,
) -> Array:
    """Bound the true residual norm(b - A alpha_t) from quantities the iteration has at hand (B3).

    It is norm(r_t), of the residual the iteration carries, plus `residual_gap_bound`, one per output. Errors of the
    solution follow from it by the bounds of `posterior`; the floor they reach grows like kappa eps, so
    products that inexact are of use only while kappa eps is well below 1.

    Example:
        >>> float(inexact_cg_residual_bound(0.25, 0.5, 2.0, [1.0, -2.0], [3.0, 1.0]))
        5.25
    """
    carried = as_norms(recursive_residual_norms, "recursive_residual_norms")
    gap = residual_gap_bound(eps, operator_norm, step_lengths, direction_norms)
    if carried.shape != gap.shape:
        raise ShapeError(
            f"recursive_residual_norms has shape {carried.shape} and the steps are for outputs of shape "
            f"{gap.shape}: give one residual norm per output."
        )
    return np.asarray(carried + gap)
