"""A Cholesky factorisation in any precision, refined against the float64 residual.

Factorising is n^3/3 operations and runs twice as fast in float32; refining is a few products.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.products import add_product, product
from ridgeformer.solving.system import RidgeSystem, refuse_negative

__all__ = [
    "Inverse",
    "factorise_in_place",
    "inverse_diagonal",
    "refine_with_factor",
    "solve_directly",
    "solve_with_factor",
]

LEAF = 256
"""Rows that LAPACK factorises, where it does not do all; the rest is products."""

COLUMNS = 4096
"""Columns of the factor that are copied for a product with themselves."""

COPIED_ROWS = 3_000
"""Largest n that PyTorch factorises, which copies. SciPy's threads would still be spinning while PyTorch's start: at
1,000 rows that doubled the time of a whole fit."""

LAPACK_ROWS = 16_000
"""Largest n that LAPACK factorises in place. OpenBLAS has been seen to crash beyond, and a crash cannot be reported."""

MANY_COLUMNS = 64
"""Right-hand sides from which BLAS solves in place: PyTorch copies and transposes them twice."""

REFINEMENTS = 4
"""Solves with the factor of a direct solve at most, the first included."""

PANEL = 256
"""Columns of L^-1 held at once: wide enough for fast products, narrow enough to waste little on the diagonal."""


def solve_directly(
    system: RidgeSystem, y: Float[Tensor, "n r"], *, tol: float = 0.0
) -> tuple[Float[Tensor, "n r"], Float[Tensor, "n r"], Float[Tensor, "n n"] | None]:
    """Solve A alpha = y by a Cholesky factorisation in the precision of X, refined.

    If the ridge is below the round-off of K, no factor exists: then the positive semidefinite matrix nearest to K is
    solved by its eigenvalues instead. Returns alpha and its residual, in float64, and the factor if there is one.

    Raises:
        NotPositiveSemidefiniteError: K has an eigenvalue that is negative beyond round-off.
    """
    factor = system.matrix.clone()
    if factorise_in_place(factor, system.ridge):
        factor.tril_()
        return *refine_with_factor(system, factor, y, tol=tol, refinements=REFINEMENTS), factor
    values, Q = torch.linalg.eigh(system.matrix)
    refuse_negative(float(values[0]), system)
    alpha = Q @ ((Q.T @ y.to(Q.dtype)) / (values.clamp_min(0) + system.ridge)[:, None])
    return alpha, system.residual(alpha, y), None


def refine_with_factor(
    system: RidgeSystem,
    factor: Float[Tensor, "n n"],
    y: Float[Tensor, "n r"],
    *,
    tol: float = 0.0,
    refinements: int = 8,
) -> tuple[Float[Tensor, "n r"], Float[Tensor, "n r"]]:
    """Solve A alpha = y with a factor, refining while the float64 residual halves and some column is above tol ||y||.

    Refinement converges where the round-off of the factor is below the ridge. Coefficients are rounded to what the
    caller gets, where the system has targets, before their residual is taken. Returns both, in float64.
    """
    alpha, residual = torch.zeros_like(y, dtype=torch.float64), y.to(torch.float64)
    scale = torch.where(residual.norm(dim=0) > 0, residual.norm(dim=0), 1.0)
    for _ in range(refinements):
        step = solve_with_factor(factor, residual.to(factor.dtype)).to(torch.float64)
        if not bool(torch.isfinite(step).all()):
            break
        exact = alpha + step
        better = system.rounded(exact) if system.targets is not None else exact
        if not bool(torch.isfinite(better).all()):
            return exact, residual  # beyond the precision of the caller, who is told so
        left = system.residual(better, y)
        if not bool((left.norm(dim=0) < residual.norm(dim=0) / 2).any()):
            break
        alpha, residual = better, left
        if float((residual.norm(dim=0) / scale).max()) <= tol:
            break
    return alpha, residual


def factorise_in_place(A: Float[Tensor, "n n"], ridge: float) -> bool:
    """Turn the lower triangle of A into the Cholesky factor of A + ridge I; False if there is none.

    What is left above the diagonal has no meaning.

    Example:
        >>> A = torch.tensor([[3.0, 2.0], [2.0, 4.0]])
        >>> factorise_in_place(A, 1.0)
        True
        >>> A.tril()
        tensor([[2., 0.], [1., 2.]])
    """
    A.diagonal().add_(ridge)
    if len(A) <= COPIED_ROWS:
        factor, info = torch.linalg.cholesky_ex(A)
        A.copy_(factor)
        return bool(info == 0 and torch.isfinite(A.diagonal()).all())  # not every LAPACK stops at a nan
    by_lapack = A.device.type == "cpu" and A.is_contiguous() and len(A) <= LAPACK_ROWS and A.dtype == torch.float64
    return _by_lapack(A) if by_lapack else _by_halves(A) is not None


def _by_lapack(A: Tensor) -> bool:
    """Factorise by SciPy's LAPACK, in one call and in place: PyTorch's makes a copy."""
    from scipy.linalg.lapack import dpotrf, spotrf

    columns = A.numpy().T  # as LAPACK sees the rows: the lower triangle is the upper one
    potrf = spotrf if A.dtype == torch.float32 else dpotrf
    factor, info = potrf(columns, lower=0, clean=0, overwrite_a=1)
    if not np.shares_memory(factor, columns):
        raise AssertionError("SciPy copied what it was told to overwrite")
    return bool(info == 0 and torch.isfinite(A.diagonal()).all())


def _by_halves(A: Tensor, room: Tensor | None = None) -> list[Tensor] | None:
    """Factorise the upper left half, then what it leaves of the lower right one: nearly all is wide products.

    Returns the inverses of the squares on the diagonal of the factor, which are divided by again and again. What lies
    below the first of them is copied to `room`: fresh memory would cost more than the copy.
    """
    if len(A) <= LEAF:
        factor, info = torch.linalg.cholesky_ex(A)
        A.copy_(factor)
        if not bool(info == 0 and torch.isfinite(A.diagonal()).all()):
            return None
        return [torch.linalg.solve_triangular(factor, torch.eye(len(A)).to(A), upper=False)]
    half = _half(len(A))
    below, rest = A[half:, :half], A[half:, half:]
    room = A.new_empty(len(below) * min(COLUMNS, half)) if room is None else room
    first = _by_halves(A[:half, :half], room)
    if first is None:
        return None
    _divide(below, A[:half, :half], first)
    for part in below.split(COLUMNS, dim=1):
        copied = room[: part.numel()].view(part.shape).copy_(part)
        add_product(rest, copied, copied.T, alpha=-1.0, lower=True)
    second = _by_halves(rest, room)
    return None if second is None else first + second


def _divide(B: Tensor, L: Tensor, inverses: list[Tensor]) -> None:
    """Replace B by B L'^-1; L is triangular, its squares on the diagonal have these inverses."""
    if len(L) <= LEAF:
        B.copy_(product(B, inverses[0].T))
        return
    half = _half(len(L))
    _divide(B[:, :half], L[:half, :half], inverses[: half // LEAF])
    add_product(B[:, half:], B[:, :half], L[half:, :half].T, alpha=-1.0)
    _divide(B[:, half:], L[half:, half:], inverses[half // LEAF :])


def _half(n: int) -> int:
    return LEAF * ceil(n / (2 * LEAF))


def solve_with_factor(factor: Float[Tensor, "n n"], b: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
    """Return (L L')^-1 b without copying the factor, of which only the lower triangle is read.

    Example:
        >>> solve_with_factor(torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.tensor([[1.0], [0.0]]))
        tensor([[ 1.2500], [-1.0000]])
    """
    n, columns = b.shape
    if b.device.type == "cpu" and COPIED_ROWS < n <= LAPACK_ROWS and columns >= MANY_COLUMNS and factor.is_contiguous():
        from scipy.linalg.blas import dtrsm, strsm

        trsm, upper = strsm if factor.dtype == torch.float32 else dtrsm, factor.numpy().T  # L' as BLAS sees the rows
        half = trsm(1.0, upper, b.T.contiguous().numpy().T, trans_a=1, overwrite_b=1)
        return torch.from_numpy(trsm(1.0, upper, half, overwrite_b=1))
    half = torch.linalg.solve_triangular(factor, b, upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)


@dataclass(frozen=True, eq=False)
class Inverse:
    """(K + ridge I)^-1, applied by a Cholesky factor.

    Example:
        >>> Inverse(torch.tensor([[2.0, 0.0], [2.0, 1.0]])) @ torch.tensor([1.0, 0.0])
        tensor([ 1.2500, -1.0000])
    """

    factor: Tensor = field(repr=False)

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return R V for a vector or columns."""
        columns = V.to(self.factor.dtype).reshape(len(V), -1)
        return solve_with_factor(self.factor, columns).reshape(V.shape)

    def columns(self, rows: Tensor | None = None) -> Float[Tensor, "n m"]:
        """Return these columns of R; None means all, the dense matrix."""
        rows = torch.arange(len(self.factor), device=self.factor.device) if rows is None else rows
        unit = self.factor.new_zeros(len(self.factor), len(rows))
        unit[rows, torch.arange(len(rows), device=rows.device)] = 1
        return self @ unit


def inverse_diagonal(factor: Float[Tensor, "n n"]) -> Float[Tensor, " n"]:
    """Return the diagonal of R = (L L')^-1: the squared lengths of the columns of L^-1.

    n^3 / 3 operations, as many as the factorisation. LAPACK inverts a copy of L in place, which needs no more memory
    than a direct solve did; beyond the sizes it is trusted with, L^-1 is made a panel of columns at a time in
    O(n PANEL) memory, a third slower.

    Example:
        >>> inverse_diagonal(torch.tensor([[2.0, 0.0], [2.0, 1.0]]))
        tensor([1.2500, 1.0000])
    """
    if factor.device.type == "cpu" and len(factor) <= LAPACK_ROWS:
        from scipy.linalg.lapack import dtrtri, strtri

        inverse = factor.clone(memory_format=torch.contiguous_format)
        columns = inverse.numpy().T  # as LAPACK sees the rows: the lower triangle is the upper one
        _, info = (strtri if factor.dtype == torch.float32 else dtrtri)(columns, lower=0, overwrite_c=1)
        if info == 0:
            lengths = factor.new_zeros(len(factor))
            for start in range(0, len(factor), PANEL):  # what is above the diagonal has no meaning
                stop = min(start + PANEL, len(factor))
                lengths[:start] += inverse[start:stop, :start].square().sum(0)
                lengths[start:stop] += inverse[start:stop, start:stop].tril().square().sum(0)
            return lengths
    return _inverse_diagonal_by_panels(factor)


def _inverse_diagonal_by_panels(factor: Tensor) -> Tensor:
    """Panels shrink, because column j of L^-1 begins at row j."""
    starts = range(0, len(factor), PANEL)
    eye = torch.eye(min(PANEL, len(factor)), dtype=factor.dtype, device=factor.device)
    own = [factor[i : i + PANEL, i : i + PANEL] for i in starts]
    blocks = [torch.linalg.solve_triangular(L, eye[: len(L), : len(L)], upper=False) for L in own]
    lengths = []
    for start, inverse in zip(starts, blocks, strict=True):
        panel = factor.new_zeros(len(factor) - start, len(inverse))
        panel[: len(inverse)] = inverse
        work = panel.new_empty(PANEL, panel.shape[1])
        for i, block in enumerate(blocks[start // PANEL + 1 :], start=1):  # rows below: nearly all is products
            top, bottom = i * PANEL, i * PANEL + len(block)
            left = factor[start + top : start + bottom, start : start + top]
            torch.mm(left, panel[:top], out=work[: len(block)])
            torch.addmm(panel[top:bottom], block, work[: len(block)], beta=0, alpha=-1, out=panel[top:bottom])
        lengths.append(panel.square_().sum(0))
    return torch.cat(lengths)
