"""A solved regression: how it ended, how wrong it can be, and what is expensive, computed once and kept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, exp, inf, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.algorithms import Algorithm, Direct
from ridgeformer.core.checks import ArrayLike, as_query
from ridgeformer.core.errors import InputError
from ridgeformer.intervals import Interval, Posterior, PredictionSet, log_likelihood
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import BLOCK_ENTRIES, gamma, underflow
from ridgeformer.solving.centre_features import CentreFeatures
from ridgeformer.solving.direct import Inverse, factorise_in_place, inverse_diagonal
from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues
from ridgeformer.solving.plan import FACTORISED, Plan
from ridgeformer.solving.predictions import Predictions, UnansweredWarning, name_unanswered, nearest_distance
from ridgeformer.solving.run import Doubling, Run, Status
from ridgeformer.solving.system import check_memory
from ridgeformer.solving.uncertainty import FOLDS, fit_interval, fit_posterior, fit_set

__all__ = ["Fit", "leave_one_out_residual"]

SPARE = 1 + 2.0**-40
"""Pays for the rounding of a bound's own evaluation."""

COMPARED, OUTSIDE = 1000, 0.01
"""Training rows whose distance to their nearest neighbour is measured, and the fraction of them allowed beyond it."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Kernel ridge regression, solved: f(x) = k(x)'alpha, and a bound on its distance from the exact f*.

    Attributes:
        alpha: the coefficients, shaped like the targets. They belong to `kernel`, which is e^-log_scale
            times the one asked for; predictions do not depend on that.
        status: how it ended. Anything but `converged` means the tolerance was not reached.
        advice: one sentence on that, with the numbers, and what to do.
        steps: iterations taken.
        residuals: (steps + 1, outputs), the algorithm's own ||r_t|| / ||y||, from 1 at the start.
        residual_norm: per output, ||y - (K + ridge I) alpha|| computed at the end in float64.
        roundoff: per output, how much that number itself can be off; it is added in every bound.
        spectrum: estimates of the extreme eigenvalues of the matrix worked with.
        kernel_roundoff: the size below which an eigenvalue of the computed K cannot be told from zero.
        iterates: (steps, n, outputs), if they were asked for.
        direct_factor: the float64 Cholesky factor of a direct solve, which tightens `prediction_bound`.
        kernel, X, ridge, algorithm: what was solved, and how.
        log_scale: the rescaling that was applied to keep the exponential in range; usually 0.
        plan: which algorithm and engine were chosen, in which precision, with how much memory, and why.
        y: the targets, shaped as given, in float64.
        fit_error: after `algorithm="nystrom"`, per output, an estimate of the root mean square difference
            between this fit and that of all rows, over the training rows.
        doublings: after it, what each number of centres came to; one entry unless they were doubled.
        centres: after it, the numbers of the rows that are centres.
        left_out_sample: after it, leave-one-out residuals at up to 2,000 random rows, (rows, outputs). Where columns of
            K are not kept, the weight of a row in its own prediction is estimated from other rows.
    """

    alpha: Tensor
    status: Status
    advice: str
    steps: int
    residuals: Tensor = field(repr=False)
    residual_norm: Tensor
    roundoff: Tensor = field(repr=False)
    target_norm: Tensor = field(repr=False)
    spectrum: ExtremeEigenvalues
    kernel: Kernel
    X: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    ridge: float
    algorithm: Algorithm
    kernel_roundoff: float = field(repr=False)
    log_scale: float = 0.0
    iterates: Tensor | None = field(default=None, repr=False)
    direct_factor: Tensor | None = field(default=None, repr=False)
    plan: Plan | None = field(default=None, repr=False)
    fit_error: Tensor | None = None
    doublings: tuple[Doubling, ...] = field(default=(), repr=False)
    centres: Tensor | None = field(default=None, repr=False)
    left_out_sample: Tensor | None = field(default=None, repr=False)

    @classmethod
    def of(cls, run: Run, X: Tensor, y: Tensor, log_scale: float) -> Fit:
        """Return the fit of a finished run, in the units and the precision of the caller."""
        system, unit = run.system, run.system.unit
        alpha = system.values(run.alpha)
        small = (alpha != 0) & (alpha.abs() < torch.finfo(alpha.dtype).tiny)
        if run.centres is None:  # other rows have none
            small |= (alpha == 0) & (system.y != 0)
        assert run.spectrum is not None
        return cls(
            alpha=alpha.reshape(y.shape),
            status=run.status,
            advice=run.advice(subnormal=run.steps > 0 and bool(small.any())),
            steps=run.steps,
            residuals=torch.stack(run.relative),
            residual_norm=run.residual.norm(dim=0) * unit,
            roundoff=system.residual_roundoff(run.alpha, system.y) * unit + 2.0**-1074,  # what the unit may lose
            target_norm=(system.y.norm(dim=0) * unit).clamp_max(torch.finfo(torch.float64).max),
            spectrum=run.spectrum,
            kernel=system.kernel,
            X=X,
            y=y,
            ridge=system.ridge,
            algorithm=run.plan.algorithm,
            kernel_roundoff=system.kernel_roundoff,
            log_scale=log_scale,
            iterates=torch.stack([system.values(one) for one in run.iterates]) if run.iterates else None,
            direct_factor=run.factor,
            plan=run.plan,
            fit_error=None if run.fit_error is None else run.fit_error * unit,
            doublings=tuple(
                replace(one, left_out=one.left_out * unit, change=None if one.change is None else one.change * unit)
                for one in run.doublings
            ),
            centres=run.centres,
            left_out_sample=None if run.left_out_sample is None else run.left_out_sample * unit,
        )

    @property
    def converged(self) -> bool:
        """Whether the float64 residual met the tolerance."""
        return self.status is Status.CONVERGED

    @property
    def relative_residual(self) -> float:
        """The largest ||y - A alpha|| / ||y|| over the outputs, in float64."""
        return float((self.residual_norm / torch.where(self.target_norm > 0, self.target_norm, 1.0)).max())

    # -- computed once, on demand ------------------------------------------------------------------

    @cached_property
    def K(self) -> Float[Tensor, "n n"]:  # noqa: N802 -- the symbol of the theory
        """The kernel matrix of the training rows, in their precision."""
        with torch.no_grad():
            return self.kernel.dense(self.X, self.X)

    @cached_property
    def factor(self) -> Float[Tensor, "n n"]:
        """The Cholesky factor L of A = K + ridge I, in the precision of the rows.

        Raises:
            InputError: A is singular in this precision, or its factor does not fit into memory.
        """
        if self.direct_factor is not None:
            return self.direct_factor
        check_memory(len(self.X), self.X.dtype)
        A = self.K.clone()
        if not factorise_in_place(A, self.ridge):
            raise self._singular
        return A.tril_()

    @property
    def _singular(self) -> InputError:
        dtype, lost = self.X.dtype, self.kernel_roundoff
        why = f"is below the round-off of K, about {lost:.1g}" if self.ridge <= lost else "is too small beside K"
        return InputError(
            f"K + ridge I is singular in {dtype}: the ridge {self.ridge:.3g} {why}, and influences divide by what is "
            f"lost there: raise the ridge{'' if dtype == torch.float64 else ', or use float64'}."
        )

    @property
    def inverse(self) -> Inverse:
        """R = (K + ridge I)^-1 as an operator: `fit.inverse @ V`."""
        return Inverse(self.factor)

    @cached_property
    def on_centres(self) -> CentreFeatures:
        """A fit on centres as ridge regression in their features, with its exact leave-one-out and influences.

        Raises:
            InputError: the fit is no finished one on centres.
        """
        if self.status is not Status.SUBSET or self.centres is None:
            raise InputError(f"this fit ended as {self.status.value!r}: one on centres is 'subset'.")
        y, n = self.y.reshape(len(self.X), -1), len(self.X)
        uniform = self.plan is not None and n * self.plan.rank > FACTORISED
        return CentreFeatures(self.kernel, self.X, y, self.centres, self.ridge, uniform)

    @cached_property
    def inverse_diagonal(self) -> Float[Tensor, " n"]:
        """The diagonal of R; for a fit on centres that of its own kernel (`on_centres`)."""
        return self.on_centres.inverse_diagonal if self.status is Status.SUBSET else inverse_diagonal(self.factor)

    @cached_property
    def eigenvalues(self) -> Float[Tensor, " n"]:
        """The eigenvalues of K, descending, in the precision of the rows."""
        return torch.linalg.eigvalsh(self.K).flip(0)

    @property
    def leverage(self) -> Float[Tensor, " n"]:
        """The diagonal of K R: the weight of each training row in its own prediction, between 0 and 1."""
        return 1 - self.ridge * self.inverse_diagonal

    @cached_property
    def leave_one_out(self) -> Tensor:
        """y_i - f_{-i}(x_i), shaped like the targets: the residual at each row of the fit without it (claim I1).

        Exact for a fit on centres too, of which it is the fit without the target of that row on the same centres.
        """
        if self.status is Status.SUBSET:
            return self.on_centres.leave_one_out.reshape(self.alpha.shape)
        return leave_one_out_residual(self.exact_alpha, self.inverse_diagonal).reshape(self.alpha.shape)

    @property
    def exact_alpha(self) -> Float[Tensor, "n r"]:
        """The coefficients as columns, for formulas that hold for the exact fit of all rows only.

        Raises:
            InputError: the fit has not converged, is one on centres, or is of a singular system.
        """
        if not self.converged:
            if isinstance(self.algorithm, Direct):  # nothing is more exact: the system itself is to blame
                raise self._singular
            raise InputError(
                f"this fit ended as {self.status.value!r}, and leave-one-out needs the exact fit of all rows: solve "
                "with algorithm='direct', or allow more steps."
            )
        return self.alpha.reshape(len(self.X), -1)

    # -- uncertainty -------------------------------------------------------------------------------

    def interval(
        self,
        Xq: ArrayLike,
        level: float = 0.9,
        method: str = "jackknife+",
        *,
        calibration: tuple[ArrayLike, ArrayLike] | None = None,
        folds: int = FOLDS,
        seed: int = 0,
        probes: int | None = None,
    ) -> Interval:
        """Return an interval for a new target at every query, with what is guaranteed about its coverage.

        Args:
            Xq: queries.
            level: the nominal coverage.
            method: "jackknife+", "cv+" or "full" from exact leave-one-out of the training rows, "split" or "normalised"
                from calibration rows; a fit on centres has the first and "split". The sentences in
                `intervals.GUARANTEES` say what each promises.
            calibration: (X, y) for the last two, which the fit has not seen.
            folds: of "cv+", drawn with `seed`.
            seed: of the folds and the probes.
            probes: number of random probes that estimate the diagonal of R for "jackknife+", without a factor;
                `Interval.error` says how far the ends may be off. None factorises where that fits into memory.

        Raises:
            InputError: too few rows for the level, or a fit that is not exact.
        """
        return fit_interval(self, Xq, level, method, calibration, folds, seed, probes)

    def prediction_set(self, Xq: ArrayLike, level: float = 0.9, *, per_class: bool = False) -> PredictionSet:
        """Return the classes that each query may have, one output a class (`intervals.jackknife_plus_set`)."""
        return fit_set(self, Xq, level, per_class)

    def posterior(self, Xq: ArrayLike, *, scale: float = 1.0, covariance: bool = False) -> Posterior:
        """Return mean and variance of f(x) for the Gaussian process with kernel `scale` k and noise `scale` ridge."""
        return fit_posterior(self, Xq, scale, covariance)

    @property
    def most_likely_scale(self) -> float:
        """y'(K + ridge I)^-1 y / n over all outputs: the scale of greatest marginal likelihood."""
        alpha = self.on_centres.alpha.reshape(self.y.shape) if self.status is Status.SUBSET else self.alpha.double()
        return float((self.y.double() * alpha).mean()) * exp(-self.log_scale)

    def log_likelihood(self, *, scale: float = 1.0, leave_one_out: bool = False) -> float:
        """Return the log marginal likelihood of the targets, or the sum of leave-one-out log densities."""
        n, unit = len(self.X), scale * exp(self.log_scale)
        determinant = 2 * self.factor.diagonal().log().sum()
        diagonal = self.inverse_diagonal if leave_one_out else None
        y, alpha = (one.reshape(n, -1).double() for one in (self.y, self.alpha))
        return float(log_likelihood(y, alpha, determinant, diagonal, scale=unit))

    # -- bounds and predictions --------------------------------------------------------------------

    @property
    def alpha_bound(self) -> Tensor:
        """Per output, a bound on ||alpha - alpha*||: the residual over the ridge, as A >= ridge I.

        Holds for every positive semidefinite kernel, round-off included.
        """
        return SPARE * (self._residual / self.ridge) + 2.0**-1074  # never 0 by underflow

    @property
    def uniform_bound(self) -> Tensor:
        """Per output, a bound on |f(x) - f*(x)| for every x no longer, and with no larger k(x, x), than a training row.

        That is every x at all, where all rows have unit length.
        """
        root = self.kernel.roots(self.X).max().cpu()
        bound = SPARE * (root * self._residual / (2 * sqrt(self.ridge)))
        return bound.nan_to_num(nan=inf, posinf=inf) + self._prediction_roundoff(self.X).max(0).values.cpu()

    def predict(self, Xq: ArrayLike) -> Tensor:
        """Return k(x)'alpha for every query row, shaped (q,) or (q, outputs) like the targets.

        A query that has no answer in this precision, because a logit or the answer itself overflows, gets NaN and is
        named in an `UnansweredWarning`; the others are answered. See `answer` for bounds and for extrapolation.
        """
        Xq = as_query(Xq, self.X)
        values, answered = self._values(Xq)
        if not bool(answered.all()):
            warnings.warn(name_unanswered(answered, self.X.dtype), UnansweredWarning, stacklevel=2)
        return values if self.alpha.ndim == 2 else values[:, 0]

    def answer(self, Xq: ArrayLike) -> Predictions:
        """Return predictions with everything that is known about them: bounds, refused rows, extrapolation."""
        Xq = as_query(Xq, self.X)
        values, answered = self._values(Xq)
        bound, flat = self.prediction_bound(Xq), self.alpha.ndim == 1
        return Predictions(values[:, 0] if flat else values, bound, answered, self.extrapolates(Xq))

    def extrapolates(self, Xq: ArrayLike) -> Tensor:
        """Return, for every query row, whether it lies farther from the training rows than they do from each other.

        A query is flagged if its distance to the nearest training row exceeds that of all but 1 % of the training rows
        to their nearest other one (of all, below 100 rows). A fresh row from the distribution of the training rows is
        flagged with probability at most 1 %, or 1/(m + 1) where only m < 99 rows could be compared, by
        exchangeability. The bounds on f(x) - f*(x) say nothing about such a query: they compare two regressions, not
        a regression with the truth.
        """
        Xq = as_query(Xq, self.X)
        return nearest_distance(Xq, self.X) > self._reach + 1e-6 * Xq.double().norm(
            dim=1
        )  # what the distances may err by

    @cached_property
    def _reach(self) -> float:
        """The distance to the nearest other row that all but 1 % of the training rows keep to."""
        chosen = torch.linspace(0, len(self.X) - 1, min(COMPARED, len(self.X)), device=self.X.device).long()
        nearest = nearest_distance(self.X[chosen], self.X, chosen).sort().values
        return float(nearest[min(len(nearest), ceil((len(nearest) + 1) * (1 - OUTSIDE))) - 1])

    def _values(self, Xq: Tensor) -> tuple[Tensor, Tensor]:
        """Return k(x)'alpha, (q, outputs), and which queries have one; NaN where not."""
        alpha = self.alpha.reshape(len(self.X), -1)
        answered = self.kernel.representable(Xq, self.X)
        values = alpha.new_full((len(Xq), alpha.shape[1]), torch.nan)
        whole = bool(answered.all())
        if whole or bool(answered.any()):
            rows, Z = Xq if whole else Xq[answered], self.X
            if self.centres is not None:  # few coefficients, of both signs, which float32 would not cancel well
                rows, Z, alpha = rows.double(), Z[self.centres].double(), alpha[self.centres].double()
            found = self.kernel.product(rows, Z, alpha).to(values)
            values[answered] = torch.where(torch.isfinite(found), found, torch.nan)
        return values, answered & torch.isfinite(values).all(1)

    def prediction_bound(self, Xq: ArrayLike) -> Tensor:
        """Return a bound on |f(x) - f*(x)| per query row, shaped like the prediction.

        The smallest of three that all hold for positive semidefinite kernels, r being the residual:
        ||k(x)|| ||r|| / ridge; sqrt(k(x, x)) ||r|| / (2 sqrt(ridge)); and, after a direct solve,
        sqrt(k(x)'A^-1 k(x)) ||r|| / sqrt(ridge). The round-off of `predict` is added. Infinite where there is no
        prediction.
        """
        Xq = as_query(Xq, self.X)
        rows = max(1, BLOCK_ENTRIES // self.X.shape[0])
        answered = self.kernel.representable(Xq, self.X)
        bound = torch.full((len(Xq), self.residual_norm.numel()), inf, dtype=torch.float64, device=Xq.device)
        for some in answered.nonzero()[:, 0].split(rows):
            block = Xq[some]
            bound[some] = (self._residual_bound(block) + self._prediction_roundoff(block)).nan_to_num(
                nan=inf, posinf=inf
            )
        return bound if self.alpha.ndim == 2 else bound[:, 0]

    @property
    def _residual(self) -> Tensor:
        spare = 1 + gamma(len(self.X) + 8, torch.float64)  # for the evaluation of the norm
        return (spare * (self.residual_norm + self.roundoff)).nan_to_num(nan=inf, posinf=inf).cpu()

    def _residual_bound(self, Xq: Tensor) -> Tensor:
        """Return the least of the known bounds on |k(x)'A^-1 r|, (q, outputs).

        k(x) as computed errs by at most w_q ||w|| in norm (`Kernel.entry_error`).
        """
        cross = self.kernel.dense(Xq, self.X).to(torch.float64)
        largest = cross.abs().amax(1).clamp_min(torch.finfo(torch.float64).tiny)  # so that squares do not underflow
        rounded = self.kernel.entry_error(Xq).double() * self.kernel.entry_error(self.X).double().norm()
        norms = largest * (cross / largest[:, None]).norm(dim=1) + rounded
        reach = torch.minimum(norms / self.ridge, self.kernel.roots(Xq) / (2 * sqrt(self.ridge)))
        if self.direct_factor is not None and self._energy_excess is not None:
            half = torch.linalg.solve_triangular(self.direct_factor, cross.T, upper=False)
            lost = underflow(2 * len(self.X), torch.float64) * (1 + 1 / self.ridge)
            energy = (self._energy_excess * half.square().sum(0) + lost).sqrt() + rounded / sqrt(self.ridge)
            reach = torch.minimum(reach, energy / sqrt(self.ridge))
        spare = SPARE * (1 + gamma(2 * len(self.X), torch.float64))
        return (spare * reach)[:, None] * self._residual.to(reach)[None, :]

    @property
    def _energy_excess(self) -> float | None:
        """The factor by which k'A^-1 k can exceed what the float64 Cholesky factor says; None if unbounded.

        The factor and a triangular solve with it are exact for some A + E with ||E|| <= e, four times the
        round-off of K (Higham, theorems 8.5 and 10.3), so k'A^-1 k <= k'(A + E)^-1 k / (1 - e/(ridge - e)).
        """
        error = 4 * (self.kernel_roundoff + gamma(len(self.X) + 1, torch.float64) * len(self.X) * self.ridge)
        if self.X.dtype != torch.float64 or not 4 * error < self.ridge:
            return None
        return 1 / (1 - error / (self.ridge - error))

    def _prediction_roundoff(self, Xq: Tensor) -> Tensor:
        """Return how far `predict` can be from k(x)'alpha in exact arithmetic, (q, outputs)."""
        n, d = self.X.shape
        alpha = self.alpha.reshape(n, -1).to(torch.float64).abs()
        roots = [self.kernel.roots(Z) for Z in (Xq, self.X)]
        errors = [self.kernel.entry_error(Z).to(torch.float64) for Z in (Xq, self.X)]
        sums = gamma(n + d + 8, self.X.dtype) * roots[0][:, None] * (roots[1] @ alpha)[None, :]
        lost = underflow(n + d + 8, self.X.dtype) * (1 + d**0.5 * roots[0])
        return sums + errors[0][:, None] * (errors[1] @ alpha)[None, :] + lost[:, None]


def leave_one_out_residual(alpha: Float[Tensor, "n r"], inverse_diagonal: Float[Tensor, " n"]) -> Float[Tensor, "n r"]:
    """Return y_i - f_{-i}(x_i) = alpha_i / R_ii, with R = (K + ridge I)^-1 and alpha = R y (claim I1)."""
    return alpha / inverse_diagonal[:, None]
