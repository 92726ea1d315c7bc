"""Tasks as candidates see them: in one batch, and in the eigenbasis of each task's Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import torch
from torch import Tensor

from ridgeformer.algorithms import Iterate, Iterative
from ridgeformer.algorithms.base import Precondition
from ridgeformer.identification.tasks import TaskGroup, Tasks

__all__ = ["DenseSystem", "DiagonalSystem", "Problems", "last_steps"]


@dataclass(frozen=True, eq=False)
class DiagonalSystem:
    """Many systems A = Lambda + ridge I at once, one a column: (m, columns)."""

    eigenvalues: Tensor
    ridge: Tensor | float

    def apply(self, V: Tensor) -> Tensor:
        """Return A V, column by column."""
        return (self.eigenvalues + self.ridge) * V


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """Many dense systems at once, one a column: A is (columns, n, n) and contains the ridge."""

    A: Tensor
    ridge: Tensor | float

    def apply(self, V: Tensor) -> Tensor:
        """Return A V, column by column."""
        return (self.A @ V.T[..., None])[..., 0].T


def _as_is(V: Tensor) -> Tensor:
    return V


def last_steps(
    algorithm: Iterative,
    system: DiagonalSystem | DenseSystem,
    b: Tensor,
    steps: Tensor,
    spectrum: tuple[Tensor, Tensor] | None = None,
    precondition: Precondition = _as_is,
) -> Tensor:
    """Run an algorithm value on many systems, (n, columns), and return each column's state after its own steps."""
    found = torch.zeros_like(b)
    ends = spectrum or (b.new_ones(()), b.new_ones(()))
    states: Iterator[Iterate] = algorithm.iterate(system, b, spectrum=ends, precondition=precondition)  # type: ignore[arg-type]
    for t, state in enumerate(islice(states, int(steps.max())), start=1):
        found = torch.where(steps == t, state.alpha, found)
    return found


@dataclass(frozen=True, eq=False)
class Problems:
    """The tasks of all groups side by side.

    In the eigenbasis of X'X (m = min(k, d) coordinates, padded with zeros to the largest m) every method that only
    multiplies by the Gram matrix and takes inner products runs coordinate by coordinate.

    Attributes:
        tasks: The design.
        fitted: The tasks that parameters were fitted on, whose eigenvalues are their units; None is these tasks.
    """

    tasks: Tasks
    fitted: Problems | None = None

    @property
    def groups(self) -> Sequence[TaskGroup]:
        """Groups of tasks of one shape."""
        return self.tasks.groups

    @cached_property
    def supports(self) -> Tensor:
        """Number of supports of every task, (T,)."""
        return torch.cat([torch.full((len(group.X),), float(group.X.shape[1])) for group in self.groups]).double()

    @cached_property
    def members(self) -> Tensor:
        """Number of the group of every task, (T,)."""
        return torch.cat([torch.full((len(group.X),), place) for place, group in enumerate(self.groups)])

    @cached_property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues of X'X, (d, T)."""
        return self._spectral[0]

    @cached_property
    def moments(self) -> Tensor:
        """X'y in the eigenbasis, (d, T)."""
        return self._spectral[1]

    @cached_property
    def targets(self) -> Tensor:
        """Targets in the eigenbasis of K, and the length of the part outside its range, (d + 1, T)."""
        return self._spectral[2]

    @cached_property
    def queries(self) -> Tensor:
        """Queries in the eigenbasis of X'X, (T, q, d)."""
        return self._spectral[3]

    @cached_property
    def trace(self) -> Tensor:
        """Trace of K, (T,)."""
        return self.eigenvalues.sum(0)

    @cached_property
    def _spectral(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        parts = [self._of_group(group) for group in self.groups]
        values, moments, targets = (torch.cat(part, 1) for part in list(zip(*parts, strict=True))[:3])
        return values, moments, targets, torch.cat([part[3] for part in parts])

    @staticmethod
    def _of_group(group: TaskGroup) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        U, S, Vh = torch.linalg.svd(group.X, full_matrices=False)
        d, m = group.X.shape[-1], S.shape[-1]
        inside = (U.mT @ group.y[..., None])[..., 0]
        outside = (group.y - (U @ inside[..., None])[..., 0]).norm(dim=-1, keepdim=True)
        queries = group.Xq @ Vh.mT

        def padded(part: Tensor) -> Tensor:
            return torch.nn.functional.pad(part, (0, d - m))

        targets = torch.cat([padded(inside), outside], -1)
        return padded(S.square()).T, padded(S * inside).T, targets.T, padded(queries)

    @cached_property
    def centred(self) -> Problems:
        """The same tasks with the mean of the supports subtracted from all rows."""
        groups = []
        for group in self.groups:
            mean = group.X.mean(1, keepdim=True)
            groups.append(replace(group, X=group.X - mean, Xq=group.Xq - mean))
        return Problems(Tasks.unchecked(self.tasks, tuple(groups)), self.fitted and self.fitted.centred)

    @cached_property
    def mean_targets(self) -> Tensor:
        """Mean target of every task, (T,)."""
        return torch.cat([group.y.mean(1) for group in self.groups])

    def scale(self, unit: Tensor) -> Tensor:
        """Return the mean largest eigenvalue in each unit: of K (False) or of K / k (True)."""
        of_k, of_mean = self._units
        return torch.where(unit, of_mean, of_k)

    @cached_property
    def _units(self) -> tuple[Tensor, Tensor]:
        if self.fitted is not None:
            return self.fitted._units
        largest = self.eigenvalues.amax(0)
        return largest.mean(), (largest / self.supports).mean()

    @cached_property
    def mean_square(self) -> Tensor:
        """Mean squared length of the supports, the unit of temperatures."""
        if self.fitted is not None:
            return self.fitted.mean_square
        return torch.cat([group.X.square().sum(-1).flatten() for group in self.groups]).mean().clamp_min(1e-300)

    def predict(self, w: Tensor) -> Tensor:
        """Return the predictions of weights in the eigenbasis, (d, M, T) to (M, T, q)."""
        return torch.einsum("tqm,mnt->ntq", self.queries, w)

    def by_group(self, predict: object) -> Tensor:
        """Return (M, T, q) from a function of one group that returns (M, T of the group, q)."""
        return torch.cat([predict(group) for group in self.groups], 1)  # type: ignore[operator]
