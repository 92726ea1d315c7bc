"""Influences by preconditioned conjugate gradients: as exact as asked for, for the training points asked about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ridgeformer.influence.estimators.setting import Setting, prepare
from ridgeformer.influence.group import as_rows
from ridgeformer.influence.influence import Influence

__all__ = ["pcg_influence"]

COLUMNS = 256
"""Columns of the identity solved for at once."""


@torch.no_grad()
def pcg_influence(
    kernel: Any,
    X: Any,
    y: Any,
    Xq: Any,
    ridge: Any,
    *,
    rows: Any = None,
    rank: Any = None,
    tol: Any = None,
    seed: Any = 0,
) -> Influence:
    """Compute influences by solves with a Nystrom preconditioner, in O(n (rank + queries)) memory.

    R_ii takes one solve for each training point: name the `rows` of interest, or take `stochastic_influence` for
    all. Every error holds always: it is that of the residual, measured in float64.

    Args:
        kernel: any positive semidefinite kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        rows: the training points whose influence is wanted; None is all of them.
        rank: of the preconditioner; None is 2 sqrt(n).
        tol: the relative residual of every solve; None is that of `solve`.
        seed: of the preconditioner.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> found = pcg_influence(Exponential(1.0), [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0], [[1.0]], 0.1, rows=[1])
        >>> found.leave_one_out.shape, bool(found.leave_one_out_error.max() < 1e-6)
        (torch.Size([1, 1]), True)
    """
    setting = prepare(kernel, X, y, Xq, ridge, rank, seed)
    n, outputs = setting.y.shape
    chosen = torch.arange(n, device=setting.y.device) if rows is None else as_rows(rows, n, setting.y.device)
    first, *others = chosen.split(COLUMNS)
    # the first block of the identity shares its products with the targets and the queries
    solution = setting.solve(torch.cat([setting.y, setting.cross, _unit(setting, first)], dim=1), tol)
    error, shared = setting.error(solution), outputs + setting.cross.shape[1]
    parts = [_diagonal(first, solution.alpha[:, shared:], error[:, shared:])]
    for some in others:
        solved = setting.solve(_unit(setting, some), tol)
        parts.append(_diagonal(some, solved.alpha, setting.error(solved)))
    diagonal, diagonal_error = (torch.cat(part) for part in zip(*parts, strict=True))
    found = setting.influence(solution.alpha[:, :outputs], solution.alpha[:, outputs:shared], diagonal)
    return replace(
        found,
        alpha=found.alpha[chosen],
        weights=found.weights[chosen],
        rows=None if rows is None else chosen,
        alpha_error=error[chosen, :outputs],
        weights_error=error[chosen, outputs:shared],
        diagonal_error=diagonal_error,
    )


def _unit(setting: Setting, rows: Tensor) -> Tensor:
    """Return these columns of the identity."""
    unit = torch.zeros(len(setting.y), len(rows), dtype=setting.y.dtype, device=setting.y.device)
    unit[rows, torch.arange(len(rows), device=rows.device)] = 1
    return unit


def _diagonal(rows: Tensor, solved: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    """Return R_ii of these rows and their errors, from the solutions for their columns of the identity."""
    place = torch.arange(len(rows), device=rows.device)
    return solved[rows, place], error[rows, place]
