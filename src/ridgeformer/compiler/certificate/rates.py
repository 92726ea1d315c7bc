"""The rates of methods whose error is a polynomial in A times the first one: they contract in the A-norm."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms import Iterative
from ridgeformer.compiler.certificate.apriori import Promise, relative
from ridgeformer.compiler.certificate.evidence import Evidence
from ridgeformer.compiler.certificate.rounding import MODELLED

__all__ = ["promise_rate"]


def promise_rate(evidence: Evidence) -> Promise:
    """Return the promise of the algorithm itself, in the A-norm."""
    problem, floor = evidence.problem, evidence.floor
    algorithm = evidence.algorithm
    assert isinstance(algorithm, Iterative)
    spectrum = preconditioned_spectrum(problem.A) if algorithm.preconditioned else evidence.extremes
    what, condition, met = algorithm.error_bound(spectrum, problem.ridge)
    steps = range(1, evidence.spec.steps + 1)
    factors = torch.tensor([algorithm.promise(t, spectrum, problem.ridge) for t in steps], dtype=torch.float64)
    whole = problem.solution_norms
    bound = (factors[:, None] + floor) * torch.ones_like(whole)
    product = problem.energies[:, None] * whole
    return Promise(
        what=what,
        condition=f"{condition}; {MODELLED}",
        met=met,
        measured=relative(problem.a_norm(evidence.alpha - problem.alpha), whole),
        bound=bound,
        predictions=factors[:, None, None] * product + evidence.prediction_floor(),
        coefficients=bound[-1] * whole / float(problem.eigenvalues[0]) ** 0.5,
    )


def preconditioned_spectrum(A: Tensor) -> tuple[float, float]:
    """Return the extreme eigenvalues of D^-1/2 A D^-1/2, D = diag(A): what Jacobi's preconditioner leaves."""
    root = A.diagonal().rsqrt()
    values = torch.linalg.eigvalsh(root[:, None] * A * root)
    return float(values[0]), float(values[-1])
