"""The scikit-learn estimators that choose their own temperature and ridge, by exact leave-one-out errors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from ridgeformer.algorithms import Algorithm
from ridgeformer.core.errors import InputError, LogitRangeError, unknown_name
from ridgeformer.estimators import Array, AttentionKernelClassifier, AttentionKernelRidge
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import gamma
from ridgeformer.solving.likelihood import maximise_likelihood
from ridgeformer.solving.selection import RIDGES, TEMPERATURES, Chosen, choose_ridge, least, search_grid

__all__ = ["AttentionKernelClassifierCV", "AttentionKernelRidgeCV"]

CRITERIA = ("leave_one_out", "likelihood", "leave_one_out_likelihood")
"""What temperature and ridge are chosen by."""

ROUND_OFFS = 10
"""A ridge for rows in float32 is at least this many times the round-off of K, a bound on the norm of its error."""


class _OwnChoice:
    """Chooses temperature and ridge of least leave-one-out error; among equals the largest ridge."""

    ridges: Any
    by_class = False

    def _choose(self: Any, rows: torch.Tensor, targets: Array, root: Array) -> tuple[Kernel, float]:
        default = isinstance(self.ridges, str)
        if default and self.ridges != "auto":
            raise unknown_name("ridges", self.ridges, ["auto"])
        criterion, self.most_likely_ = getattr(self, "criterion", CRITERIA[0]), None
        if criterion not in CRITERIA:
            raise unknown_name("criterion", criterion, CRITERIA)
        if criterion != CRITERIA[0]:
            return self._most_likely(rows, targets, root, criterion)
        grid = RIDGES if default else self.ridges
        judged = np.column_stack([targets, root]) if self.fit_intercept else targets

        def choose(temperature: Any) -> Chosen:
            kernel = self._kernel(rows, temperature)
            kernel = kernel.within_range(rows) if isinstance(self.kernel, str) else kernel
            return choose_ridge(
                kernel, rows, judged, grid, rule=least, misclassified=self.by_class, absolute=not default,
                intercept=bool(self.fit_intercept),
            )  # fmt: skip

        searched = isinstance(self.temperature, str) and self.temperature == "search"
        if searched and self.kernel in ("exponential", "gaussian"):
            chosen, on_edge = self._search(choose, rows)
        else:
            chosen, on_edge = choose("auto" if searched else self.temperature), False
        path = chosen.path
        lost = ~path.trusted
        if bool(lost[chosen.place]) or (bool(lost.any()) and not default):
            warnings.warn(
                f"the leave-one-out errors of {int(lost.sum())} of {len(lost)} ridges (up to "
                f"{float(path.ridges[lost].max()):.1e}) are not determined in float64, so they are not chosen: "
                "leave them out.",
                ConvergenceWarning,
                stacklevel=5,
            )
        units = gamma(len(rows) + rows.shape[1] + 8, rows.dtype)  # of the products of K with a vector
        lost = float(chosen.kernel.entry_error(rows).double().square().sum())
        floor = ROUND_OFFS * (lost + units * float(chosen.kernel.diagonal(rows).double().sum()))
        ridge = chosen.ridge if not default or rows.dtype == torch.float64 else max(chosen.ridge, floor)
        self.path_, self.on_edge_, self.ridge_ = path, chosen.on_edge or on_edge, ridge
        inner = getattr(chosen.kernel, "inner", chosen.kernel)
        self.temperature_ = getattr(inner, "temperature", None)
        self.loo_errors_: Array = (path.misclassified if self.by_class else path.mean_squared).numpy()
        return chosen.kernel, ridge

    def _most_likely(
        self: Any, rows: torch.Tensor, targets: Array, root: Array, criterion: str
    ) -> tuple[Kernel, float]:
        """Return temperature and ridge of greatest likelihood of what the intercept leaves of the targets."""
        if not isinstance(self.ridges, str):
            raise InputError(f"ridges are given, but criterion {criterion!r} searches no grid: leave them at 'auto'.")
        searched = isinstance(self.temperature, str) and self.temperature == "search"
        found = maximise_likelihood(
            self._kernel(rows, "auto" if searched else self.temperature),
            rows,
            targets - root[:, None] * np.atleast_1d(self.intercept_),
            scale=None if isinstance(self.scale, str) else self.scale,
            fixed_temperature=not searched,
            leave_one_out=criterion == CRITERIA[2],
        )
        self.most_likely_, self.ridge_, self.on_edge_ = found, found.ridge, found.on_edge
        self.temperature_ = getattr(getattr(found.kernel, "inner", found.kernel), "temperature", None)
        return found.kernel, found.ridge

    def _search(self: Any, choose: Any, rows: torch.Tensor) -> tuple[Chosen, bool]:
        """Return the choice at the temperature of least error, and whether that lies on the edge of the grid."""
        plain = (rows[:, :-1] if self.weighted_ else rows).double()
        weight = rows[:, -1].double().square() if self.weighted_ else torch.ones(len(rows), dtype=torch.float64)
        length = float((weight * plain.square().sum(1)).sum() / weight.sum()) or 1.0
        found: dict[float, Chosen] = {}
        refused: list[LogitRangeError] = []

        def judge(multiples: list[float]) -> torch.Tensor:
            """Return the least error at each temperature, the number of rows misclassified first."""
            errors = []
            for multiple in multiples:
                try:
                    found[multiple] = choose(multiple * length)
                except LogitRangeError as error:
                    refused.append(error)
                    errors.append(torch.inf)
                    continue
                one = found[multiple]
                assert one.path is not None
                squared = float(one.path.mean_squared[one.place])
                errors.append(float(one.path.misclassified[one.place]) + 1e-9 * squared if self.by_class else squared)
            return torch.tensor(errors, dtype=torch.float64)

        choice = search_grid(TEMPERATURES, judge)
        if choice.value not in found:
            raise refused[0]
        return found[choice.value], choice.on_edge


class AttentionKernelRidgeCV(_OwnChoice, AttentionKernelRidge):
    """`AttentionKernelRidge` whose temperature and ridge have the least mean squared leave-one-out error (claim I1).

    At each temperature every ridge is judged from one reduction of K, no refit is made; the best one is then solved
    for as `AttentionKernelRidge` would. K is held in memory.

    Args:
        kernel: as for `AttentionKernelRidge`, like every parameter but `ridges`.
        ridges: the grid, each > 0, which is then searched as it is; "auto" starts with 20 ridges from 1e-4 to 100 times
            the mean diagonal of K and widens that while the choice lies on its edge.
        temperature: "search" tries 1, 1/2, ..., 1/16 of the mean squared row length and more while the choice lies on
            the edge (exponential and Gaussian kernels); a number or "auto" is taken as in `AttentionKernelRidge`.
        criterion: "leave_one_out" is the mean squared leave-one-out error; "likelihood" the marginal likelihood of the
            Gaussian process and "leave_one_out_likelihood" that of each target given the others, both climbed with
            exact gradients (`solving.maximise_likelihood`).
        order: see there.
        scale: see there.
        fit_intercept: see there.
        algorithm: see there; for the fit at the ridge chosen.
        tol: see there.
        random_state: see there.

    Attributes:
        ridge_: the ridge chosen.
        temperature_: the temperature chosen; None for a kernel without one.
        on_edge_: whether it is the least or the largest that was tried, so that a better one may lie beyond.
        loo_errors_: the mean squared leave-one-out error of every ridge, over rows and outputs.
        path_: the `RidgePath`, with every leave-one-out residual and what its error is.
        most_likely_: the `MostLikely`, in place of the last two, if a likelihood was the criterion; else None.
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
        kernel: str | Kernel = "exponential",
        *,
        ridges: Sequence[float] | str | None = "auto",
        temperature: float | str = "search",
        criterion: str = "leave_one_out",
        order: int = 3,
        scale: float | str = "auto",
        fit_intercept: bool = True,
        algorithm: str | Algorithm = "auto",
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.ridges = ridges
        self.temperature = temperature
        self.criterion = criterion
        self.order = order
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.tol = tol
        self.random_state = random_state


class AttentionKernelClassifierCV(_OwnChoice, AttentionKernelClassifier):
    """`AttentionKernelClassifier` whose temperature and ridge misclassify the fewest rows that were left out.

    Parameters and attributes are those of `AttentionKernelRidgeCV` and `AttentionKernelClassifier`; `loo_errors_` are
    fractions of rows. Ridges that are equal in that are compared by their mean squared error.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import StandardScaler
        >>> X, y = load_wine(return_X_y=True)
        >>> model = AttentionKernelClassifierCV().fit(StandardScaler().fit_transform(X), y)
        >>> bool(model.loo_errors_.min() < 0.03)
        True
    """

    by_class = True

    def __init__(
        self,
        kernel: str | Kernel = "exponential",
        *,
        ridges: Sequence[float] | str | None = "auto",
        temperature: float | str = "search",
        order: int = 3,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        priors: Sequence[float] | str | None = None,
        algorithm: str | Algorithm = "auto",
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.ridges = ridges
        self.temperature = temperature
        self.order = order
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.priors = priors
        self.algorithm = algorithm
        self.tol = tol
        self.random_state = random_state
