"""The rates of methods whose error is a polynomial in A times the first one: they contract in the A-norm."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.compiler.certificate.apriori import Promise, relative
from ridgeformer.compiler.certificate.evidence import Evidence
from ridgeformer.compiler.certificate.rounding import MODELLED

__all__ = ["promise_rate"]


def promise_rate(evidence: Evidence) -> Promise:
    """Return the promise of the algorithm itself, in the A-norm."""
    problem, floor = evidence.problem, evidence.floor
    low, high = float(problem.eigenvalues[0]), float(problem.eigenvalues[-1])
    kappa = preconditioned_kappa(problem.A) if evidence.algorithm.preconditioned else problem.kappa
    known = evidence.algorithm.promise(low=low, high=high, ridge=problem.ridge, kappa=kappa)
    factors = torch.tensor(known.factors, dtype=torch.float64)
    whole = problem.solution_norms
    bound = (factors[:, None] + floor) * torch.ones_like(whole)
    product = problem.energies[:, None] * whole
    return Promise(
        what=known.what,
        condition=f"{known.condition}; {MODELLED}",
        met=known.met,
        measured=relative(problem.a_norm(evidence.alpha - problem.alpha), whole),
        bound=bound,
        predictions=factors[:, None, None] * product + evidence.prediction_floor(),
        coefficients=bound[-1] * whole / float(problem.eigenvalues[0]) ** 0.5,
    )


def preconditioned_kappa(A: Tensor) -> float:
    """Return the condition number of D^-1/2 A D^-1/2, D = diag(A): what Jacobi's preconditioner leaves."""
    root = A.diagonal().rsqrt()
    values = torch.linalg.eigvalsh(root[:, None] * A * root)
    return float(values[-1] / values[0])
