"""Solves and diagonals of (K + ridge I)^-1 where n x n matrices do not fit: K sketched once, errors known."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients, MixedConjugateGradients
from ridgeformer.core.checks import positive, whole
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel
from ridgeformer.solving.fit import Fit
from ridgeformer.solving.preconditioners import Nystrom, NystromFactor
from ridgeformer.solving.solver import solve
from ridgeformer.solving.system import RidgeSystem, scaled_system

__all__ = ["Estimated", "NystromResolvent", "SketchedSystem", "sketch_kernel"]

GROUPS = 10
"""Groups of probes that are left out in turn."""

SMALL = 5000
"""Up to this many rows the sketch at hand is the preconditioner."""


@dataclass(frozen=True, eq=False)
class NystromResolvent:
    """Q = (U diag(values) U' + ridge I)^-1 = (I - U S U') / ridge, with S = values / (values + ridge).

    A Nystrom approximation is never above K, so Q is never below R, beyond round-off.
    """

    system: RidgeSystem
    factor: NystromFactor

    @cached_property
    def shrinkage(self) -> Float[Tensor, " r"]:
        """The diagonal of S."""
        return self.factor.values / (self.factor.values + self.system.ridge)

    def apply(self, V: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        """Return Q V."""
        U = self.factor.U
        return (V - U @ (self.shrinkage[:, None] * (U.T @ V))) / self.system.ridge

    @cached_property
    def tail(self) -> float:
        """The mean eigenvalue of what the sketch leaves out, tr(K - U diag(values) U') / (n - r)."""
        n, rank = self.factor.U.shape
        left_out = float(self.system.diagonal.double().sum() - self.factor.values.double().sum())
        return max(left_out, 0.0) / (n - rank) if n > rank else 0.0

    def apply_with_tail(self, V: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        """Return (U diag(values) U' + tail (I - U U') + ridge I)^-1 V: nearer to R than Q, not above it."""
        U, ridge = self.factor.U, self.system.ridge
        inside = 1 / (self.factor.values + ridge) - 1 / (self.tail + ridge)
        return V / (self.tail + ridge) + U @ (inside[:, None] * (U.T @ V))

    @cached_property
    def diagonal(self) -> Float[Tensor, " n"]:
        """Q_ii, which R_ii does not exceed."""
        return (1 - self.factor.U.square() @ self.shrinkage) / self.system.ridge

    @cached_property
    def least_diagonal(self) -> Float[Tensor, " n"]:
        """What R_ii is not below: Q_ii^2 / (Q A Q)_ii, at the price of as many products with K as the rank.

        R_ii is the largest v_i^2 / v'Av over all v, and v = Q e_i is nearly the best; v = e_i gives 1 / A_ii.
        The gap to R_ii is of second order in the error of the sketch, that of Q_ii of first order.
        """
        U, S, ridge = self.factor.U, self.shrinkage, self.system.ridge
        KU, US = self.system.apply_kernel(U), U * S
        through_kernel = self.system.diagonal - 2 * (KU * US).sum(1) + ((US @ (U.T @ KU)) * US).sum(1)
        through_ridge = ridge * (1 - 2 * (U * US).sum(1) + US.square().sum(1))
        best = self.diagonal.square() * ridge**2 / (through_kernel + through_ridge)
        return best.maximum(1 / (self.system.diagonal + ridge)).minimum(self.diagonal)


@dataclass(frozen=True, eq=False)
class Estimated:
    """R applied to some columns and the diagonal of R, with errors.

    Attributes:
        solution: R times the columns.
        error: how far each entry of it can be off, always.
        diagonal: R_ii.
        diagonal_error: how far each of those is off, at the confidence asked for.
        diagonal_least: what R_ii is proved not to be below.
        without_group: R_ii without each of some groups of probes, from which the error of anything made of the whole
            diagonal can be estimated.
    """

    solution: Float[Tensor, "n c"]
    error: Float[Tensor, "n c"]
    diagonal: Float[Tensor, " n"]
    diagonal_error: Float[Tensor, " n"]
    diagonal_least: Float[Tensor, " n"]
    without_group: Float[Tensor, "g n"]


@dataclass(frozen=True, eq=False)
class SketchedSystem:
    """A system with K sketched once. Nothing here is larger than n times the rank.

    `sketch` is the approximate inverse, never below R.
    """

    system: RidgeSystem
    sketch: NystromResolvent = field(repr=False)
    seed: int

    def solve(self, columns: Tensor, tol: float | None) -> Fit:
        """Solve A v = c for every column by preconditioned conjugate gradients.

        Up to `SMALL` rows the preconditioner is the sketch at hand. Above, K is worth holding in a lower precision
        and a preconditioner of its own is worth its price; both need more than O(n rank) memory where there is some.
        """
        system, sketch = self.system, self.sketch.factor
        small = system.n <= SMALL
        algorithm = ConjugateGradients(preconditioner=sketch) if small else MixedConjugateGradients()
        return solve(system.kernel, system.X, columns, system.ridge, algorithm=algorithm, tol=tol, seed=self.seed)

    def error(self, fit: Fit) -> Tensor:
        """Return how far each entry of a fit can be from exact, (n, columns).

        |(R r)_i| <= sqrt(R_ii r'R r) <= sqrt(R_ii / ridge) |r| for the residual r, and R_ii is below the sketch's.
        """
        residual = (fit.residual_norm + fit.roundoff).to(self.sketch.diagonal)
        return (self.sketch.diagonal / self.system.ridge).sqrt()[:, None] * residual[None, :]

    def estimate(self, columns: Float[Tensor, "n c"], probes: int, confidence: float, tol: float | None) -> Estimated:
        """Solve for columns and random probes together, and estimate the diagonal of R from the probes.

        The diagonal is Hutchinson's with the sketch taken out: R_ii = Q_ii - mean of z_i ((Q - R) z)_i over random
        signs z, where Q is the inverse with K sketched, so only what the sketch misses is noisy. It is kept within its
        proved bounds. Its error is Student's t over the probes, plus the residuals of the solves.
        """
        from scipy.stats import t as student

        draw = torch.randint(2, (len(columns), probes), generator=torch_generator(self.seed, "probes"))
        Z = (2 * draw - 1).to(columns)
        fit = self.solve(torch.cat([columns, Z], dim=1), tol)
        sizes = [columns.shape[1], probes]
        solution, solved = fit.alpha.split(sizes, dim=1)
        error, solve_error = self.error(fit).split(sizes, dim=1)
        quantile = float(student.ppf((1 + confidence) / 2, probes - 1))
        most, least = self.sketch.diagonal, self.sketch.least_diagonal
        samples = Z * (self.sketch.apply(Z) - solved)
        spread = quantile * samples.std(1) / sqrt(probes) + solve_error.mean(1)
        diagonal = (most - samples.mean(1)).clamp(least, most)
        spread = spread.minimum((most - diagonal).maximum(diagonal - least))
        groups = samples.tensor_split(min(GROUPS, probes), dim=1)
        rest = [(samples.sum(1) - group.sum(1)) / (probes - group.shape[1]) for group in groups]
        without = torch.stack([(most - one).clamp(least, most) for one in rest])
        return Estimated(solution, error, diagonal, spread, least, without)


def sketch_kernel(kernel: Kernel, X: Float[Tensor, "n d"], ridge: float, rank: int | None, seed: int) -> SketchedSystem:
    """Sketch K: `rank` products with it, in O(n rank) memory; by default the rank is 2 sqrt(n)."""
    seed = whole(seed, "seed", 0)
    builder = Nystrom(None if rank is None else whole(rank, "rank", 1))
    with torch.no_grad():
        system, _ = scaled_system(kernel, X, positive(ridge, "ridge", "without it the system may be singular"))
        factor = builder.factor(system, torch_generator(seed, "sketch"))
    return SketchedSystem(system, NystromResolvent(system, factor), seed)
