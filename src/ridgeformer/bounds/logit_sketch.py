"""Softmax attention of small width: the width carries logits, and the kernel is their exponential."""

from __future__ import annotations

import numpy as np

from ridgeformer.bounds._inputs import Array, Numbers, as_array
from ridgeformer.core.errors import LogitRangeError, NotPositiveSemidefiniteError, ShapeError

__all__ = ["gaussian_logit_sketch_bound", "gaussian_logit_sketch_floor", "logit_sketch_bound", "logit_sketch_floor"]

_LARGEST_LOGIT = 700.0  # exp(709.8) is the largest float64; the rest is room for sums over rows


def logit_sketch_bound(logits: Numbers, sketched_logits: Numbers) -> float:
    """Bound norm(Kt - Kth) for Kt = exp[L] and Kth = exp[Lh], elementwise, from both of its factors (W6).

    Holds where Lh and E = L - Lh are positive semidefinite, as they are when rows X are projected:
    L = X X'/tau, Lh = X P X'/tau. Then Kt - Kth = Kth o (exp[E] - 11') is a product of two positive
    semidefinite matrices, so its norm is at most the largest diagonal entry of either times the norm of
    the other; the smaller of the two is returned. The rank of Lh does not limit the rank of Kth, so no
    bound in eigenvalues of Kt past the width is possible. `resolvent_error_bound` takes it from here.

    Args:
        logits: L, (n, n), symmetric.
        sketched_logits: Lh, (n, n), symmetric.

    Raises:
        NotPositiveSemidefiniteError: Lh or L - Lh has an eigenvalue below zero beyond round-off.
        LogitRangeError: A logit above 700, whose exponential leaves float64.

    Example:
        >>> import numpy as np
        >>> X = np.array([[2.0, 0.5], [-1.0, 1.0]])
        >>> round(logit_sketch_bound(X @ X.T, X[:, :1] @ X[:, :1].T), 3)
        93.816
    """
    kernel, growth = _factors(logits, sketched_logits)
    by_kernel_diagonal = np.diagonal(kernel).max() * np.linalg.norm(growth, 2)
    by_growth_diagonal = np.linalg.norm(kernel, 2) * np.diagonal(growth).max()
    return float(min(by_kernel_diagonal, by_growth_diagonal))


def logit_sketch_floor(logits: Numbers, sketched_logits: Numbers) -> float:
    """Return max_i (Kt_ii - Kth_ii), a lower bound on norm(Kt - Kth) (W6).

    Holds whenever the difference is symmetric; `logits` and `sketched_logits` are as for `logit_sketch_bound`, so that
    the two enclose the norm.

    Example:
        >>> import numpy as np
        >>> X = np.array([[2.0, 0.5], [-1.0, 1.0]])
        >>> round(logit_sketch_floor(X @ X.T, X[:, :1] @ X[:, :1].T), 3)
        15.507
    """
    kernel, growth = _factors(logits, sketched_logits)
    return float((np.diagonal(kernel) * np.diagonal(growth)).max())


def gaussian_logit_sketch_bound(logits: Numbers, sketched_logits: Numbers) -> float:
    """Bound norm(K - Kh) for the Gaussian kernels of L and Lh, K_ij = exp(L_ij - L_ii/2 - L_jj/2) (W6).

    Holds where Lh and E = L - Lh are positive semidefinite, as for projected rows. K = Kh o G with the Gaussian kernel
    G of E, so Kh - K = Kh o (11' - G). Kh is positive semidefinite with ones on its diagonal, so the norm is at most
    that of 11' - G; no entry of either is negative, so it is at most norm(Kh) times the largest entry of 11' - G. The
    smaller of the two is returned. The first is attained if the sketch maps all rows to one point. Gaussian kernels
    cannot overflow, so `logits` may be of any size; otherwise they and `sketched_logits` are as for
    `logit_sketch_bound`.

    Example:
        >>> import numpy as np
        >>> X = np.array([[2.0, 0.5], [-1.0, 1.0]])
        >>> round(gaussian_logit_sketch_bound(X @ X.T, X[:, :1] @ X[:, :1].T), 3)
        0.118
    """
    kernel, loss = _gaussian_factors(logits, sketched_logits)
    return float(min(np.linalg.norm(loss, 2), np.linalg.norm(kernel, 2) * loss.max()))


def gaussian_logit_sketch_floor(logits: Numbers, sketched_logits: Numbers) -> float:
    """Return max_ij (Kh_ij - K_ij), a lower bound on the norm that `gaussian_logit_sketch_bound` bounds (W6).

    Of `logits` and `sketched_logits` it asks the same.

    Example:
        >>> import numpy as np
        >>> X = np.array([[2.0, 0.5], [-1.0, 1.0]])
        >>> round(gaussian_logit_sketch_floor(X @ X.T, X[:, :1] @ X[:, :1].T), 4)
        0.0013
    """
    kernel, loss = _gaussian_factors(logits, sketched_logits)
    return float((kernel * loss).max())


def _gaussian_factors(logits: Numbers, sketched_logits: Numbers) -> tuple[Array, Array]:
    """Return Kh and 11' - G, neither of which has a negative entry."""
    kept, lost = _kept_and_lost(logits, sketched_logits)
    distances = [matrix - np.diagonal(matrix)[:, None] / 2 - np.diagonal(matrix) / 2 for matrix in (kept, lost)]
    for one in distances:
        np.fill_diagonal(one, 0.0)
    return np.exp(distances[0].clip(max=0.0)), -np.expm1(distances[1].clip(max=0.0))


def _factors(logits: Numbers, sketched_logits: Numbers) -> tuple[Array, Array]:
    """Return Kth and exp[E] - 11'."""
    largest = as_array(logits, "logits").max(initial=-np.inf)
    if largest > _LARGEST_LOGIT:
        raise LogitRangeError(
            f"logits reach {largest:g} and exp of more than {_LARGEST_LOGIT:g} leaves float64: "
            "raise tau or scale the rows down."
        )
    kept, lost = _kept_and_lost(logits, sketched_logits)
    return np.exp(kept), np.expm1(lost)


def _kept_and_lost(logits: Numbers, sketched_logits: Numbers) -> tuple[Array, Array]:
    """Return Lh and L - Lh, both checked."""
    whole, kept = as_array(logits, "logits"), as_array(sketched_logits, "sketched_logits")
    for name, matrix in (("logits", whole), ("sketched_logits", kept)):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ShapeError(f"{name} has shape {matrix.shape}; a square matrix (n, n) was expected: pass X X'/tau.")
    if whole.shape != kept.shape:
        raise ShapeError(
            f"logits has shape {whole.shape} and sketched_logits {kept.shape}: "
            "sketch the features, not the rows, so that both are (n, n)."
        )
    scale = float(np.abs(whole).max())
    _require_kernel(kept, "sketched_logits", scale)
    _require_kernel(whole - kept, "logits - sketched_logits", scale)
    lost = whole - kept
    np.fill_diagonal(lost, np.diagonal(lost).clip(0.0))
    return kept, lost


def _require_kernel(matrix: Array, name: str, scale: float) -> None:
    allowed = 16.0 * np.finfo(np.float64).eps * len(matrix) * scale
    if np.abs(matrix - matrix.T).max() > allowed:
        raise NotPositiveSemidefiniteError(f"{name} is not symmetric: pass X X'/tau, queries equal to keys.")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -allowed:
        raise NotPositiveSemidefiniteError(
            f"{name} has the eigenvalue {smallest:g}; none below 0 was expected: "
            "project the rows orthogonally, Lh = X P X'/tau with P = P' = P^2."
        )
