"""The ridge problem that a run should have solved, in float64, with its direct solution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import torch
from torch import Tensor

from ridgeformer.compiler.compile import assemble
from ridgeformer.compiler.specification import Specification, digest
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.core.errors import InputError
from ridgeformer.solving import RidgeSystem
from ridgeformer.solving.direct import solve_directly

__all__ = ["ReferenceProblem", "all_features", "as_specified", "carried_features", "pose"]


@dataclass(frozen=True, eq=False)
class ReferenceProblem:
    """(K + ridge I) alpha = y on float64 rows, its queries, and everything a bound asks of it.

    Attributes:
        system: The rows with their kernel and ridge. For softmax attention both are e^-sink times the given
            ones, as in the network: predictions are the same, and alpha is e^sink times larger.
        y: Targets, (supports, outputs).
        queries: Query rows.
    """

    system: RidgeSystem
    y: Tensor
    queries: Tensor

    @property
    def ridge(self) -> float:
        """The ridge, scaled like the kernel."""
        return self.system.ridge

    @cached_property
    def A(self) -> Tensor:  # noqa: N802
        """K + ridge I."""
        return self.K + self.ridge * torch.eye(self.system.n, dtype=torch.float64)

    @property
    def K(self) -> Tensor:  # noqa: N802
        """The kernel matrix."""
        return self.system.matrix

    @cached_property
    def cross(self) -> Tensor:
        """k(x) of every query, (queries, supports)."""
        return self.system.kernel.dense(self.queries, self.system.X)

    @cached_property
    def own(self) -> Tensor:
        """k(x, x) of every query."""
        return self.system.kernel.diagonal(self.queries).clamp_min(0)

    @cached_property
    def alpha(self) -> Tensor:
        """The direct solution, (supports, outputs)."""
        return solve_directly(self.system, self.y)[0]

    @cached_property
    def f(self) -> Tensor:
        """Its predictions, (queries, outputs)."""
        return self.cross @ self.alpha

    @cached_property
    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues of A, ascending, none below the ridge, and its eigenvectors: A may be singular to rounding."""
        values, Q = torch.linalg.eigh(self.K)
        return values.clamp_min(0) + self.ridge, Q

    @property
    def eigenvalues(self) -> Tensor:
        """Of A, ascending; none is below the ridge."""
        return self.spectrum[0]

    @property
    def kappa(self) -> float:
        """The condition number of A."""
        return float(self.eigenvalues[-1] / self.eigenvalues[0])

    @cached_property
    def energies(self) -> Tensor:
        """sqrt(k(x)'A^-1 k(x)) of every query."""
        values, Q = self.spectrum
        return ((self.cross @ Q).square() / values).sum(1).sqrt()

    @cached_property
    def solution_norms(self) -> Tensor:
        """norm(alpha*)_A of every output."""
        return self.a_norm(self.alpha)

    def a_norm(self, v: Tensor) -> Tensor:
        """Return sqrt(v'Av) of every column, (..., outputs)."""
        return (v * (self.A @ v)).sum(-2).clamp_min(0).sqrt()

    def in_precision(self, dtype: torch.dtype, order: Tensor) -> ReferenceProblem:
        """Return the same problem with its supports in another order, computed in another precision."""
        system = RidgeSystem(self.system.kernel, self.system.X[order].to(dtype), self.ridge)
        return ReferenceProblem(system, self.y[order].to(dtype), self.queries)


def pose(spec: Specification, embedding: Tensor, X: Tensor, y: Tensor, Xq: Tensor) -> ReferenceProblem:
    """Return the problem of one task for features that `embedding` (features, carried) makes of the rows.

    Raises:
        InputError: rows so long that float64 does not hold the squares of kernel entries, which are in every bound.
    """
    rows, queries = spec.attention.centre(X @ embedding, Xq @ embedding)
    largest = max(float(spec.attention.scaled_kernel.diagonal(part).max()) for part in (rows, queries))
    if not len(rows) * largest * largest < inf:
        raise InputError(
            f"kernel entries reach {largest:.3g}, and float64 does not hold their squares: scale the rows down."
        )
    system = RidgeSystem(spec.attention.scaled_kernel, rows, spec.ridge * spec.attention.scale)
    return ReferenceProblem(system, y, queries)


def carried_features(model: CompiledTransformer) -> Tensor:
    """Return what the specification multiplies the features of a row by, float64, (features, carried).

    No weight is read: without a projection it is the identity, and a projection or a sketch is the matrix whose
    SHA-256 the specification holds.

    Raises:
        InputError: that matrix was changed.
    """
    spec = model.spec
    if spec.embedding_digest is None:
        return torch.eye(spec.features, dtype=torch.float64)
    kept = model.embedding
    if kept is None or digest(kept, kept if model.unsketched is None else model.unsketched) != spec.embedding_digest:
        raise InputError(
            "the projection kept beside the weights is not the one that the specification names by its SHA-256, so "
            "the problem it was compiled for is unknown: compile the model again."
        )
    return kept


def all_features(model: CompiledTransformer) -> Tensor:
    """Return what the specification multiplies the features by before any sketch, float64, (features, projected)."""
    carried = carried_features(model)
    return carried if model.unsketched is None else model.unsketched


def as_specified(model: CompiledTransformer) -> CompiledTransformer:
    """Return what the model's specification compiles to, whatever its weights are now."""
    return assemble(model.spec, carried_features(model), all_features(model))
