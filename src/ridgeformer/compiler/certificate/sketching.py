"""Fewer feature columns than features: what the sketch may cost, by the corrected bounds W2, W3 and W6."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ridgeformer import bounds
from ridgeformer.compiler.certificate.certificate import FLOOR, Array
from ridgeformer.compiler.certificate.evidence import RunEvidence
from ridgeformer.kernels import DotProduct

__all__ = ["Sketch", "measure_sketch"]


@dataclass(frozen=True, eq=False)
class Sketch:
    """The distance between the true problem and the carried one.

    Attributes:
        difference: norm(K - Kh).
        bound: What is known of it from the logits alone (W6), or the difference itself.
        coefficients: Bound on norm(alpha* - alphah*), (outputs,).
        predictions: Bound on abs(f* - fh*), (queries, outputs).
        leading: Whether the kept directions are the supports' own leading ones.
        rounding: Relative error of the two direct solves.
    """

    difference: float
    bound: float
    coefficients: Array
    predictions: Array
    leading: bool
    rounding: float


def measure_sketch(evidence: RunEvidence) -> Sketch:
    """Return the sketch's bounds: W2 for the coefficients, W3 for the predictions, W6 for the kernel."""
    true, kept = evidence.true, evidence.problem
    difference = float(torch.linalg.matrix_norm(true.K - kept.K, ord=2))
    known = evidence.spec.attention.sketch_bound(true.system.X, kept.system.X)
    s = difference if known is None else known
    size = true.y.norm(dim=0).numpy()
    resolvent = bounds.resolvent_error_bound(s, true.ridge)
    moved = (true.cross - kept.cross).norm(dim=1).numpy() / true.ridge
    predictions = np.outer(true.cross.norm(dim=1).numpy() * resolvent + moved, size)
    leading = _leading_bound(evidence) if isinstance(evidence.spec.kernel, DotProduct) else None
    if leading is not None:
        predictions = np.minimum(predictions, leading)
    rounding = FLOOR * evidence.relative_eps / evidence.eps * 2.0**-52 * true.kappa
    return Sketch(difference, s, resolvent * size, predictions, leading is not None, rounding)


def _leading_bound(evidence: RunEvidence) -> Array | None:
    """Return W3's bound for the supports' own leading directions.

    None unless Kh is the best rank-m part of K and the queries are projected along with it.
    """
    true, kept, m = evidence.true, evidence.problem, evidence.spec.carried
    values, Q = torch.linalg.eigh(true.K)
    top = Q[:, -m:]
    best = (top * values[-m:]) @ top.T
    same = float((kept.K - best).abs().max()) <= 1e-10 * float(values[-1])
    projected = float((kept.cross - true.cross @ top @ top.T).abs().max()) <= 1e-10 * float(true.cross.abs().max())
    if not (same and projected and bool((true.own - kept.own >= -1e-10 * true.own).all())):
        return None
    lost = (true.own - kept.own).clamp_min(0).sqrt()
    outside = (Q[:, :-m].T @ true.y).norm(dim=0)
    return bounds.pca_prediction_bound(values.clamp_min(0), m, true.ridge, lost, outside)
