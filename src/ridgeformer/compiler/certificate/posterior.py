"""What the residual alone proves, whatever the network did: no spectrum, no rate, no trust in the weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.compiler.certificate.certificate import Array, Finding
from ridgeformer.compiler.certificate.evidence import FLOOR, Evidence

__all__ = ["check_residual"]


def check_residual(evidence: Evidence) -> list[Finding]:
    """Return the findings of the residual of the last step's coefficients in the true problem, in float64."""
    problem, alpha = evidence.true, evidence.alpha[-1]
    outputs, queries = alpha.shape[-1], len(problem.own)
    if bool(torch.isfinite(alpha).all()):
        residual = _residual_norms(evidence, alpha)
        exact = _residual_norms(evidence, problem.alpha)  # the direct solution has a residual of its own
        coefficients = bounds.solution_error_bound(residual + exact, problem.ridge)
        predictions = _prediction_bound(evidence, alpha, residual + exact)
    else:
        coefficients, predictions = np.full(outputs, np.nan), np.full((queries, outputs), np.nan)
    return [
        Finding(
            "residual, coefficients",
            "the distance to the exact coefficients is at most norm(residual)/ridge",
            "K positive semidefinite; needs no spectrum; round-off of the residual counted",
            (alpha - problem.alpha).norm(dim=0).numpy(),
            coefficients,
            ("output",),
        ),
        Finding(
            "residual, predictions",
            "the distance to the exact predictions is at most what the residual and the readout allow",
            "K positive semidefinite; needs no spectrum; round-off counted",
            (evidence.predictions - problem.f).abs().numpy(),
            predictions,
            ("query", "output"),
        ),
    ]


def _residual_norms(evidence: Evidence, alpha: Tensor) -> Array:
    system, y = evidence.true.system, evidence.true.y
    return bounds.residual_norm_bound(system.residual(alpha, y), system.residual_roundoff(alpha, y))


def _prediction_bound(evidence: Evidence, alpha: Tensor, residual: Array) -> Array:
    """Return sqrt(k(x, x)) norm(r)/(2 sqrt(ridge)) plus how far the output is from k(x)'alpha."""
    problem = evidence.true
    readout = (evidence.predictions - problem.cross @ alpha).abs()
    size = problem.own.sqrt()[:, None] * (problem.K.diagonal().clamp_min(0).sqrt() @ alpha.abs())
    logits = evidence.relative_eps / evidence.eps
    rounding = FLOOR * float(torch.finfo(torch.float64).eps) * logits * size * problem.system.n
    forms = bounds.prediction_error_from_diagonal(residual, problem.ridge, problem.own)
    return np.asarray(forms + (readout + rounding).numpy())
