"""The estimators that choose their own ridge, by the leave-one-out error of a whole grid."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from ridgeformer.estimators import Array, AttentionKernelClassifier, AttentionKernelRidge
from ridgeformer.solvers.ridge_path import RidgePath, ridge_path

__all__ = ["AttentionKernelClassifierCV", "AttentionKernelRidgeCV"]

RIDGES = tuple(float(ridge) for ridge in np.geomspace(1e-4, 1e2, 20))
"""The grid unless told: six decades, about three ridges in each."""


TRUSTED = 1e-3
"""Relative error of the leave-one-out errors above which `fit` warns."""


class _OwnRidge:
    """Chooses the ridge of least leave-one-out error; among equals the largest."""

    ridges: Any

    def _choose_ridge(self, kernel: Any, rows: torch.Tensor, targets: Array) -> float:
        path = ridge_path(kernel, rows, targets, self.ridges)
        error = max(float(path.error.max()), path.unsolved)
        if not error <= TRUSTED:
            warnings.warn(
                f"leave-one-out errors at the least ridge are good to {error:.1e} only, even in float64: "
                "leave the smallest ridges out.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.path_ = path
        self.loo_errors_: Array = self._loss(path).numpy()
        order = np.lexsort((-path.ridges.numpy(), path.mean_squared.numpy(), self.loo_errors_))
        self.ridge_ = float(path.ridges[int(order[0])])
        return self.ridge_

    def _loss(self, path: RidgePath) -> torch.Tensor:
        raise NotImplementedError


class AttentionKernelRidgeCV(_OwnRidge, AttentionKernelRidge):
    """`AttentionKernelRidge` whose ridge has the least mean squared leave-one-out error of a grid (claim I1).

    Every ridge is judged from one reduction of K, no refit is made; the best one is then solved for as
    `AttentionKernelRidge` would. K is held in memory.

    Args:
        kernel: as for `AttentionKernelRidge`, like every parameter but `ridges`.
        ridges: the grid, each > 0.
        temperature: see there.
        order: see there.
        method: see there; for the fit at the ridge chosen.
        tol: see there.
        max_steps: see there.
        preconditioner: see there.
        random_state: see there.

    Attributes:
        ridge_: the ridge chosen.
        loo_errors_: the mean squared leave-one-out error of every ridge, over rows and outputs.
        path_: the `RidgePath`, with every leave-one-out residual and what its error is.
        solution_: of the ridge chosen; it and the others are as in `AttentionKernelRidge`.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = AttentionKernelRidgeCV(ridges=[0.1, 10.0, 1000.0]).fit(X, y)
        >>> model.ridge_, int(model.loo_errors_.argmin())
        (10.0, 1)
    """

    def __init__(
        self,
        kernel: Any = "exponential",
        *,
        ridges: Any = RIDGES,
        temperature: Any = "auto",
        order: Any = 3,
        method: Any = "auto",
        tol: Any = None,
        max_steps: Any = None,
        preconditioner: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.ridges = ridges
        self.temperature = temperature
        self.order = order
        self.method = method
        self.tol = tol
        self.max_steps = max_steps
        self.preconditioner = preconditioner
        self.random_state = random_state

    def _loss(self, path: RidgePath) -> torch.Tensor:
        return path.mean_squared


class AttentionKernelClassifierCV(_OwnRidge, AttentionKernelClassifier):
    """`AttentionKernelClassifier` whose ridge misclassifies the fewest rows that were left out.

    Parameters and attributes are those of `AttentionKernelRidgeCV`, and `classes_`; `loo_errors_` are shares of rows.
    Ridges that are equal in that are compared by their mean squared error.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import StandardScaler
        >>> X, y = load_wine(return_X_y=True)
        >>> model = AttentionKernelClassifierCV().fit(StandardScaler().fit_transform(X), y)
        >>> bool(model.loo_errors_.min() < 0.03)
        True
    """

    __init__ = AttentionKernelRidgeCV.__init__

    def _loss(self, path: RidgePath) -> torch.Tensor:
        return path.misclassified
