"""Every ridge of a grid from one reduction of K, with the leave-one-out residuals of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, inf, sqrt
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix, as_targets, positive
from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import free_bytes
from ridgeformer.core.products import thin_product
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import gamma
from ridgeformer.solving.band import BandFactor, BandForm, band_form
from ridgeformer.solving.direct import factorise_in_place, inverse_diagonal, solve_with_factor
from ridgeformer.solving.engines import Engine, Stored
from ridgeformer.solving.engines.stored import assemble
from ridgeformer.solving.fit import leave_one_out_residual
from ridgeformer.solving.system import RidgeSystem, check_memory, exact_unit, scaled_system

__all__ = ["ReducedKernel", "RidgePath", "leave_one_out_path", "ridge_path"]

EXACT_ROWS = 2000
"""Largest n at which the path is computed in float64 by an eigendecomposition; above in float32, and checked."""

PROBES = 16
"""Rows at which the float32 diagonal is compared with one refined to float64."""

TRUSTED = 0.1
"""Relative error of the leave-one-out residuals up to which a ridge may be chosen."""

FEW = 4
"""Ridges that are worth a float64 factorisation each; more share a reduction."""

PASSES, SOLVED = 3, 1e-2
"""Refinements against the float64 residual at most, and the relative residual at which they end, over `tol`."""


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Kernel ridge regression at every ridge of a grid, judged by leaving each row out.

    Attributes:
        ridges: (g,), as given.
        residuals: (g, n, outputs), y_i - f_{-i}(x_i) in float64: exact up to `error`; 0 where that is infinite.
        y: the targets, (n, outputs).
        error: (g,), the relative error of the diagonal of (K + ridge I)^-1, to which the residuals are inversely
            proportional. Up to 2,000 rows it is a proved bound; above, it is measured at 16 rows at the least ridge
            of those done in the same precision, where it is largest.
        unsolved: the largest relative residual of the systems solved, against K in float64.
        residual_bound: (g, n, outputs), proved bounds on the error of `residuals`, round-off and the error of K's
            entries included; None above 2,000 rows.
    """

    ridges: Float[Tensor, " g"]
    residuals: Float[Tensor, "g n outputs"] = field(repr=False)
    y: Float[Tensor, "n outputs"] = field(repr=False)
    error: Float[Tensor, " g"]
    unsolved: float
    residual_bound: Float[Tensor, "g n outputs"] | None = field(default=None, repr=False)

    @classmethod
    def joined(cls, paths: Sequence[RidgePath]) -> RidgePath:
        """Return several paths of one regression as one, by ascending ridge."""
        order = torch.cat([path.ridges for path in paths]).argsort()
        bounds = [path.residual_bound for path in paths]
        held = [bound for bound in bounds if bound is not None]
        return cls(
            torch.cat([path.ridges for path in paths])[order],
            torch.cat([path.residuals for path in paths])[order],
            paths[0].y,
            torch.cat([path.error for path in paths])[order],
            max(path.unsolved for path in paths),
            torch.cat(held)[order] if len(held) == len(paths) else None,
        )

    def with_intercept(self) -> RidgePath:
        """Return the path of the regression with the mean of the targets as intercept, each row's without that row.

        The last column of this path must be the response to the roots of the weights (ones without weights). Residuals
        are linear in the targets, so they are those of the targets minus the mean times those of the last column.
        """
        targets, root = self.y[:, :-1], self.y[:, -1:]
        weight = root.square()
        mean = ((root * targets).sum(0) - root * targets) / (weight.sum() - weight)
        residuals, unit = self.residuals[:, :, :-1], self.residuals[:, :, -1:]
        bound = self.residual_bound
        wider = None if bound is None else bound[:, :, :-1] + mean.abs() * bound[:, :, -1:]
        return RidgePath(self.ridges, residuals - mean * unit, targets, self.error, self.unsolved, wider)

    @property
    def trusted(self) -> Bool[Tensor, " g"]:
        """Which ridges have leave-one-out errors that are right to a few digits."""
        return (self.error <= TRUSTED) & torch.tensor(self.unsolved <= TRUSTED)

    @property
    def mean_squared(self) -> Float[Tensor, " g"]:
        """The mean squared leave-one-out error of every ridge, over rows and outputs."""
        return self.residuals.square().mean((1, 2))

    @property
    def misclassified(self) -> Float[Tensor, " g"]:
        """The fraction of rows whose class is not found without them.

        Targets are +1 and -1, one column a class, or one column for two classes.
        """
        left_out = self.y - self.residuals
        if self.y.shape[1] == 1:
            return ((left_out > 0) != (self.y > 0)).double().mean((1, 2))
        return (left_out.argmax(2) != self.y.argmax(1)).double().mean(1)


def ridge_path(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    ridges: Iterable[float],
    *,
    tol: float = 1e-3,
    seed: int = 0,
) -> RidgePath:
    """Return the leave-one-out residuals of every ridge of a grid, without a refit (claim I1).

    Holds for positive semidefinite kernels. Up to 2,000 rows everything is float64, and the error of every residual is
    bounded. Above, K is reduced once in float32 to block tridiagonal form; coefficients are refined against the float64
    kernel, and the diagonal is checked at random rows. Ridges too small to pass that check (`tol`) are done in float64.

    Args:
        kernel: any kernel of `ridgeformer.kernels`, or your own `Kernel`.
        X: rows, (n, d).
        y: targets, (n,) or (n, outputs).
        ridges: the grid, each > 0.
        tol: relative error of a leave-one-out residual that is accepted without float64.
        seed: of the rows that are checked.

    Raises:
        InputError: a ridge is not positive, or below the round-off of K; or K does not fit into memory.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> ridge_path(DotProduct(), [[1.0], [2.0]], [1.0, 2.0], [1.0, 4.0]).residuals[:, 0, 0]  # 1 - 2 * 2/(4 + ridge)
        tensor([0.2000, 0.5000], dtype=torch.float64)
    """
    return ReducedKernel(kernel, X, y, tol=tol, seed=seed).path(ridges)


class ReducedKernel:
    """K reduced once, from which every ridge follows; arguments as for `ridge_path`."""

    def __init__(self, kernel: Kernel, X: ArrayLike, y: ArrayLike, *, tol: float = 1e-3, seed: int = 0) -> None:
        X = as_matrix(X, "X").detach()
        self.kernel, self.X, self.tol = kernel, X.to(torch.float64), tol
        self.y = as_targets(y, X).detach().reshape(len(X), -1)
        self.unit = exact_unit(self.y)
        self.probes = torch.randperm(len(X), generator=torch_generator(seed, "probes"))[:PROBES].to(X.device)
        self._forms: dict[torch.dtype, BandForm] = {}
        self._stored: Stored | None = None
        self._system: RidgeSystem | None = None

    def path(self, ridges: Iterable[float] | float) -> RidgePath:
        """Return the leave-one-out residuals of these ridges."""
        grid = _grid(ridges)
        with torch.no_grad():
            if self._system is None:
                self._system, self.log_scale = scaled_system(self.kernel, self.X, min(grid))
            scaled = [ridge * exp(-self.log_scale) for ridge in grid]
            if min(scaled) < torch.finfo(torch.float64).tiny:
                raise InputError(f"ridge is {min(grid):g}, too small to be represented beside K: raise it.")
            given, bound = torch.tensor(grid, dtype=torch.float64), None
            if len(self.X) <= EXACT_ROWS:
                residuals, bound, error, unsolved = self._by_eigenvalues(self._system, scaled)
            else:
                residuals, error, unsolved = self._checked(self._system, scaled)
            # A residual that rounding carries beyond float64 is not known at all: 0, with an infinite error.
            residuals = residuals * self.unit
            known = torch.isfinite(residuals)
            error = torch.where(known.all(dim=2).all(dim=1).cpu(), error, torch.inf)
            if bound is not None:
                bound = torch.where(known, bound * self.unit + 2.0**-1074, torch.inf)
            return RidgePath(given, torch.where(known, residuals, 0.0), self.y, error, unsolved, bound)

    @cached_property
    def _decomposition(self) -> tuple[Tensor, Tensor, float, float]:
        """Eigenvalues and eigenvectors of K, and bounds e on |K - Q L Q'| and q on |I - Q'Q|."""
        assert self._system is not None
        K, n = self._system.matrix, self._system.n
        values, Q = torch.linalg.eigh(K)
        values, w = values.clamp_min(0), self._system.kernel.entry_error(self._system.X)
        # the two products round by at most gamma times |Q| L |Q|' and |Q|'|Q|, whose norms are at most tr L and n
        rounding = gamma(n + 8, torch.float64) * 1.01
        e = float((K - (Q * values) @ Q.T).norm()) + rounding * float(values.sum() + K.norm()) + float(w.square().sum())
        q = float((Q.T @ Q - torch.eye(n).to(Q)).norm()) + rounding * n
        return values, Q, e, q

    def _by_eigenvalues(
        self, system: RidgeSystem, ridges: list[float]
    ) -> tuple[Tensor, Tensor, Float[Tensor, " g"], float]:
        """Return leave-one-out residuals, bounds on their errors and on those of R's diagonal, and the residual left.

        With K = Q L Q' as computed, D = L + ridge I, |K - Q L Q'| <= e and |I - Q'Q| <= q, Q'AQ = D + F where
        |D^-1/2 F D^-1/2| <= eps = (1 + q) e / ridge + 2 q sqrt(L_1 / ridge) + q^2 L_1 / ridge + q. So R = A^-1 lies
        between Q D^-1 Q' / (1 + eps) and Q D^-1 Q' / (1 - eps), and so does its diagonal. A coefficient errs by
        e_i'R r, at most sqrt(R_ii / ridge) |r|, r being the residual.
        """
        K, n, y = system.matrix, system.n, self.y / self.unit
        values, Q, e, q = self._decomposition
        top = float(values[-1])
        rotated, norms = Q.T @ y, y.norm(dim=0)
        residuals, bounds, errors, unsolved = [], [], [], 0.0
        for ridge in ridges:
            inverse = 1 / (values + ridge)
            alpha, diagonal = Q @ (inverse[:, None] * rotated), Q.square() @ inverse
            left = y - K @ alpha - ridge * alpha
            r = left.norm(dim=0) + system.residual_roundoff(alpha, y, ridge)
            eps = (
                (1 + q) * e / ridge + 2 * q * sqrt(top / ridge) + q * q * top / ridge + q + gamma(n + 8, torch.float64)
            )
            found = leave_one_out_residual(alpha, diagonal)
            moved = ((1 + eps) / (diagonal * ridge)).sqrt()[:, None] * r
            residuals.append(found)
            bounds.append((moved + eps * found.abs()) * (1 + gamma(n + 32, torch.float64)))
            errors.append(eps)
            unsolved = max(unsolved, float((left.norm(dim=0) / torch.where(norms > 0, norms, 1.0)).max()))
        bound = torch.stack(bounds).nan_to_num(nan=torch.inf, posinf=torch.inf)
        return torch.stack(residuals), bound, torch.tensor(errors, dtype=torch.float64), unsolved

    def _checked(self, system: RidgeSystem, ridges: list[float]) -> tuple[Tensor, Float[Tensor, " g"], float]:
        """Return leave-one-out residuals, the error of each ridge's diagonal, and the largest residual left.

        The larger ridges are done in float32, down to the least at which it holds what it must, which is found by
        bisection; only those below are done in float64.
        """
        order = sorted(range(len(ridges)), key=ridges.__getitem__)
        served, error = 0, self._error_in_float32(system, ridges[order[0]])
        if error > self.tol:  # at `refused` it does not serve, at `served` it does
            refused, served = 0, len(order)
            while served - refused > 1:
                middle = (refused + served) // 2
                found = self._error_in_float32(system, ridges[order[middle]])
                if found <= self.tol:
                    served, error = middle, found
                else:
                    refused = middle
        parts = []
        if above := order[served:]:
            residuals, unsolved = self._by_band(system, [ridges[i] for i in above], torch.float32)
            # what was not solved was not served: those below the last such ridge neither
            lost = next((k + 1 for k in reversed(range(len(above))) if unsolved[k] > self.tol), 0)
            served += lost
            parts.append((above[lost:], residuals[lost:], error, unsolved[lost:]))
        if below := order[:served]:
            few = [ridges[i] for i in below]
            parts.append((below, *(self._by_cholesky if len(few) <= FEW else self._by_band64)(system, few)))
        residuals, errors, largest = (
            self.y.new_empty(len(ridges), *self.y.shape),
            torch.empty(len(ridges)).double(),
            0.0,
        )
        for places, found_residuals, found_error, left in parts:
            residuals[places], errors[places] = found_residuals, found_error
            largest = max(largest, *(float(one) for one in left), 0.0)
        return residuals, errors, largest

    def _form(self, system: RidgeSystem, dtype: torch.dtype) -> tuple[Stored, BandForm]:
        """Return K and its reduction in a precision, made once."""
        if dtype not in self._forms:
            check_memory(system.n, dtype)
            # two matrices for the reduction and, if there is room, K in float64, also for the residuals
            if self._stored is None or dtype == torch.float64 != self._stored.dtype:
                roomy = (2 * dtype.itemsize + 8) * system.n**2 <= free_bytes()
                self._stored = Stored(system.kernel, system.X, torch.float64 if roomy else dtype)
            self._forms[dtype] = band_form(self._stored.K, dtype=dtype)
        assert self._stored is not None
        return self._stored, self._forms[dtype]

    def _units(self) -> Tensor:
        units = self.X.new_zeros(len(self.X), len(self.probes))
        units[self.probes, torch.arange(len(self.probes))] = 1
        return units

    def _error_at_probes(self, diagonal: Tensor, solved: Tensor) -> float:
        """Return the relative error of the inverse's diagonal at the probes, given its columns there."""
        exact = solved[self.probes, torch.arange(len(self.probes))]
        return float((diagonal.double() / exact - 1).abs().max())

    def _error_in_float32(self, system: RidgeSystem, ridge: float) -> float:
        """Return how far float32 is off at the probes, or what refinement leaves of them if that is more."""
        try:
            engine, form = self._form(system, torch.float32)
            factor = form.factor(ridge)
        except InputError:  # the ridge or the logits are beyond float32
            return inf
        (solved,), unsolved = _refine(engine, form, [factor], [ridge], [self._units()], SOLVED * self.tol)
        return max(self._error_at_probes(factor.inverse_diagonal(self.probes), solved), float(unsolved[0]))

    def _by_band(self, system: RidgeSystem, ridges: list[float], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the leave-one-out residuals, and what is left of each ridge's systems."""
        engine, form = self._form(system, dtype)
        factors = form.factors(ridges)
        solved, unsolved = _refine(engine, form, factors, ridges, [self.y / self.unit] * len(ridges), SOLVED * self.tol)
        pairs = zip(solved, (factor.inverse_diagonal().double() for factor in factors), strict=True)
        return torch.stack([leave_one_out_residual(x, diagonal) for x, diagonal in pairs]), unsolved

    def _by_band64(self, system: RidgeSystem, ridges: list[float]) -> tuple[Tensor, float, Tensor]:
        """Return the same in float64, and the error of the diagonal at the least ridge."""
        residuals, unsolved = self._by_band(system, ridges, torch.float64)
        engine, form = self._form(system, torch.float64)
        factor = form.factor(min(ridges))
        (solved,), _ = _refine(engine, form, [factor], [min(ridges)], [self._units()], SOLVED * self.tol)
        return residuals, self._error_at_probes(factor.inverse_diagonal(self.probes), solved), unsolved

    def _by_cholesky(self, system: RidgeSystem, ridges: list[float]) -> tuple[Tensor, float, Tensor]:
        """Return the same for a few ridges, each by a factorisation of its own: two fits against eight of a reduction.

        Raises:
            InputError: a ridge is below the round-off of K.
        """
        check_memory(system.n, torch.float64)
        kept = None if self._stored is None else self._stored.exact
        K = assemble(system.kernel, system.X, torch.float64, torch.float64) if kept is None else kept
        b, columns = torch.cat([self.y / self.unit, self._units()], 1), self.y.shape[1]
        residuals, error, unsolved = [], 0.0, []
        for ridge in ridges:
            factor, x, left = K.clone(), torch.zeros_like(b), b
            if not factorise_in_place(factor, ridge):
                raise InputError(f"ridge is {ridge:.3g}, below the round-off of K in {K.dtype}: raise it.")
            for _ in range(2):  # the second refines
                x = x + solve_with_factor(factor, left)
                left = b - thin_product(K, x) - ridge * x
            diagonal = inverse_diagonal(factor)
            error = max(error, self._error_at_probes(diagonal[self.probes], x[:, columns:]))
            residuals.append(leave_one_out_residual(x[:, :columns], diagonal))
            unsolved.append(_largest(left[:, :columns], b[:, :columns]))
        return torch.stack(residuals), error, torch.tensor(unsolved, dtype=torch.float64)


def _grid(ridges: Any) -> list[float]:
    try:
        given = list(ridges)
    except TypeError:
        raise InputError(f"ridges is {ridges!r}; a sequence of positive numbers was expected.") from None
    if not given:
        raise InputError("ridges is empty; at least one positive number was expected.")
    return [positive(ridge, "ridge", "without it the system may be singular") for ridge in given]


def _refine(
    engine: Engine, form: BandForm, factors: list[BandFactor], ridges: list[float], sides: list[Tensor], tol: float
) -> tuple[list[Tensor], Float[Tensor, " g"]]:
    """Solve (K + ridge I) x = side for each ridge; all of them share every product with the float64 kernel.

    A ridge is refined until its largest relative residual is `tol`. Also returned is what each has reached.
    """
    found, left = [torch.zeros_like(side) for side in sides], list(sides)
    scales = [torch.where(side.norm(dim=0) > 0, side.norm(dim=0), 1.0) for side in sides]
    unsolved, todo = torch.full((len(sides),), inf, dtype=torch.float64), list(range(len(sides)))
    for _ in range(PASSES):
        widths = [sides[i].shape[1] for i in todo]
        rotated = form.rotated(torch.cat([left[i] / scales[i] for i in todo], 1).to(form.dtype)).split(widths, 1)
        steps = torch.cat([factors[i].solve_rotated(part) for i, part in zip(todo, rotated, strict=True)], 1)
        for i, step in zip(todo, form.turned_back(steps).split(widths, 1), strict=True):
            found[i] = found[i] + scales[i] * step
        products = engine.matmat64(torch.cat([found[i] for i in todo], 1)).split(widths, 1)
        for i, product in zip(todo, products, strict=True):
            left[i] = sides[i] - product - ridges[i] * found[i]
            unsolved[i] = _largest(left[i], sides[i])
        todo = [i for i in todo if not unsolved[i] <= tol]
        if not todo:
            break
    return found, unsolved


def _largest(left: Tensor, side: Tensor) -> float:
    """Return the largest norm of a column left over that of its right-hand side."""
    size = side.norm(dim=0)
    return float((left.norm(dim=0) / torch.where(size > 0, size, 1.0)).max())


def leave_one_out_path(
    K: Float[Tensor, "n n"], y: Float[Tensor, "n r"], ridges: Sequence[float]
) -> Float[Tensor, "g n r"]:
    """Return y_i - f_{-i}(x_i), the residual at each row of the fit without it, for every ridge.

    Holds for positive semidefinite K: n refits cost one eigendecomposition. Eigenvalues that round-off made
    negative count as zero.

    Example:
        >>> K = torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
        >>> y = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
        >>> leave_one_out_path(K, y, [1.0])[0, 0]  # 1 - 0.5 * 2 / (1 + 1)
        tensor([0.5000], dtype=torch.float64)
    """
    values, Q = torch.linalg.eigh(K)
    values = values.clamp_min(0)
    rotated = Q.T @ y
    residuals = []
    for ridge in ridges:
        inverse = 1 / (values + positive(ridge, "ridge", "without it the system may be singular"))
        alpha = Q @ (inverse[:, None] * rotated)
        residuals.append(leave_one_out_residual(alpha, Q.square() @ inverse))
    return torch.stack(residuals)
