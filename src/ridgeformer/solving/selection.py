"""Choosing temperature and ridge by leave-one-out error, on grids that widen while the choice sits on an edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix
from ridgeformer.core.errors import InputError, LogitRangeError
from ridgeformer.kernels import Kernel
from ridgeformer.solving.ridge_path import ReducedKernel, RidgePath, leave_one_out_path

__all__ = [
    "LEAST_RIDGE", "RIDGES", "TEMPERATURES", "WIDENINGS", "Chosen", "GridChoice", "choose_kernel", "choose_ridge",
    "choose_ridge_of_matrix", "largest_good", "least", "ridge_limits", "search_grid",
]  # fmt: skip

LEAST_RIDGE = 1e-8
"""Least ridge tried, over the mean diagonal of K. For 1,000 rows float64 gives leave-one-out errors to about a part in
100,000 there, and fewer digits below."""

RIDGES = tuple(float(ridge) for ridge in torch.logspace(-4, 2, 20, dtype=torch.float64))
"""Where the default grid starts, over the mean diagonal of K: six decades, about three ridges in each."""

TEMPERATURES = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Where a search for the temperature starts, over the mean squared row length."""

WIDENINGS = 4
"""Times that a grid is widened at most; each time by half of its first length."""

Rule: TypeAlias = Callable[[Tensor], int]
"""Errors of every ridge, ascending, and row, (g, n), to the position of the choice."""


@dataclass(frozen=True, eq=False)
class GridChoice:
    """A choice from a grid, ascending as it was searched, with what was judged of each value.

    `on_edge` says that the choice still sits on an edge, because widening reached its limit: a better value may lie
    beyond.
    """

    values: tuple[float, ...]
    judged: Tensor
    place: int
    on_edge: bool

    @property
    def value(self) -> float:
        """The value chosen."""
        return self.values[self.place]


@dataclass(frozen=True, eq=False)
class Chosen:
    """A kernel and a ridge, chosen by leave-one-out error.

    Attributes:
        error: the least mean squared leave-one-out error, over rows and outputs.
        on_edge: whether temperature or ridge is still the least or the largest tried.
        path: every ridge tried with this kernel, with its residuals; None if chosen from a bare matrix.
        place: of the ridge in the path.
    """

    kernel: Kernel | None
    ridge: float
    error: float
    on_edge: bool
    path: RidgePath | None = field(default=None, repr=False)
    place: int = 0


def least(errors: Float[Tensor, "g n"]) -> int:
    """Return the position of the least mean error; of equals, the largest ridge."""
    means = errors.mean(1)
    return int((means == means.min()).nonzero().max())


def largest_good(errors: Float[Tensor, "g n"]) -> int:
    """Return the position of the largest ridge whose mean error is within one standard error of the least.

    Ridges that leave-one-out cannot tell apart differ in condition number and effective dimension; the largest is the
    simplest model, and the cheapest to solve.
    """
    means = errors.mean(dim=1)
    best = int(means.argmin())
    noise = float(errors[best].std()) / errors.shape[1] ** 0.5
    return int((means <= means[best] + noise).nonzero().max())


def choose_kernel(
    make_kernel: Callable[[float], Kernel],
    X: ArrayLike,
    y: ArrayLike,
    temperatures: Sequence[float],
    ridges: Sequence[float] = RIDGES,
    *,
    rule: Rule = largest_good,
) -> Chosen:
    """Choose the temperature of least mean squared leave-one-out error, each at its own ridge, and that ridge.

    Both grids widen while a choice is their first or last value.

    Args:
        make_kernel: temperature to kernel; a temperature that raises `LogitRangeError` is passed over.
        X: rows, (n, d).
        y: targets, (n,) or (n, outputs).
        temperatures: candidates.
        ridges: candidates, as multiples of the mean diagonal of K.
        rule: how a ridge is chosen from the errors of all.

    Raises:
        LogitRangeError: no temperature is within range.

    Example:
        >>> from ridgeformer.kernels import Gaussian
        >>> X = torch.linspace(-2, 2, 30, dtype=torch.float64)[:, None]
        >>> chosen = choose_kernel(Gaussian, X, X[:, 0].sin(), [0.1, 1.0, 10.0])
        >>> chosen.error < 1e-4
        True
    """
    found: dict[float, Chosen] = {}
    refused: list[LogitRangeError] = []

    def judge(taus: list[float]) -> Tensor:
        for tau in taus:
            try:
                found[tau] = choose_ridge(make_kernel(tau), X, y, ridges, rule=rule)
            except LogitRangeError as error:
                refused.append(error)
        return torch.tensor([found[tau].error if tau in found else inf for tau in taus], dtype=torch.float64)

    choice = search_grid(temperatures, judge)
    if choice.value not in found:
        raise refused[0]
    best = found[choice.value]
    return replace(best, on_edge=best.on_edge or choice.on_edge)


def choose_ridge(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    ridges: Sequence[float] = RIDGES,
    *,
    rule: Rule = largest_good,
    misclassified: bool = False,
    absolute: bool = False,
    intercept: bool = False,
) -> Chosen:
    """Choose a ridge by leave-one-out error, every ridge judged from one reduction of K (claim I1).

    Args:
        kernel: any kernel.
        X: rows, (n, d).
        y: targets, (n,) or (n, outputs).
        ridges: candidates, as multiples of the mean diagonal of K; widened while the choice is on an edge, down to
            what float64 determines.
        rule: how a ridge is chosen from the errors of all, squared and averaged over outputs.
        misclassified: choose by the fraction of rows misclassified instead, and among equals by `rule`; targets are
            +1 and -1.
        absolute: take the candidates as they are, neither scaled nor widened.
        intercept: judge the regression with the mean of the targets as intercept; the last column of y is then the
            root of each row's weight, or one.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> X = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
        >>> choose_ridge(DotProduct(), X, [1.0, 2.1, 2.9], [0.1, 10.0], absolute=True).ridge
        0.1
    """
    rows = as_matrix(X, "X").detach()
    reduction = ReducedKernel(kernel, rows, y)

    def solved(values: Sequence[float]) -> RidgePath:
        path = reduction.path(values)
        return path.with_intercept() if intercept else path

    def choose(judged: Tensor) -> int:
        """Apply the rule to the ridges that misclassify the fewest rows, or to all."""
        errors, wrong = judged[:, :-1], judged[:, -1]
        return rule(torch.where((wrong == wrong.min())[:, None], errors, inf) if misclassified else errors)

    if absolute:
        path = solved(ridges)
        order = path.ridges.argsort()
        place = int(order[choose(_judged(path)[order])])
        on_edge = len(order) > 1 and place in (int(order[0]), int(order[-1]))
        return Chosen(kernel, float(path.ridges[place]), _least_error(path), on_edge, path, place)
    scale = float(kernel.diagonal(rows.to(torch.float64)).mean()) or 1.0
    paths: list[RidgePath] = []

    def judge(values: list[float]) -> Tensor:
        try:
            paths.append(solved([value * scale for value in values]))
        except InputError:
            if not paths:
                raise
            return torch.full((len(values), len(rows) + 1), inf, dtype=torch.float64)
        return _judged(paths[-1])

    found = search_grid(ridges, judge, choose, limits=ridge_limits(len(rows)))
    path = RidgePath.joined(paths)
    place = int((path.ridges - found.value * scale).abs().argmin())
    return Chosen(kernel, float(path.ridges[place]), _least_error(path), found.on_edge, path, place)


def _judged(path: RidgePath) -> Tensor:
    """Return squared errors by ridge and row and, in a last column, the fraction of rows misclassified.

    Both are infinite where float64 does not determine them.
    """
    both = torch.cat([path.residuals.square().mean(2), path.misclassified[:, None]], 1)
    return torch.where(path.trusted[:, None], both, inf).nan_to_num(nan=inf)


def _least_error(path: RidgePath) -> float:
    return float(torch.where(path.trusted, path.mean_squared, inf).min())


def choose_ridge_of_matrix(
    K: Float[Tensor, "n n"], y: Float[Tensor, "n r"], ridges: Sequence[float] = RIDGES, *, rule: Rule = largest_good
) -> Chosen:
    """Choose a ridge for a kernel matrix at hand, as `choose_ridge` does.

    Example:
        >>> y = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
        >>> choose_ridge_of_matrix(torch.eye(2, dtype=torch.float64), y).ridge > 10  # nothing is learnt from other rows
        True
    """
    scale = float(K.diagonal().mean())

    def judge(values: list[float]) -> Tensor:
        return leave_one_out_path(K, y, [value * scale for value in values]).square().mean(dim=2)

    found = search_grid(ridges, judge, rule, limits=ridge_limits(len(K)))
    return Chosen(None, found.value * scale, float(found.judged.mean(1).min()), found.on_edge)


def search_grid(
    grid: Sequence[float],
    judge: Callable[[list[float]], Tensor],
    choose: Callable[[Tensor], int] = lambda errors: int(errors.argmin()),
    *,
    limits: tuple[float, float] = (0.0, inf),
) -> GridChoice:
    """Choose from a grid of positive values, widening it geometrically while the choice is its first or last value.

    A choice on the edge says only that the grid is too short, and a method whose grid is too short loses to one whose
    grid is not. A grid of one value is taken as it is, and values beyond `limits` are not tried. `judge` returns one
    entry for each of ascending values, stacked along the first axis; `choose` picks one of all entries by its position.

    Example:
        >>> found = search_grid([1.0, 2.0, 4.0], lambda values: torch.tensor([abs(v - 30.0) for v in values]))
        >>> found.value, found.values[-1], found.on_edge
        (32.0, 64.0, False)
    """
    values = sorted(set(grid))
    judged, step = judge(values), max(1, len(values) // 2)
    for _ in range(WIDENINGS):
        place = choose(judged)
        if len(values) == 1 or place not in (0, len(values) - 1):
            break
        edge, inner = (values[0], values[1]) if place == 0 else (values[-1], values[-2])
        beyond = [edge * (edge / inner) ** k for k in range(1, step + 1)]
        new = sorted(value for value in beyond if limits[0] <= value <= limits[1])
        if not new:
            break
        parts = [(new, judge(new)), (values, judged)]
        (first, one), (second, other) = parts if new[0] < values[0] else parts[::-1]
        values, judged = [*first, *second], torch.cat([one, other])
    place = choose(judged)
    return GridChoice(tuple(values), judged, place, len(values) > 1 and place in (0, len(values) - 1))


def ridge_limits(n: int, scale: float = 1.0) -> tuple[float, float]:
    """Return the ridges between which a search makes sense, for n rows and a kernel whose mean diagonal is `scale`.

    No eigenvalue of K exceeds n times the mean diagonal, so ten times that leaves less than a tenth of any target.
    """
    return LEAST_RIDGE * scale, 10 * n * scale
