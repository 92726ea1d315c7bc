"""What a whole group of training points adds to a prediction: not the sum of what each adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ridgeformer.core.errors import InputError
from ridgeformer.influence.exact import RidgeFit, fit
from ridgeformer.kernels import Kernel

__all__ = ["as_rows", "group_influence", "leave_group_out"]


def leave_group_out(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, group: Any) -> Tensor:
    """Return f(x) - f_{-B}(x) for the group B of training rows, (q,) or (q, outputs).

    Equal to a refit without B, up to round-off: it is (R k(x))_B' (R_BB)^-1 alpha_B.

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        group: distinct row numbers, at least one and not all.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> leave_group_out(DotProduct(), [[1.0], [2.0], [3.0]], [1.0, 1.0, 0.0], [[1.0]], 1.0, group=[0, 2])
        tensor([-0.2000], dtype=torch.float64)
    """
    return group_influence(fit(kernel, X, y, ridge), Xq, group)


def group_influence(fitted: RidgeFit, Xq: Any, group: Any) -> Tensor:
    """Return `leave_group_out` for a fit that is at hand: O(n^2 |B|) operations a group."""
    n = len(fitted.y)
    rows = as_rows(group, n, fitted.y.device)
    if len(rows) == n:
        raise InputError(f"the group holds all {n} rows; leave at least one to fit.")
    unit = torch.zeros(n, len(rows), dtype=fitted.y.dtype, device=fitted.y.device)
    unit[rows, torch.arange(len(rows), device=rows.device)] = 1
    columns = fitted.apply_inverse(unit)
    change = (columns.T @ fitted.cross(Xq)).T @ torch.linalg.solve(columns[rows], fitted.alpha[rows])
    return change[:, 0] if fitted.vector else change


def as_rows(group: Any, n: int, device: torch.device) -> Tensor:
    """Return distinct row numbers of n rows.

    Example:
        >>> as_rows([2, 0], 3, torch.device("cpu"))
        tensor([2, 0])
    """
    numbers = np.asarray(group.cpu() if isinstance(group, Tensor) else group)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise InputError(f"the rows are {group!r}; a list of at least one row number was expected.")
    if numbers.min() < 0 or numbers.max() >= n:
        wrong = numbers.max() if numbers.max() >= n else numbers.min()
        raise InputError(f"row {wrong} is out of range: the rows are numbered 0 to {n - 1}.")
    if len(np.unique(numbers)) != numbers.size:
        raise InputError("a row is named twice; name each row once.")
    return torch.from_numpy(numbers.astype(np.int64)).to(device)
