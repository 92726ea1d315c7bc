"""Randomly pivoted Cholesky: a few columns of K, drawn where the most is missing, and what they leave in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.algorithms.base import Precondition
from ridgeformer.core.checks import whole
from ridgeformer.core.products import add_product, product, thin_product, transposed_thin_product
from ridgeformer.solving.engines import Engine
from ridgeformer.solving.engines.base import LinAlgError
from ridgeformer.solving.engines.tiles import COPIED_BYTES
from ridgeformer.solving.system import RidgeSystem

__all__ = ["PivotedCholesky", "PivotedFactor", "default_block", "default_rank", "neighbourhoods", "pivoted_factor"]

PROPOSALS = 256
"""Columns proposed at a time: enough for matrix products to run at full speed."""

ENOUGH = 10.0
"""Columns are added until what is left of the trace is this many ridges: the condition number is then below 11."""

SKETCH = 128
"""Columns of the factor by which rows are sorted into neighbourhoods, where the rows themselves are not used."""

WIDE = 64
"""Features from which directions from the mean row tell which rows are near; in fewer dimensions many share one."""

LONGEST = 1e15
"""Largest entry, and one over the least of these, of rows that are sorted in float32: their squares must be held."""

ROUNDS = 12
"""Rounds of balanced k-means; more hardly makes better groups."""

LIFTS = 40
"""How often the diagonal of a block is raised, fourfold each time, before the preconditioner is given up."""


def default_rank(n: int) -> int:
    """Return how many columns are worth their price at most: they cost n r^2 once and save products with n^2."""
    return min(n, ceil(10 * sqrt(n)))


def default_block(n: int) -> int:
    """Return how many rows a block has at most: larger ones save steps, and all cost n b (2 r + b) once."""
    return max(1000, ceil(10 * sqrt(n)))


@dataclass(frozen=True, eq=False)
class PivotedFactor:
    """K ~ F'F from the columns at `pivots`; K - F'F is positive semidefinite, with diagonal `left`.

    The pivots are in the order in which they were chosen: F restricted to them is upper triangular.
    """

    F: Float[Tensor, "rank n"]
    pivots: Int[Tensor, " rank"]
    left: Float[Tensor, " n"]


def pivoted_factor(engine: Engine, rank: int, generator: torch.Generator, *, enough: float = 0.0) -> PivotedFactor:
    """Return a partial Cholesky factor of K with random pivots (Chen, Epperly, Tropp and Webber).

    A row is drawn with the probability of what is left of its diagonal. Rows are proposed by the block and each is
    accepted with the probability that what is left of it, after those accepted before it in the block, still
    warrants: the pivots have the same distribution as if they were drawn one by one. It ends at `rank` columns, or once
    the trace left is no more than `enough`.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> from ridgeformer.solving.engines import Tiles
        >>> X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], dtype=torch.float64)
        >>> factor = pivoted_factor(Tiles(DotProduct(), X, X.dtype), 3, torch.Generator().manual_seed(0))
        >>> len(factor.pivots), bool(torch.allclose(factor.F.T @ factor.F, X @ X.T))  # K has rank two
        (2, True)
    """
    whole_diagonal = engine.diagonal().clamp_min(0)
    left = whole_diagonal.clone()
    noise = 16 * torch.finfo(engine.dtype).eps * whole_diagonal
    F = torch.empty(min(rank, engine.n), engine.n, dtype=engine.dtype, device=engine.device)
    pivots: list[Tensor] = []
    found = 0
    while found < len(F) and float(left.sum()) > max(enough, float(noise.sum())):
        draws = torch.multinomial(left.cpu(), PROPOSALS, replacement=True, generator=generator).to(engine.device)
        rows = engine.columns(draws).T
        add_product(rows, F[:found, draws].T.contiguous(), F[:found], alpha=-1.0)
        core = rows[:, draws].to(torch.float64)
        accepted = _accept(core, noise[draws], generator)[: len(F) - found]
        if len(accepted) == 0:
            left[draws] = 0.0  # nothing but round-off is left of these
            continue
        chosen = core[accepted][:, accepted]
        lower = torch.linalg.cholesky((chosen + chosen.T) / 2).to(F.dtype)
        fresh = torch.index_select(rows, 0, accepted, out=F[found : found + len(accepted)])
        del rows
        # fresh' lower' = rows', in place: transposed like this it is in the order that LAPACK wants
        torch.linalg.solve_triangular(lower.T, fresh.T, upper=True, left=False, out=fresh.T)
        found += len(accepted)
        pivots.append(draws[accepted])
        for some in fresh.split(32):  # float64 for a few at a time, which stay in the cache
            left -= some.to(torch.float64).square().sum(0)
        left.clamp_min_(0)
        left[draws[accepted]] = 0.0
    none = torch.empty(0, dtype=torch.int64, device=engine.device)
    return PivotedFactor(F[:found], torch.cat([none, *pivots]), left)


def _accept(core: Tensor, noise: Tensor, generator: torch.Generator) -> Tensor:
    """Return which proposals are accepted, given what is left of K between them.

    In NumPy: a few hundred tiny updates, for which waking threads up would cost more than the work.
    """
    left, least = core.cpu().numpy().copy(), noise.cpu().numpy()
    chance = torch.rand(len(left), generator=generator, dtype=torch.float64).numpy() * left.diagonal()
    accepted = []
    for j in range(len(left)):
        if left[j, j] > chance[j] and left[j, j] > least[j]:
            column = left[:, j] / np.sqrt(left[j, j])
            left -= np.outer(column, column)
            accepted.append(j)
    return torch.tensor(accepted, dtype=torch.int64, device=noise.device)


@dataclass(frozen=True)
class PivotedCholesky:
    """P = F'F + D: randomly pivoted Cholesky, and of what it leaves, K - F'F + ridge I, the diagonal blocks D.

    The factor takes the directions in which K is large, as far as they are few; the blocks hold rows that are near
    to each other and take what is local. Either alone leaves two to three times the steps where the spectrum of K
    falls slowly. The rank follows the effective dimension: columns are added until the trace of what is left is
    about the ridge, or the limit is reached.

    Args:
        rank: columns at most; None takes `default_rank`.
        block: rows in a block at most; None takes `default_block`, 0 takes ridge I for D.
    """

    rank: int | None = None
    block: int | None = None
    name: ClassVar[str] = "pivoted"

    def __post_init__(self) -> None:
        if self.block is not None:
            whole(self.block, "block", 0)
        if self.rank is not None:
            whole(self.rank, "rank", 1)

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Precondition:
        """Return P^-1 for this system; the pivots are drawn from `generator`."""
        rank = self.rank or default_rank(system.n)
        own = system.engine.preconditioner(system.ridge, rank, generator)
        if own is not None:
            return own
        factor = pivoted_factor(system.engine, rank, generator, enough=ENOUGH * system.ridge)
        if self.block == 0:
            return _low_rank(factor.F, system.ridge)
        size = self.block or default_block(system.n)
        copied = WIDE <= system.d <= size and system.X.nbytes <= COPIED_BYTES
        rows = system.X if copied else factor.F[:SKETCH].T
        groups = neighbourhoods(rows, size, generator)
        F, order = factor.F, torch.cat(groups)
        for rows in F.split(PROPOSALS):  # in place, by parts: a second factor would be a tenth of all the memory
            rows.copy_(rows.index_select(1, order))
        return _low_rank_and_blocks(F, groups, _inverses(system, F, groups))


def _inverses(system: RidgeSystem, F: Tensor, groups: list[Tensor]) -> list[Tensor]:
    """Return the inverses of the diagonal blocks of K - F'F + ridge I; the columns of F are in the order of groups."""
    sizes = [len(group) for group in groups]
    room = F.new_empty(sum(size**2 for size in sizes))  # one piece: between blocks what is freed would leave holes
    found = [part.view(size, size) for part, size in zip(room.split([size**2 for size in sizes]), sizes, strict=True)]
    for rows, part, place in zip(groups, F.split(sizes, dim=1), found, strict=True):
        left = system.engine.block(rows, rows)
        near = part.T.contiguous()
        add_product(left, near, near.T, alpha=-1.0, lower=True)
        lift = max(system.ridge, torch.finfo(F.dtype).eps * float(left.diagonal().abs().max()))
        left.diagonal().add_(system.ridge)
        lower, info = torch.linalg.cholesky_ex(left)
        for _ in range(LIFTS):  # while round-off of the working precision makes it indefinite
            if int(info) == 0:
                break
            left.diagonal().add_(lift)
            lift *= 4
            lower, info = torch.linalg.cholesky_ex(left)
        else:
            raise LinAlgError("a block of the preconditioner is not positive definite")
        place.copy_(torch.cholesky_inverse(lower).T)  # symmetric, and transposed it is in the order of `place`
    return found


def _low_rank(F: Tensor, ridge: float) -> Precondition:
    """Return (F'F + ridge I)^-1 by the Woodbury identity."""
    lower = ridge * torch.eye(len(F), dtype=F.dtype, device=F.device)
    add_product(lower, F, F.T, lower=True)
    core = _inverse(lower.to(torch.float64)).to(F.dtype)

    def precondition(r: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        inner = thin_product(core, thin_product(F, r.to(F.dtype)))
        return (r - transposed_thin_product(F, inner).to(r.dtype)) / ridge

    return precondition


def _low_rank_and_blocks(F: Tensor, groups: list[Tensor], inverses: list[Tensor]) -> Precondition:
    """Return (F'F + D)^-1 = D^-1 - B' (I + F B')^-1 B with B = F D^-1, which takes the place of F, and D^-1 by blocks.

    Everything here is in the order of the groups, in which blocks are contiguous.
    """
    order, sizes = torch.cat(groups), [len(group) for group in groups]
    core = torch.eye(len(F), dtype=F.dtype, device=F.device)
    for part, inverse in zip(F.split(sizes, dim=1), inverses, strict=True):
        local = product(part, inverse)
        add_product(core, local, part.T, lower=True)
        part.copy_(local)
    core = core.to(torch.float64)  # in the place of the other: memory is tightest here
    B, core = F, _inverse(core).to(F.dtype)

    def precondition(r: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        working = r.to(B.dtype)[order]
        near = torch.cat([thin_product(*pair) for pair in zip(inverses, working.split(sizes), strict=True)])
        near -= transposed_thin_product(B, thin_product(core, thin_product(B, working)))
        result = torch.empty_like(r)
        result[order] = near.to(r.dtype)
        return result

    return precondition


def _inverse(A: Float[Tensor, "r r"]) -> Float[Tensor, "r r"]:
    """Return the inverse of a positive definite matrix, of which the lower triangle is read.

    Solves with few columns are slower than products with it.
    """
    return torch.cholesky_inverse(torch.linalg.cholesky(A))


def neighbourhoods(Z: Float[Tensor, "n k"], size: int, generator: torch.Generator) -> list[Int[Tensor, " _"]]:
    """Return groups of at most `size` rows of Z that lie in the same direction from their mean, as equal as can be.

    Example:
        >>> Z = torch.tensor([[1.0, 1.0], [9.0, 9.0], [2.0, 1.0], [9.0, 8.0]])
        >>> sorted(group.tolist() for group in neighbourhoods(Z, 2, torch.Generator().manual_seed(0)))
        [[0, 2], [1, 3]]
    """
    count = ceil(len(Z) / size)
    largest = max(float(Z.amax()), -float(Z.amin())) if Z.numel() else 0.0  # there may be no columns
    working = torch.float32 if 1 / LONGEST < largest < LONGEST else torch.float64
    Z = torch.sub(Z, Z.mean(0), out=torch.empty(Z.shape, dtype=working, device=Z.device))
    Z /= Z.norm(dim=1, keepdim=True).clamp_min(torch.finfo(Z.dtype).tiny)
    means = Z[torch.randperm(len(Z), generator=generator)[:count].to(Z.device)]
    for _ in range(ROUNDS if count > 1 else 1):
        chosen = share_out(product(Z, means.T) - means.square().sum(1) / 2, ceil(len(Z) / count))
        members = torch.nn.functional.one_hot(chosen, count).to(Z)
        means = product(members.T.contiguous(), Z) / members.sum(0)[:, None].clamp_min(1)
    groups = [(chosen == c).nonzero()[:, 0] for c in range(count)]
    return [group for group in groups if len(group)]


def share_out(score: Float[Tensor, "n c"], room: int) -> Int[Tensor, " n"]:
    """Return for each row the column it scores best in, of those with room left; each has room for as many rows.

    Where too many want the same column, those with the most to lose by another go first.

    Example:
        >>> share_out(torch.tensor([[3.0, 1.0], [2.0, 1.9], [5.0, 0.0], [0.0, 1.0]]), 2).tolist()
        [0, 1, 0, 1]
    """
    score = score.clone()
    chosen = torch.full((len(score),), -1, device=score.device)
    free = [room] * score.shape[1]
    while len(rows := (chosen < 0).nonzero()[:, 0]):
        best = score[rows].max(1)
        second = score[rows].scatter(1, best.indices[:, None], -torch.inf).max(1).values
        for column in range(score.shape[1]):
            wanting = (best.indices == column).nonzero()[:, 0]
            first = (best.values - second)[wanting].argsort(descending=True, stable=True)[: free[column]]
            chosen[rows[wanting[first]]] = column
            free[column] -= len(first)
            if free[column] == 0:
                score[:, column] = -torch.inf
    return chosen
