"""Conjugate gradients whose arithmetic is a little off (B3): imitated products, or units that only approximate.

Whatever a step does, y - A alpha_t = r_t + sum_{j<t} e_j exactly, e_j = (r_j - r_{j+1}) - A (alpha_{j+1} - alpha_j).
With the recursions of CG, e_j = gamma_j (q_j - A p_j): the error of one product. So the residual the network carries,
and how far off its steps were, bound the true residual, and `posterior` takes it from there.

For softmax heads that imitate linear attention the error is known before the run. With x = epsilon S, whose rows sum to
zero for centred supports, rho = e^x - 1 - x and d_i the mean of rho over row i,

    (n/epsilon) (softmax(x) - 1/n) = S + E,   E_ij = (rho_ij - d_i (1 + x_ij)) / (epsilon (1 + d_i)):

the imitated product is off by E v. What rounding adds to the difference of two means is multiplied by n/epsilon.
"""

from __future__ import annotations

from math import inf, isfinite, nan

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.compiler.attentions import ImitatedAttention
from ridgeformer.compiler.certificate.certificate import FLOOR, MODELLED, TaskCheck
from ridgeformer.compiler.certificate.evidence import RunEvidence
from ridgeformer.compiler.certificate.expected import Promise, relative

__all__ = ["check_products", "check_useful", "measured_error", "promise_imitation"]


def _steps_taken(evidence: RunEvidence) -> tuple[Tensor, Tensor]:
    """Return e_j, (steps, supports, outputs), and norm(alpha_{j+1} - alpha_j), (steps, outputs)."""
    problem = evidence.problem
    r = torch.cat([problem.y[None], evidence.values["r"]])
    alpha = torch.cat([torch.zeros_like(problem.y)[None], evidence.alpha])
    moves = alpha[1:] - alpha[:-1]
    return (r[:-1] - r[1:]) - problem.A @ moves, moves.norm(dim=-2)


def measured_error(evidence: RunEvidence) -> float:
    """Return the largest norm(e_j)/(norm(A) norm(move)) over the steps that still move.

    The rounding of r and alpha themselves is no error of a step. Targets of zero need no step.
    """
    errors, lengths = _steps_taken(evidence)
    norm, y = float(evidence.problem.eigenvalues[-1]), evidence.problem.y
    moving = lengths > evidence.eps**0.5 * lengths.amax(0)
    if not bool(moving.any()):
        return nan if bool(y.any()) else 0.0
    rounding = evidence.eps * (y.norm(dim=0) + norm * evidence.alpha.norm(dim=-2))
    ratio = (errors.norm(dim=-2) - rounding).clamp_min(0) / (norm * lengths)
    return float(ratio[moving].max())


def promise_imitation(evidence: RunEvidence) -> Promise:
    """Return the promise of inexact CG, its products and its readout being off as the tilt makes them."""
    problem, size = evidence.problem, evidence.problem.y.norm(dim=0)
    epsilon, cancelling = _tilt(evidence)
    true = torch.stack([problem.system.residual(alpha, problem.y).norm(dim=0) for alpha in evidence.alpha])
    travelled = _steps_taken(evidence)[1].cumsum(0)
    rounding = FLOOR * evidence.relative_eps * (size + float(problem.eigenvalues[-1]) * travelled)
    residual = evidence.values["r"].norm(dim=-2) + _product_error(evidence) * travelled + rounding
    readout = remainder(problem.cross, epsilon).norm(dim=1) + cancelling / problem.system.n**0.5
    predictions = torch.full_like(evidence.f, nan)
    for t, norms in enumerate(residual):
        if bool(torch.isfinite(norms).all()):
            reach = bounds.prediction_error_from_energy(norms, problem.ridge, problem.energies.square())
            predictions[t] = torch.from_numpy(reach)  # the most abs(k(x)'A^-1 r) can be
    return Promise(
        what="the true residual stays below the carried one plus what inexact products may do to it",
        condition=f"products as inexact as the tilt makes them; {MODELLED}",
        met=bool(torch.isfinite(residual).all()),
        measured=relative(true, size),
        bound=relative(residual, size),
        predictions=predictions + readout[:, None] * travelled[:, None, :] + evidence.prediction_floor(),
        coefficients=residual[-1] / problem.ridge + evidence.floor * problem.alpha.norm(dim=0),
    )


def check_products(evidence: RunEvidence) -> list[TaskCheck]:
    """Return the findings on the products themselves: their error, and whether kappa times it is small."""
    measured, expected = measured_error(evidence), _product_error(evidence)
    return [
        TaskCheck(
            "imitated product",
            "a product is as far from linear attention's as the tilt makes it, relative to norm(A)",
            "supports centred in context; rounding modelled as 2 FLOOR eps n/epsilon, since two means cancel",
            measured,
            expected / float(evidence.problem.eigenvalues[-1]),
        ),
        check_useful(evidence, measured if isfinite(expected) else inf),
    ]


def check_useful(evidence: RunEvidence, error: float) -> TaskCheck:
    """Return the finding that steps with this relative error still solve the same problem."""
    return TaskCheck(
        "inexactness",
        "condition number times the relative error of a step is below 1: it is still the same problem",
        "none",
        evidence.problem.kappa * error,
        1.0,
    )


def _product_error(evidence: RunEvidence) -> float:
    """Return what norm(E v)/norm(v) is at most, rounding included; infinite where the tilt overflows."""
    epsilon, cancelling = _tilt(evidence)
    E = remainder(evidence.problem.K, epsilon)
    return float(torch.linalg.matrix_norm(E, ord=2)) + cancelling if bool(torch.isfinite(E).all()) else inf


def _tilt(evidence: RunEvidence) -> tuple[float, float]:
    """Return epsilon, and what rounding may add to norm(product)/norm(v): 2 FLOOR eps n/epsilon for two means."""
    assert isinstance(evidence.spec.attention, ImitatedAttention)
    epsilon = evidence.spec.attention.epsilon
    return epsilon, 2 * FLOOR * evidence.eps * evidence.problem.system.n / epsilon


def remainder(S: Tensor, epsilon: float) -> Tensor:
    """Return E, the imitated operator minus the linear one, for rows that sum to zero.

    Example:
        >>> S = torch.tensor([[0.5, -0.5]], dtype=torch.float64)
        >>> exact = (2 / 0.1) * ((0.1 * S).softmax(-1) - 0.5) - S
        >>> torch.allclose(remainder(S, 0.1), exact, atol=1e-14)
        True
    """
    x = epsilon * S
    rho = torch.expm1(x) - x
    d = rho.mean(1, keepdim=True)
    return (rho - d * (1 + x)) / (epsilon * (1 + d))
