"""The rates of methods whose error is a polynomial in A times the first one: they contract in the A-norm."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.compiler.certificate.apriori import Promise, relative
from ridgeformer.compiler.certificate.evidence import Evidence
from ridgeformer.compiler.certificate.rounding import MODELLED

__all__ = ["promise_rate"]


def promise_rate(evidence: Evidence) -> Promise:
    """Return the promise of conjugate gradients (B2), gradient descent, Neumann's series or Chebyshev (A3, A5)."""
    problem, floor = evidence.problem, evidence.floor
    what, condition, met, factors = _factors(evidence)
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


def _factors(evidence: Evidence) -> tuple[str, str, bool, Tensor]:
    """Return the claim, its condition, whether it is met, and the factor after every step."""
    spec, problem = evidence.spec, evidence.problem
    low, high = float(problem.eigenvalues[0]), float(problem.eigenvalues[-1])
    steps = range(1, spec.steps + 1)
    if spec.solver in ("cg", "pcg"):
        kappa = preconditioned_kappa(problem.A) if spec.solver == "pcg" else problem.kappa
        which = "of the preconditioned system" if spec.solver == "pcg" else "of K + ridge I"
        what = f"the A-norm error stays below 2((sqrt k - 1)/(sqrt k + 1))^t, k = {kappa:.3g} {which}"
        return what, "K positive semidefinite", True, _tensor([bounds.cg_error_factor(kappa, t) for t in steps])
    if spec.solver == "chebyshev":
        return _chebyshev(evidence, low, high)
    if spec.solver == "neumann":
        norm = high - problem.ridge
        what = f"the A-norm error stays below (norm(K)/ridge)^t, norm(K)/ridge = {norm / problem.ridge:.3g}"
        factors = [bounds.neumann_error_factor(norm, problem.ridge, t) for t in steps]
        return what, "norm(K) < ridge", norm < problem.ridge, _tensor(factors)
    contraction = max(abs(1 - evidence.eta * low), abs(1 - evidence.eta * high))
    what = f"the A-norm error falls by {contraction:.6g} a step, with the step size found in context"
    condition = "0 < step size < 2/(largest eigenvalue)"
    return what, condition, 0 < evidence.eta < 2 / high, _tensor([contraction**t for t in steps])


def _chebyshev(evidence: Evidence, low: float, high: float) -> tuple[str, str, bool, Tensor]:
    assert evidence.spec.spectrum is not None
    scale = evidence.problem.ridge / evidence.spec.ridge
    ends = tuple(end * scale for end in evidence.spec.spectrum)
    slack = 1e-9 * high  # an end may be given as the eigenvalue itself
    inside = ends[0] <= low + slack and high <= ends[1] + slack
    kappa = ends[1] / ends[0]
    what = f"the A-norm error stays below 1/T_t, T_t Chebyshev's polynomial at condition number {kappa:.3g}"
    condition = "the spectrum of K + ridge I lies between the ends compiled in"
    factors = [bounds.chebyshev_error_factor(kappa, t) for t in range(1, evidence.spec.steps + 1)]
    return what, condition, inside, _tensor(factors)


def preconditioned_kappa(A: Tensor) -> float:
    """Return the condition number of D^-1/2 A D^-1/2, D = diag(A): what Jacobi's preconditioner leaves."""
    root = A.diagonal().rsqrt()
    values = torch.linalg.eigvalsh(root[:, None] * A * root)
    return float(values[-1] / values[0])


def _tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
