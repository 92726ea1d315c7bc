"""The proved line: how far the answers of this run can be from exact ridge regression, whatever the weights are.

Let p be an answer and f* the exact prediction. For every alpha, abs(p - f*) <= abs(p - k(x)'alpha) +
abs(k(x)'(alpha - alpha*)), and the last term is bounded by the float64 residual of alpha. Two choices of alpha are
tried, and the smaller bound counts: the coefficients in the network's own stream, and those of a direct solve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, inf

import numpy as np
import torch

from ridgeformer import bounds
from ridgeformer.compiler.certificate.certificate import Array, TaskCheck
from ridgeformer.compiler.certificate.evidence import RunEvidence
from ridgeformer.core.errors import RidgeformerError
from ridgeformer.solving import Fit, RidgeSystem, solve
from ridgeformer.solving.engines import Stored
from ridgeformer.solving.system import exact_unit

__all__ = ["Proof", "check_accuracy", "prove"]


@dataclass(frozen=True, eq=False)
class Proof:
    """What is proved of one task.

    Attributes:
        exact: Predictions of the direct solve, (queries, outputs).
        solved: Bound on their own distance from exact ridge regression.
        sizes: Lower bounds on the largest exact prediction of every output over the queries, (outputs,).
        bound: Bound on abs(answer - exact ridge regression); infinite where nothing is proved.
        how: Where the bound comes from, or why there is none.
    """

    exact: Array
    solved: Array
    sizes: Array
    bound: Array
    how: str

    @property
    def relative(self) -> Array:
        """The largest bound relative to its size, (outputs,), rounded up; infinite where only the size is 0."""
        with np.errstate(over="ignore"):
            worst = self.bound.max(0) * (1 + bounds.rounding_gamma(8))
            return np.divide(worst, self.sizes, out=np.where(worst > 0, inf, 0.0), where=self.sizes > 0)


def prove(evidence: RunEvidence) -> Proof:
    """Return the proof of one task: no weight enters it, only the answers and the coefficients of the run."""
    answers, y = evidence.predictions.numpy(), evidence.true.y
    try:
        kernel = evidence.spec.attention.exact_kernel(evidence.projection, evidence.rows)
        fit = solve(kernel, evidence.rows, y, evidence.spec.ridge, algorithm="direct")
        exact, solved = _judged(fit, evidence)
        solved = np.where(y.numpy().any(0), solved, 0.0)  # targets of zero have the solution zero
    except RidgeformerError as error:
        nothing = np.full(answers.shape, inf)
        return Proof(evidence.true.f.numpy(), nothing, np.zeros(answers.shape[1]), nothing, str(error).rstrip("."))
    by_solve = _added(answers, exact, solved)
    own = _own_coefficients(fit, evidence)
    by_residual = np.full(answers.shape, inf) if own is None else _added(answers, *_judged(own, evidence))
    if not np.isfinite(solved).all():
        how = "the exact prediction of some query is beyond float64: scale the rows, or raise the temperature"
    elif by_residual.max() < by_solve.max():
        how = "from the network's own coefficients, their float64 residual and its readout"
    else:
        how = f"from a direct float64 solve, itself proved within {float(solved.max()):.1e} of exact ridge regression"
    return Proof(exact, solved, _sizes(exact, solved), np.fmin(by_solve, by_residual), how)


def check_accuracy(proof: Proof, tolerance: float) -> TaskCheck:
    """Return the finding that the proved bound is within the tolerance."""
    return TaskCheck(
        "accuracy",
        "every answer is proved to be this near to exact ridge regression, relative to the largest exact prediction of "
        "its output over the queries",
        f"none on the weights; rounding is bounded rigorously; {proof.how}",
        proof.relative,
        tolerance,
        ("output",),
        kind="proved",
    )


def _judged(fit: Fit, evidence: RunEvidence) -> tuple[Array, Array]:
    """Return the predictions of a fit and the bounds on their distance from the exact ones."""
    answer = fit.answer(evidence.query_rows)
    values, bound = answer.values.numpy(), answer.bound.numpy()
    return values, np.where(np.isfinite(values), bound, inf)


def _own_coefficients(fit: Fit, evidence: RunEvidence) -> Fit | None:
    """Return the fit with the coefficients that the network's stream holds after its last step, if they are usable."""
    if "alpha" not in evidence.values:
        return None
    scale = fit.kernel.log_scale - evidence.problem.system.kernel.log_scale
    alpha = evidence.alpha[-1] * (exp(scale) if scale < 700 else inf)
    if not bool(torch.isfinite(alpha).all()):
        return None
    unit = exact_unit(evidence.true.y)  # so that squares of small residuals do not underflow
    y, scaled = evidence.true.y / unit, alpha / unit
    system = RidgeSystem(fit.kernel, fit.X, fit.ridge, Stored(fit.kernel, fit.X, torch.float64, exact=True))
    norms, roundoff = system.residual(scaled, y).norm(dim=0), system.residual_roundoff(scaled, y)
    if not bool(torch.isfinite(norms).all() & torch.isfinite(roundoff).all()):
        return None
    return replace(fit, alpha=alpha, residual_norm=norms * unit, roundoff=roundoff * unit)


def _added(answers: Array, predicted: Array, bound: Array) -> Array:
    """Return abs(answers - predicted) + bound, rounded up; infinite where the distance is not a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(answers - predicted)
        return np.where(np.isfinite(distance), (distance + bound) * (1 + bounds.rounding_gamma(8)), inf)


def _sizes(exact: Array, solved: Array) -> Array:
    with np.errstate(invalid="ignore"):
        known = np.where(np.isfinite(solved), np.abs(exact) - solved, 0.0)
    return np.asarray(known.clip(0).max(0) * (1 - bounds.rounding_gamma(8)))
