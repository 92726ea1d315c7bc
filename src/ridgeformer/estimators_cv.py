"""The estimators that choose their own ridge, by the leave-one-out error of a whole grid."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.estimators import Array, AttentionKernelClassifier, AttentionKernelRidge
from ridgeformer.grid_search import ridge_limits, search_grid
from ridgeformer.solving.ridge_path import RidgePath, ridge_path

__all__ = ["AttentionKernelClassifierCV", "AttentionKernelRidgeCV"]

RIDGES = tuple(float(ridge) for ridge in np.geomspace(1e-4, 1e2, 20))
"""Where the default grid starts, over the mean diagonal of K: six decades, about three ridges in each."""


TRUSTED = 0.1
"""Relative error of the leave-one-out errors above which a ridge is not chosen, and `fit` warns."""


def _trusted(path: RidgePath) -> torch.Tensor:
    """Return which ridges have leave-one-out errors that are right to a few digits."""
    return path.error <= TRUSTED if path.unsolved <= TRUSTED else torch.zeros_like(path.error, dtype=torch.bool)


class _OwnRidge:
    """Chooses the ridge of least leave-one-out error; among equals the largest."""

    ridges: Any

    def _choose_ridge(self, kernel: Any, rows: torch.Tensor, targets: Array) -> float:
        if isinstance(self.ridges, str):
            path, place, self.on_edge_ = self._widened(kernel, rows, targets)
        else:
            path = ridge_path(kernel, rows, targets, self.ridges)
            place = self._best(path)
            self.on_edge_ = len(path.ridges) > 1 and float(path.ridges[place]) in (path.ridges.min(), path.ridges.max())
        lost = ~_trusted(path)
        if bool(lost[place]) or (bool(lost.any()) and not isinstance(self.ridges, str)):
            warnings.warn(
                f"the leave-one-out errors of {int(lost.sum())} of {len(lost)} ridges (up to "
                f"{float(path.ridges[lost].max()):.1e}) are not determined in float64, so they are not chosen: "
                "leave them out.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.path_ = path
        self.loo_errors_: Array = self._loss(path).numpy()
        self.ridge_ = float(path.ridges[place])
        return self.ridge_

    def _widened(self, kernel: Any, rows: torch.Tensor, targets: Array) -> tuple[RidgePath, int, bool]:
        """Return the path of the default grid, widened while its choice is on an edge, the choice, and if it still is.

        Widening ends where K and the ridge no longer determine the errors in float64.
        """
        if self.ridges != "auto":
            raise unknown_name("ridges", self.ridges, ["auto"])
        paths: list[RidgePath] = []

        def judge(ridges: list[float]) -> torch.Tensor:
            try:
                path = ridge_path(kernel, rows, targets, ridges)
            except InputError:
                if not paths:
                    raise
                return torch.full((len(ridges), *paths[0].residuals.shape[1:]), torch.inf, dtype=torch.float64)
            paths.append(path)
            return torch.where(_trusted(path)[:, None, None], path.residuals, torch.inf)

        def best(residuals: torch.Tensor) -> int:  # their order is that of the ridges
            order = torch.arange(len(residuals), dtype=torch.float64)
            return self._best(RidgePath(order, residuals, paths[0].y, torch.zeros_like(order), 0.0))

        def joined(ridges: tuple[float, ...], residuals: torch.Tensor) -> RidgePath:
            errors = {float(r): float(e) for path in paths for r, e in zip(path.ridges, path.error, strict=True)}
            return RidgePath(
                torch.tensor(ridges, dtype=torch.float64),
                residuals,
                paths[0].y,
                torch.tensor([errors.get(ridge, torch.inf) for ridge in ridges], dtype=torch.float64),
                max(path.unsolved for path in paths),
            )

        scale = float(kernel.diagonal(rows.to(torch.float64)).mean()) or 1.0
        found = search_grid([scale * ridge for ridge in RIDGES], judge, best, limits=ridge_limits(len(rows), scale))
        return joined(found.values, found.judged), found.place, found.on_edge

    def _best(self, path: RidgePath) -> int:
        squared = path.mean_squared.numpy()
        usable = np.isfinite(squared) & _trusted(path).numpy()
        squared, loss = np.where(usable, squared, np.inf), np.where(usable, self._loss(path).numpy(), np.inf)
        return int(np.lexsort((-path.ridges.numpy(), squared, loss))[0])

    def _loss(self, path: RidgePath) -> torch.Tensor:
        raise NotImplementedError


class AttentionKernelRidgeCV(_OwnRidge, AttentionKernelRidge):
    """`AttentionKernelRidge` whose ridge has the least mean squared leave-one-out error of a grid (claim I1).

    Every ridge is judged from one reduction of K, no refit is made; the best one is then solved for as
    `AttentionKernelRidge` would. K is held in memory.

    Args:
        kernel: as for `AttentionKernelRidge`, like every parameter but `ridges`.
        ridges: the grid, each > 0, which is then searched as it is; "auto" starts with 20 ridges from 1e-4 to 100 times
            the mean diagonal of K and widens that while the choice lies on its edge.
        temperature: see there.
        order: see there.
        algorithm: see there; for the fit at the ridge chosen.
        tol: see there.
        random_state: see there.

    Attributes:
        ridge_: the ridge chosen.
        on_edge_: whether it is the least or the largest that was tried, so that a better one may lie beyond.
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
        ridges: Any = "auto",
        temperature: Any = "auto",
        order: Any = 3,
        algorithm: Any = "auto",
        tol: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.ridges = ridges
        self.temperature = temperature
        self.order = order
        self.algorithm = algorithm
        self.tol = tol
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
