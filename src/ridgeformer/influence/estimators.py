"""Influence where n x n matrices do not fit: estimators, each with its own error bounds.

A new one is a function that returns an `Influence` with errors, and an entry in `ESTIMATORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor
from torch.nn.functional import one_hot

from ridgeformer.core.checks import ArrayLike, whole
from ridgeformer.core.errors import InputError
from ridgeformer.influence.exact import Influence, as_problem, as_rows
from ridgeformer.kernels import Kernel
from ridgeformer.solving.sketched import SketchedSystem, sketch_kernel

__all__ = ["ESTIMATORS", "nystrom_influence", "pcg_influence", "stochastic_influence"]


@dataclass(frozen=True, eq=False)
class SketchedProblem(SketchedSystem):
    """A regression and its queries, checked, with K sketched once.

    `cross` holds k(x_i, x) for every query, (n, q).
    """

    y: Tensor = field(repr=False)
    cross: Tensor = field(repr=False)
    vector: bool

    def influence(self, alpha: Tensor, weights: Tensor, diagonal: Tensor, **errors: Tensor | None) -> Influence:
        """Return the influences made of the three arrays."""
        predictions, ridge = self.cross.T @ alpha, self.system.ridge
        return Influence(alpha, weights, diagonal, predictions, ridge, vector=self.vector, **errors)


def sketch_problem(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, ridge: float, rank: int | None, seed: int
) -> SketchedProblem:
    """Check the arguments and sketch K: `rank` products with K, in O(n rank) memory."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel is {kernel!r}; a kernel object was expected, such as Exponential(temperature=1.0).")
    vector = np.ndim(y) == 1
    X, y, Xq = as_problem(X, y, Xq)
    found = sketch_kernel(kernel, X, ridge, rank, seed)
    with torch.no_grad():
        cross = found.system.kernel.dense(X, Xq)
    return SketchedProblem(found.system, found.sketch, found.seed, y, cross, vector)


def _check_confidence(value: object) -> None:
    if not isinstance(value, float) or not 0 < value < 1:
        raise InputError(f"confidence is {value!r}; a number between 0 and 1 was expected.")


@torch.no_grad()
def nystrom_influence(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Xq: ArrayLike,
    ridge: float,
    *,
    rank: int | None = None,
    confidence: float | None = 0.95,
    seed: int = 0,
) -> Influence:
    """Estimate every influence with K replaced by its Nystrom approximation and a flat tail, in O(n rank) memory.

    The errors come from the residual r with the true K, whose effect is (R r)_i. With a confidence they suppose
    that r points nowhere in particular: (R r)_i is then about sqrt(R_ii r'R r / (n - rank)) times a normal number.
    With None they hold always, beyond round-off, and are about sqrt(n) larger. The bounds on R_ii always hold.

    Nothing need have been fitted: `kernel`, `X`, `y` and `ridge` are those of `solve`. The `rank` of the sketch is by
    default 2 sqrt(n); the `confidence` is that of each error of alpha and of the weights.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> found = nystrom_influence(DotProduct(), [[1.0], [2.0], [3.0]], [1.0, 0.0, 1.0], [[1.0]], 1.0, rank=1)
        >>> found.leave_one_out[:, 0], bool(found.leave_one_out_error.max() < 1e-6)
        (tensor([ 0.0524, -0.0970,  0.1000], dtype=torch.float64), True)
    """
    sketched = sketch_problem(kernel, X, y, Xq, ridge, rank, seed)
    alpha, weights = sketched.sketch.apply_with_tail(sketched.y), sketched.sketch.apply_with_tail(sketched.cross)
    if confidence is not None:
        _check_confidence(confidence)
    least = sketched.sketch.least_diagonal
    return sketched.influence(
        alpha,
        weights,
        least,  # the bound of second order is the better estimate
        alpha_error=_residual_error(sketched, alpha, sketched.y, confidence),
        weights_error=_residual_error(sketched, weights, sketched.cross, confidence),
        diagonal_error=sketched.sketch.diagonal - least,
        diagonal_least=least,
    )


def _residual_error(sketched: SketchedProblem, solution: Tensor, columns: Tensor, confidence: float | None) -> Tensor:
    """Return how far solution is from R columns: proved, sqrt(Q_ii r'Q r) with Q >= R; or likely, with the tail."""
    sketch, residual = sketched.sketch, sketched.system.residual(solution, columns).to(columns)
    if confidence is None:
        energy = (residual * sketch.apply(residual)).sum(0)
        return (sketch.diagonal[:, None] * energy[None, :]).sqrt()
    left_out = max(1, sketched.system.n - len(sketch.factor.values))
    energy = (residual * sketch.apply_with_tail(residual)).sum(0) / left_out
    return float(norm.ppf((1 + confidence) / 2)) * (sketch.diagonal[:, None] * energy[None, :]).sqrt()


COLUMNS = 256
"""Columns of the identity solved for at once."""


@torch.no_grad()
def pcg_influence(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, ridge: float, *,
    rows: ArrayLike | None = None, rank: int | None = None, tol: float | None = None, seed: int = 0,
) -> Influence:  # fmt: skip
    """Compute influences by solves with a Nystrom preconditioner, in O(n (rank + queries)) memory.

    R_ii takes one solve for each training point: name the `rows` of interest, or take `stochastic_influence` for
    all. Every error holds always: it is that of the residual, measured in float64.

    Nothing need have been fitted: `kernel`, `X`, `y`, `ridge` and `tol`, the relative residual of every solve, are
    those of `solve`. The `rank` of the preconditioner is by default 2 sqrt(n).

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> found = pcg_influence(Exponential(1.0), [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0], [[1.0]], 0.1, rows=[1])
        >>> found.leave_one_out.shape, bool(found.leave_one_out_error.max() < 1e-6)
        (torch.Size([1, 1]), True)
    """
    sketched = sketch_problem(kernel, X, y, Xq, ridge, rank, seed)
    n, outputs = sketched.y.shape
    chosen = torch.arange(n, device=sketched.y.device) if rows is None else as_rows(rows, n, sketched.y.device)
    # the first block of the identity shares its products with the targets and the queries
    shared, entries, errors = torch.cat([sketched.y, sketched.cross], dim=1), [], []
    for block, some in enumerate(chosen.split(COLUMNS)):
        unit = one_hot(some, n).T.to(shared)
        fit = sketched.solve(unit if block else torch.cat([shared, unit], dim=1), tol)
        columns, error = fit.alpha, sketched.error(fit)
        if not block:
            solved, solved_error = columns[:, : shared.shape[1]], error[:, : shared.shape[1]]
        entries.append(columns[some, -len(some) :].diagonal())
        errors.append(error[some, -len(some) :].diagonal())
    found = sketched.influence(solved[:, :outputs], solved[:, outputs:], torch.cat(entries))
    return replace(
        found,
        alpha=found.alpha[chosen],
        weights=found.weights[chosen],
        rows=None if rows is None else chosen,
        alpha_error=solved_error[chosen, :outputs],
        weights_error=solved_error[chosen, outputs:],
        diagonal_error=torch.cat(errors),
    )


@torch.no_grad()
def stochastic_influence(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, ridge: float, *,
    probes: int = 64, confidence: float = 0.95, rank: int | None = None, tol: float | None = None, seed: int = 0,
) -> Influence:  # fmt: skip
    """Estimate every influence of every training point, in O(n (rank + queries + probes)) memory.

    One block of preconditioned conjugate gradients solves for targets, queries and probes together. The diagonal
    is Hutchinson's with the sketch taken out: R_ii = Q_ii - mean of z_i ((Q - R) z)_i over random signs z, where
    Q is the inverse with K sketched, so only what the sketch misses is noisy. It is kept within its proved bounds.

    The error of the diagonal holds for each point with the given confidence (Student's t over the probes, and the
    residuals of the solves); those of alpha and the weights hold always.

    Nothing need have been fitted: `kernel`, `X`, `y`, `ridge` and `tol`, the relative residual of the solves, are
    those of `solve`. The `rank` of sketch and preconditioner is by default 2 sqrt(n); there are at least 2 `probes`.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> found = stochastic_influence(Exponential(1.0), [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0], [[1.0]], 0.1)
        >>> bool(found.leave_one_out_error.max() < 1e-6)  # rank 3 holds all of K: nothing is left to chance
        True
    """
    probes = whole(probes, "probes", 2)
    _check_confidence(confidence)
    sketched = sketch_problem(kernel, X, y, Xq, ridge, rank, seed)
    outputs = sketched.y.shape[1]
    found = sketched.estimate(torch.cat([sketched.y, sketched.cross], dim=1), probes, confidence, tol)
    return sketched.influence(
        found.solution[:, :outputs],
        found.solution[:, outputs:],
        found.diagonal,
        alpha_error=found.error[:, :outputs],
        weights_error=found.error[:, outputs:],
        diagonal_error=found.diagonal_error,
        diagonal_least=found.diagonal_least,
    )


ESTIMATORS: dict[str, Callable[..., Influence]] = {
    "nystrom": nystrom_influence,
    "pcg": pcg_influence,
    "stochastic": stochastic_influence,
}
