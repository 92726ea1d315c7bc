"""Fewer feature columns than features: what the sketch costs, beside the corrected bounds W1, W2, W3 and W6."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.compiler.certificate.certificate import Array, Finding
from ridgeformer.compiler.certificate.evidence import FLOOR, Evidence
from ridgeformer.errors import NotPositiveSemidefiniteError

__all__ = ["Sketch", "check_sketch", "measure_sketch"]

ROUNDING = f"{FLOOR:g} (1 + largest logit) eps64 kappa is added for rounding"


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


def measure_sketch(evidence: Evidence) -> Sketch:
    """Return the sketch's bounds: W2 for the coefficients, W3 for the predictions, W6 for the kernel."""
    true, kept = evidence.true, evidence.problem
    difference = float(torch.linalg.matrix_norm(true.K - kept.K, ord=2))
    known = _from_logits(evidence)
    s = difference if known is None else known
    size = true.y.norm(dim=0).numpy()
    resolvent = bounds.resolvent_error_bound(s, true.ridge)
    moved = (true.cross - kept.cross).norm(dim=1).numpy() / true.ridge
    predictions = np.outer(true.cross.norm(dim=1).numpy() * resolvent + moved, size)
    leading = evidence.spec.route in ("linear", "imitation") and _keeps_leading(evidence)
    if leading:
        predictions = np.minimum(predictions, _leading_bound(evidence))
    rounding = FLOOR * evidence.relative_eps / evidence.eps * 2.0**-52 * true.kappa
    return Sketch(difference, s, resolvent * size, predictions, leading, rounding)


def check_sketch(evidence: Evidence, sketch: Sketch) -> list[Finding]:
    """Return the findings: kernel, resolvent, in sample, predictions, all between the two direct solves."""
    true, kept = evidence.true, evidence.problem
    inverses = [(Q / values) @ Q.T for values, Q in (true.spectrum, kept.spectrum)]
    resolvent = float(torch.linalg.matrix_norm(inverses[0] - inverses[1], ord=2))
    fitted = (true.K @ true.alpha - kept.K @ kept.alpha).norm(dim=0).numpy()
    size = true.y.norm(dim=0).numpy()
    spare = sketch.rounding
    form = "W3 for the supports' own leading directions" if sketch.leading else "W2 and W3, for any linear sketch"
    return [
        _kernel_finding(evidence, sketch),
        Finding(
            "sketch, resolvent",
            "norm(R(K) - R(Kh)) is at most s/(ridge (ridge + s)), s = norm(K - Kh) or its bound (W2)",
            f"both kernels positive semidefinite; {ROUNDING}",
            np.asarray(resolvent),
            np.asarray(bounds.resolvent_error_bound(sketch.bound, true.ridge) + spare / true.ridge),
        ),
        Finding(
            "sketch, in sample",
            "the fits of the full and of the sketched features differ by at most s/(ridge + s) norm(y) (W3)",
            f"both kernels positive semidefinite; {ROUNDING}",
            fitted,
            bounds.in_sample_bound(sketch.bound, true.ridge, size) + spare * size,
            ("output",),
        ),
        Finding(
            "sketch, predictions",
            "the exact predictions of the full and of the sketched features differ by at most the bound",
            f"{form}; {ROUNDING}",
            (true.f - kept.f).abs().numpy(),
            sketch.predictions + _prediction_spare(evidence, spare),
            ("query", "output"),
        ),
    ]


def _kernel_finding(evidence: Evidence, sketch: Sketch) -> Finding:
    """Return W1's floor for linear attention (no rank-m kernel is nearer), W6's ceiling for softmax."""
    true = evidence.true
    spare = sketch.rounding * float(true.eigenvalues[-1])
    if evidence.spec.route in ("linear", "imitation"):
        spectrum = (true.eigenvalues - true.ridge).clamp_min(0)
        return Finding(
            "sketch, kernel",
            "norm(K - Kh) is not below the eigenvalue number m + 1 of K, the best any m columns can do (W1)",
            "Kh has rank at most m; measured is the eigenvalue, the bound is norm(K - Kh)",
            np.asarray(bounds.sketch_error_floor(spectrum, evidence.spec.carried)),
            np.asarray(sketch.difference + spare),
        )
    return Finding(
        "sketch, kernel",
        "norm(K - Kh) is at most what the lost logits allow (W6)",
        "the sketch projects orthogonally; otherwise the bound is norm(K - Kh) itself",
        np.asarray(sketch.difference),
        np.asarray(sketch.bound + spare),
    )


def _from_logits(evidence: Evidence) -> float | None:
    """Return W6's bound on norm(K - Kh) in the scale of the problem, where the lost logits are a kernel."""
    if evidence.spec.route in ("linear", "imitation"):
        return None
    tau = evidence.spec.temperature
    logits, kept = (p.system.X @ p.system.X.T / tau for p in (evidence.true, evidence.problem))
    try:
        return bounds.logit_sketch_bound(logits, kept) * evidence.problem.ridge / evidence.spec.ridge
    except NotPositiveSemidefiniteError:
        return None


def _keeps_leading(evidence: Evidence) -> bool:
    """Whether Kh is the best rank-m part of K and the queries are projected along with it."""
    true, kept = evidence.true, evidence.problem
    values, Q = torch.linalg.eigh(true.K)
    top = Q[:, -evidence.spec.carried :]
    best = (top * values[-evidence.spec.carried :]) @ top.T
    same = float((kept.K - best).abs().max()) <= 1e-10 * float(values[-1])
    projected = float((kept.cross - true.cross @ top @ top.T).abs().max()) <= 1e-10 * float(true.cross.abs().max())
    return same and projected and bool((true.own - kept.own >= -1e-10 * true.own).all())


def _leading_bound(evidence: Evidence) -> Array:
    """Return W3's bound for the supports' own leading directions."""
    true, m = evidence.true, evidence.spec.carried
    values, Q = torch.linalg.eigh(true.K)
    outside = Q[:, :-m].T @ true.y
    lost = (true.own - evidence.problem.own).clamp_min(0).sqrt()
    return bounds.pca_prediction_bound(values.clamp_min(0), m, true.ridge, lost, outside.norm(dim=0))


def _prediction_spare(evidence: Evidence, spare: float) -> Array:
    true = evidence.true
    scale: Tensor = true.energies[:, None] * true.solution_norms
    return np.asarray(spare * scale + spare * true.own.sqrt()[:, None] * true.y.norm(dim=0) / true.ridge**0.5)
