"""The certified fit: ridge regression solved directly, with a bound on the error of every held-out prediction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.datasets import Split
from ridgeformer.solving import Fit

__all__ = ["Certified", "safe_decisions"]


@dataclass(frozen=True, eq=False)
class Certified:
    """Kernel ridge regression with the exponential kernel, and how far it can be from the exact answer.

    Attributes:
        fit: The direct solution.
        outputs: Its predictions at the held-out rows.
        worst_bound: Largest bound on |f - f*| over the test rows and outputs.
        typical_output: Root mean square of the test outputs, to compare it with.
        safe_decisions: Fraction of test rows whose predicted class provably is the exact solution's, or None.
    """

    fit: Fit
    outputs: Tensor
    worst_bound: float
    typical_output: float
    safe_decisions: float | None

    @classmethod
    def of(cls, data: Split, fit: Fit) -> Certified:
        """Bound the error of a direct solution at every held-out row."""
        outputs, bound = fit.predict(data.Xt).nan_to_num(nan=0.0), fit.prediction_bound(data.Xt)
        safe = None if data.labels is None else safe_decisions(outputs + data.mean, bound)
        return cls(fit, outputs, float(bound.max()), float(outputs.square().mean().sqrt()), safe)


def safe_decisions(outputs: Tensor, bound: Tensor) -> float:
    """Return the fraction of rows whose leading output stays ahead when every output moves by its bound."""
    leader = outputs.argmax(1, keepdim=True)
    others = (outputs + bound).scatter(1, leader, -torch.inf)
    return float(((outputs - bound).gather(1, leader)[:, 0] > others.max(1).values).double().mean())
