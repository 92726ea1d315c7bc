"""What an inexact matrix-vector product does to conjugate gradients [SimonciniSzyld2003]."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np

from ridgeformer.bounds._inputs import Array, Numbers, as_array, as_norms, nonnegative
from ridgeformer.core.errors import InputError, ShapeError

__all__ = ["inexact_cg_residual_bound", "residual_gap_bound"]


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
