"""What theory promises before the run: at every step a bound, in the norm in which the method contracts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ridgeformer.compiler.certificate.certificate import Finding
from ridgeformer.compiler.certificate.evidence import Evidence

__all__ = ["Promise", "relative", "report_promise"]


@dataclass(frozen=True, eq=False)
class Promise:
    """A bound for every step of one task, with what was measured beside it.

    Attributes:
        what: The claim in words.
        condition: Under which it is a theorem.
        met: Whether that is so here.
        measured: Relative error after every step in the norm of the claim, (steps, outputs).
        bound: What it must not exceed.
        predictions: Bound on abs(f_t(x) - f*(x)) for the problem the stream carries, (steps, queries, outputs).
        coefficients: Bound on norm(alpha_T - alpha*) for the same problem, (outputs,).
    """

    what: str
    condition: str
    met: bool
    measured: Tensor
    bound: Tensor
    predictions: Tensor
    coefficients: Tensor


def report_promise(evidence: Evidence, promise: Promise) -> list[Finding]:
    """Return the findings of a promise: the error, and the predictions, at every step."""
    gap = (evidence.f - evidence.problem.f).abs()
    return [
        Finding(
            "error per step",
            promise.what,
            promise.condition,
            _numpy(promise.measured),
            _numpy(promise.bound),
            ("step", "output"),
            promise.met,
        ),
        Finding(
            "prediction per step",
            "every prediction after every step is as near to the limit as the bound on the coefficients makes it",
            promise.condition,
            _numpy(gap),
            _numpy(promise.predictions),
            ("step", "query", "output"),
            promise.met,
        ),
    ]


def relative(value: Tensor, norm: Tensor) -> Tensor:
    """Return value / norm, or value itself where the norm is zero."""
    return value / norm.where(norm > 0, norm.new_ones(()))


def _numpy(value: Tensor) -> np.ndarray:
    return np.asarray(value.detach().cpu(), dtype=np.float64)
