"""What a user gets: the model's answer beside the direct solve of the true problem, under all bounds together."""

from __future__ import annotations

import numpy as np

from ridgeformer.compiler.certificate.apriori import Promise
from ridgeformer.compiler.certificate.certificate import Finding
from ridgeformer.compiler.certificate.evidence import Evidence
from ridgeformer.compiler.certificate.rounding import FLOOR, MODELLED
from ridgeformer.compiler.certificate.sketching import Sketch

__all__ = ["check_average", "check_outcome", "check_precision"]


def check_outcome(evidence: Evidence, promise: Promise, sketch: Sketch | None) -> list[Finding]:
    """Return the findings on the final predictions and coefficients: iteration, sketch and rounding together."""
    predictions, coefficients = promise.predictions[-1].numpy(), promise.coefficients.numpy()
    if sketch is not None:
        spare = sketch.rounding * evidence.true.alpha.norm(dim=0).numpy()
        predictions = predictions + sketch.predictions
        coefficients = coefficients + sketch.coefficients + spare
    with_sketch = " plus that of the sketch" if sketch is not None else ""
    return [
        Finding(
            "predictions",
            "the answers are this near to the float64 direct solve of the full problem",
            f"the bound of the last step{with_sketch}; {MODELLED}",
            (evidence.predictions - evidence.true.f).abs().numpy(),
            predictions,
            ("query", "output"),
            promise.met,
        ),
        Finding(
            "coefficients",
            "the coefficients alpha are this near to the direct solve's, in norm",
            f"the bound of the last step{with_sketch}; {MODELLED}",
            (evidence.alpha[-1] - evidence.true.alpha).norm(dim=0).numpy(),
            coefficients,
            ("output",),
            promise.met,
        ),
    ]


def check_precision(evidence: Evidence) -> list[Finding]:
    """Return the finding that the precision can hold this condition number at all (A8)."""
    return [
        Finding(
            "precision",
            f"rounding in {evidence.spec.dtype} leaves a relative error below 1: errors flatten at this floor",
            f"at 1 or more no digit is certain; {MODELLED}",
            np.asarray(evidence.floor),
            np.asarray(1.0),
        )
    ]


def check_average(evidence: Evidence) -> list[Finding]:
    """Return the finding on one softmax head: it is the kernel-weighted mean, and no ridge regression."""
    problem = evidence.problem
    mean = (problem.cross / problem.cross.sum(1, keepdim=True)) @ problem.y
    allowed = FLOOR * evidence.relative_eps * problem.y.abs().amax(0).expand_as(mean)
    return [
        Finding(
            "kernel-weighted mean",
            "the answers are the kernel-weighted means of the targets; that is not ridge regression",
            "rounding modelled as FLOOR (1 + largest logit) eps times the largest target",
            (evidence.predictions - mean).abs().numpy(),
            allowed.numpy(),
            ("query", "output"),
        )
    ]
