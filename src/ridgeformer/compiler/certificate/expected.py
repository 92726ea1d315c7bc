"""What theory expects of a run: at every step a bound in the norm in which the method contracts, and of its answers.

Algorithms whose error is a polynomial in A times the first one contract in the A-norm. The attention-only network (A6)
is gradient descent preconditioned by D = diag(Z + e^c). Its error obeys e <- (I - D^-1 A) e, and
D^1/2 (I - D^-1 A) D^-1/2 = I - D^-1/2 A D^-1/2 is symmetric. No eigenvalue of D^-1/2 A D^-1/2 is below ridge/max D.
None is above 1 if e^c >= ridge, because D - A = (e^c - ridge) I + (diag(Z) - K) and diag(Z) - K, K having no negative
entry, is a graph Laplacian. So the D-norm sqrt(e'De) falls by at least 1 - ridge/(e^c + Z_max) a step.

A width below the features adds the distance between the true problem and the sketched one, by W2, W3 and W6.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np
import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms import Iterative
from ridgeformer.compiler.certificate.certificate import FLOOR, MODELLED, Array, TaskCheck
from ridgeformer.compiler.certificate.evidence import RunEvidence
from ridgeformer.compiler.vanilla import VanillaAttention
from ridgeformer.kernels import DotProduct
from ridgeformer.language.program import Attend

__all__ = [
    "Promise",
    "Sketch",
    "check_average",
    "check_precision",
    "diagonal",
    "kept_of_a_query",
    "measure_sketch",
    "promise_rate",
    "promise_vanilla",
    "relative",
    "report_promise",
]


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


def report_promise(evidence: RunEvidence, promise: Promise) -> list[TaskCheck]:
    """Return the findings on every step, and on what the last one leaves: iteration, sketch and rounding together."""
    problem, true = evidence.problem, evidence.true
    predictions, coefficients = promise.predictions[-1].numpy(), promise.coefficients.numpy()
    condition = f"the bound of the last step; {MODELLED}"
    if true is not problem:
        sketch = measure_sketch(evidence)
        predictions = predictions + sketch.predictions
        coefficients = coefficients + sketch.coefficients + sketch.rounding * true.alpha.norm(dim=0).numpy()
        condition = f"the bound of the last step plus that of the sketch; {MODELLED}"
    return [
        TaskCheck(
            "predictions",
            "the answers are this near to the float64 direct solve of the full problem",
            condition,
            (evidence.predictions - true.f).abs(),
            predictions,
            ("query", "output"),
            promise.met,
        ),
        TaskCheck(
            "coefficients",
            "the coefficients alpha are this near to the direct solve's, in norm",
            condition,
            (evidence.alpha[-1] - true.alpha).norm(dim=0),
            coefficients,
            ("output",),
            promise.met,
        ),
        TaskCheck(
            "error per step",
            promise.what,
            promise.condition,
            promise.measured,
            promise.bound,
            ("step", "output"),
            promise.met,
        ),
        TaskCheck(
            "prediction per step",
            "every prediction after every step is as near to the limit as the bound on the coefficients makes it",
            promise.condition,
            (evidence.f - problem.f).abs(),
            promise.predictions,
            ("step", "query", "output"),
            promise.met,
        ),
    ]


def relative(value: Tensor, norm: Tensor) -> Tensor:
    """Return value / norm, or value itself where the norm is zero."""
    return value / norm.where(norm > 0, norm.new_ones(()))


def promise_rate(evidence: RunEvidence) -> Promise:
    """Return the promise of the algorithm itself, in the A-norm."""
    problem, algorithm, whole = evidence.problem, evidence.algorithm, evidence.problem.solution_norms
    assert isinstance(algorithm, Iterative)
    spectrum = preconditioned_spectrum(problem.A, problem.ridge) if algorithm.preconditioned else evidence.extremes
    what, condition, met = algorithm.error_bound(spectrum, problem.ridge)
    steps = range(1, evidence.spec.steps + 1)
    factors = torch.tensor([[algorithm.promise(t, spectrum, problem.ridge)] for t in steps], dtype=torch.float64)
    bound = (factors + evidence.floor).expand(-1, len(whole))
    return Promise(
        what=what,
        condition=f"{condition}; {MODELLED}",
        met=met,
        measured=relative(problem.a_norm(evidence.alpha - problem.alpha), whole),
        bound=bound,
        predictions=factors[:, None] * (problem.energies[:, None] * whole) + evidence.prediction_floor(),
        coefficients=bound[-1] * whole / float(problem.eigenvalues[0]) ** 0.5,
    )


def preconditioned_spectrum(A: Tensor, ridge: float) -> tuple[float, float]:
    """Return the extreme eigenvalues of D^-1/2 A D^-1/2, D = diag(A): what Jacobi's preconditioner leaves.

    None is below ridge/max D, as A - ridge I is semidefinite; a computed one may round to zero or below.
    """
    root = A.diagonal().rsqrt()
    values = torch.linalg.eigvalsh(root[:, None] * A * root)
    least = max(ridge / float(A.diagonal().max()), float(torch.finfo(A.dtype).tiny))
    return max(float(values[0]), least), float(values[-1])


def diagonal(evidence: RunEvidence) -> Tensor:
    """Return Z_i + e^c of every support."""
    return _attention(evidence).diagonal(evidence.problem.K.sum(1))


def _attention(evidence: RunEvidence) -> VanillaAttention:
    assert isinstance(evidence.spec.attention, VanillaAttention)
    return evidence.spec.attention


def kept_of_a_query(evidence: RunEvidence) -> Tensor:
    """Return what a step keeps of a query's own error, one minus its step size, (queries,).

    The step is f <- f + s (k(x)'alpha - f)/(Z_x + e^c), with s read from the head that serves the queries.
    """
    attention = _attention(evidence)
    heads = [head for _, i in evidence.program.timeline() if isinstance(i, Attend) for head in i.heads]
    scale = next(scale for head in heads for to, of, scale in head.values if (to, of) == ("f", "f"))
    return 1 + scale * exp(attention.sink) / attention.diagonal(evidence.problem.cross.sum(1))


def promise_vanilla(evidence: RunEvidence) -> Promise:
    """Return the promise of the D-norm, and what follows for predictions by their own recursion.

    The error of a prediction obeys g <- keep g + (1 - keep) k(x)'e, and abs(k'e) <= norm(D^-1/2 k) norm(e)_D.
    """
    problem, steps, D = evidence.problem, evidence.spec.steps, diagonal(evidence)

    def d_norm(v: Tensor) -> Tensor:
        return (D[:, None] * v.square()).sum(-2).sqrt()

    contraction = 1 - problem.ridge / float(D.max())
    whole = d_norm(problem.alpha)
    factors = torch.tensor([contraction**t for t in range(steps + 1)], dtype=torch.float64)[:, None]
    errors = (factors + evidence.floor) * whole
    keep = kept_of_a_query(evidence)[:, None]
    reach = (problem.cross / D.sqrt()).norm(dim=1)[:, None] * errors[:, None, :]
    predictions = [problem.f.abs()]
    for t in range(steps):
        predictions.append(keep.abs() * predictions[-1] + (1 - keep).abs() * reach[t])
    return Promise(
        what=f"the D-norm error falls by 1 - ridge/(e^c + Z_max) = {contraction:.6g} a step",
        condition=f"e^c >= ridge; for predictions also Z_x + e^c > half the slot's step; {MODELLED}",
        met=exp(_attention(evidence).sink) >= problem.ridge * (1 - 1e-9) and bool((keep.abs() <= 1).all()),
        measured=relative(d_norm(evidence.alpha - problem.alpha), whole),
        bound=relative(errors[1:], whole) if bool((whole > 0).all()) else factors[1:] + evidence.floor + 0 * whole,
        predictions=torch.stack(predictions[1:]) + evidence.prediction_floor(),
        coefficients=errors[-1] / float(D.min()) ** 0.5,
    )


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


def check_precision(evidence: RunEvidence) -> TaskCheck:
    """Return the finding that the precision can hold this condition number at all (A8)."""
    return TaskCheck(
        "precision",
        f"rounding in {evidence.spec.dtype} leaves a relative error below 1: errors flatten at this floor",
        f"at 1 or more no digit is certain; {MODELLED}",
        evidence.floor,
        1.0,
    )


def check_average(evidence: RunEvidence) -> TaskCheck:
    """Return the finding on one softmax head: it is the kernel-weighted mean, and no ridge regression."""
    problem = evidence.problem
    mean = evidence.spec.attention.weights(problem.queries, problem.system.X) @ problem.y  # cross may underflow
    return TaskCheck(
        "kernel-weighted mean",
        "the answers are the kernel-weighted means of the targets; that is not ridge regression",
        "rounding modelled as FLOOR (1 + largest logit) eps times the largest target",
        (evidence.predictions - mean).abs(),
        FLOOR * evidence.relative_eps * problem.y.abs().amax(0),
        ("query", "output"),
    )
