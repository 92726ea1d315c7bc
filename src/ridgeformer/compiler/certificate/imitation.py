"""Softmax heads that imitate linear attention: how far a product may be off is known before the run.

With x = epsilon S, whose rows sum to zero for centred supports, rho = e^x - 1 - x and d_i the mean of rho over row i,

    (n/epsilon) (softmax(x) - 1/n) = S + E,   E_ij = (rho_ij - d_i (1 + x_ij)) / (epsilon (1 + d_i)):

the imitated product is off by E v. What rounding adds to the difference of two means is multiplied by n/epsilon.
"""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.attentions import ImitatedAttention
from ridgeformer.compiler.certificate.apriori import Promise
from ridgeformer.compiler.certificate.certificate import Finding
from ridgeformer.compiler.certificate.evidence import Evidence
from ridgeformer.compiler.certificate.inexact import check_useful, measured_error, promise_inexact, steps_taken
from ridgeformer.compiler.certificate.rounding import FLOOR

__all__ = ["check_products", "promise_imitation"]


def promise_imitation(evidence: Evidence) -> Promise:
    """Return the promise of inexact CG, the readout being off as the tilt makes it."""
    problem = evidence.problem
    travelled = steps_taken(evidence)[1].cumsum(0)
    rounding = cancellation(evidence) / problem.system.n**0.5
    row_error = remainder(problem.cross, tilt(evidence)).norm(dim=1) + rounding
    return promise_inexact(evidence, product_error(evidence), row_error[:, None] * travelled[:, None, :])


def check_products(evidence: Evidence) -> list[Finding]:
    """Return the findings on the products themselves: their error, and whether kappa times it is small."""
    norm, error = float(evidence.problem.eigenvalues[-1]), measured_error(evidence)
    expected = product_error(evidence)
    return [
        Finding(
            "imitated product",
            "a product is as far from linear attention's as the tilt makes it, relative to norm(A)",
            "supports centred in context; rounding modelled as 2 FLOOR eps n/epsilon, since two means cancel",
            np.asarray(error),
            np.asarray(expected / norm),
        ),
        check_useful(evidence, error if isfinite(expected) else inf),
    ]


def product_error(evidence: Evidence) -> float:
    """Return what norm(E v)/norm(v) is at most, rounding included; infinite where the tilt overflows."""
    E = remainder(evidence.problem.K, tilt(evidence))
    if not bool(torch.isfinite(E).all()):
        return inf
    return float(torch.linalg.matrix_norm(E, ord=2)) + cancellation(evidence)


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


def tilt(evidence: Evidence) -> float:
    """Return epsilon."""
    assert isinstance(evidence.spec.attention, ImitatedAttention)
    return evidence.spec.attention.epsilon


def cancellation(evidence: Evidence) -> float:
    """Return what rounding may add to norm(product)/norm(v): 2 FLOOR eps n/epsilon, for two means that cancel."""
    return 2 * FLOOR * evidence.eps * evidence.problem.system.n / tilt(evidence)
