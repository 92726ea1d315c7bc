"""What every estimator starts from: the system in range, the right-hand sides, and a Nystrom sketch of K."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients, MixedConjugateGradients
from ridgeformer.core.checks import as_matrix, as_query, as_targets, positive, whole
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.estimators.nystrom_resolvent import NystromResolvent
from ridgeformer.influence.influence import Influence
from ridgeformer.kernels import Kernel
from ridgeformer.solving import Nystrom, RidgeSystem, Solution, solve
from ridgeformer.solving.solve import scaled_system

__all__ = ["Setting", "as_confidence", "prepare"]

SMALL = 5000
"""Up to so many rows a solve takes no time worth saving."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A problem, checked, with K sketched once. Nothing here is larger than n times the rank.

    Attributes:
        system: A = K + ridge I, in a range the precision holds.
        y: targets, (n, outputs).
        cross: k(x_i, x) for every query, (n, q).
        vector: whether the targets were a vector.
        sketch: the approximate inverse, never below R.
        seed: of everything random.
    """

    system: RidgeSystem
    y: Tensor = field(repr=False)
    cross: Tensor = field(repr=False)
    vector: bool
    sketch: NystromResolvent
    seed: int

    def solve(self, columns: Tensor, tol: float | None) -> Solution:
        """Solve A v = c for every column by preconditioned conjugate gradients.

        Up to `SMALL` rows the preconditioner is the sketch at hand. Above, K is worth holding in a lower precision
        and a preconditioner of its own is worth its price; both need more than O(n rank) memory where there is some.
        """
        system, sketch = self.system, self.sketch.factor
        small = system.n <= SMALL
        algorithm = ConjugateGradients(preconditioner=sketch) if small else MixedConjugateGradients()
        return solve(system.kernel, system.X, columns, system.ridge, algorithm=algorithm, tol=tol, seed=self.seed)

    def error(self, solution: Solution) -> Tensor:
        """Return how far each entry of a solution can be from exact, (n, columns).

        |(R r)_i| <= sqrt(R_ii r'R r) <= sqrt(R_ii / ridge) |r| for the residual r, and R_ii is below the sketch's.
        """
        residual = (solution.residual_norm + solution.roundoff).to(self.y)
        return (self.sketch.diagonal / self.system.ridge).sqrt()[:, None] * residual[None, :]

    def influence(self, alpha: Tensor, weights: Tensor, diagonal: Tensor, **errors: Tensor | None) -> Influence:
        """Return the influences made of the three arrays."""
        predictions = self.cross.T @ alpha
        return Influence(
            alpha,
            weights,
            diagonal,
            predictions,
            self.system.ridge,
            vector=self.vector,
            **errors,
        )


def prepare(kernel: Any, X: Any, y: Any, Xq: Any, ridge: Any, rank: Any, seed: Any) -> Setting:
    """Check the arguments and sketch K: `rank` products with K, in O(n rank) memory."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel is {kernel!r}; a kernel object was expected, such as Exponential(temperature=1.0).")
    X = as_matrix(X, "X").detach()
    y = as_targets(y, X).detach()
    Xq = as_query(Xq, X).detach()
    seed = whole(seed, "seed", 0)
    builder = Nystrom(None if rank is None else whole(rank, "rank", 1))
    with torch.no_grad():
        system, _ = scaled_system(kernel, X, positive(ridge, "ridge", "without it the system may be singular"))
        factor = builder.factor(system, torch_generator(seed, "sketch"))
        cross = system.kernel.dense(X, Xq)
        columns = y.reshape(len(y), -1).to(X.dtype)
    return Setting(system, columns, cross, y.ndim == 1, NystromResolvent(system, factor), seed)


def as_confidence(value: Any) -> float:
    """Return a probability strictly between 0 and 1.

    Example:
        >>> as_confidence(0.9)
        0.9
    """
    if not isinstance(value, float) or not 0 < value < 1:
        raise InputError(f"confidence is {value!r}; a number between 0 and 1 was expected.")
    return value
