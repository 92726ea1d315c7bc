"""The rate of the attention-only network (A6): gradient descent preconditioned by D = diag(Z + e^c).

Its error obeys e <- (I - D^-1 A) e, and D^1/2 (I - D^-1 A) D^-1/2 = I - D^-1/2 A D^-1/2 is symmetric. No
eigenvalue of D^-1/2 A D^-1/2 is below ridge/max D. None is above 1 if e^c >= ridge, because D - A =
(e^c - ridge) I + (diag(Z) - K) and diag(Z) - K, K having no negative entry, is a graph Laplacian. So the D-norm
sqrt(e'De) falls by at least 1 - ridge/(e^c + Z_max) a step.
"""

from __future__ import annotations

from math import exp

import torch
from torch import Tensor

from ridgeformer.compiler.certificate.apriori import Promise, relative
from ridgeformer.compiler.certificate.evidence import Evidence
from ridgeformer.compiler.certificate.rounding import MODELLED
from ridgeformer.compiler.vanilla import VanillaAttention
from ridgeformer.language.program import Attend

__all__ = ["diagonal", "kept_of_a_query", "promise_vanilla"]


def diagonal(evidence: Evidence) -> Tensor:
    """Return Z_i + e^c of every support."""
    return _attention(evidence).diagonal(evidence.problem.K.sum(1))


def _attention(evidence: Evidence) -> VanillaAttention:
    assert isinstance(evidence.spec.attention, VanillaAttention)
    return evidence.spec.attention


def promise_vanilla(evidence: Evidence) -> Promise:
    """Return the promise of the D-norm, and what follows for predictions by their own recursion."""
    spec, problem, D = evidence.spec, evidence.problem, diagonal(evidence)

    def d_norm(v: Tensor) -> Tensor:
        return (D[:, None] * v.square()).sum(-2).sqrt()

    contraction = 1 - problem.ridge / float(D.max())
    whole = d_norm(problem.alpha)
    factors = torch.tensor([contraction**t for t in range(spec.steps + 1)], dtype=torch.float64)[:, None]
    errors = (factors + evidence.floor) * whole
    return Promise(
        what=f"the D-norm error falls by 1 - ridge/(e^c + Z_max) = {contraction:.6g} a step",
        condition=f"e^c >= ridge; for predictions also Z_x + e^c > half the slot's step; {MODELLED}",
        met=exp(_attention(evidence).sink) >= problem.ridge * (1 - 1e-9)
        and bool((kept_of_a_query(evidence).abs() <= 1).all()),
        measured=relative(d_norm(evidence.alpha - problem.alpha), whole),
        bound=relative(errors[1:], whole) if bool((whole > 0).all()) else factors[1:] + evidence.floor + 0 * whole,
        predictions=_predictions(evidence, D, errors),
        coefficients=errors[-1] / float(D.min()) ** 0.5,
    )


def kept_of_a_query(evidence: Evidence) -> Tensor:
    """Return what a step keeps of a query's own error, one minus its step size, (queries,)."""
    return 1 - _slot_step(evidence) / _attention(evidence).diagonal(evidence.problem.cross.sum(1))


def _slot_step(evidence: Evidence) -> float:
    """Return s in f <- f + s (k(x)'alpha - f)/(Z_x + e^c), read from the head that serves the queries."""
    heads = [head for _, i in evidence.program.timeline() if isinstance(i, Attend) for head in i.heads]
    scale = next(scale for head in heads for to, of, scale in head.values if (to, of) == ("f", "f"))
    return -scale * exp(_attention(evidence).sink)


def _predictions(evidence: Evidence, D: Tensor, errors: Tensor) -> Tensor:
    """Return bounds on abs(f_t - f*): g <- keep g + (1 - keep) k(x)'e, and abs(k'e) <= norm(D^-1/2 k) norm(e)_D."""
    problem, keep = evidence.problem, kept_of_a_query(evidence)[:, None]
    reach = (problem.cross / D.sqrt()).norm(dim=1)[:, None] * errors[:, None, :]
    bound, found = problem.f.abs(), []
    for t in range(evidence.spec.steps):
        bound = keep.abs() * bound + (1 - keep).abs() * reach[t]
        found.append(bound)
    return torch.stack(found) + evidence.prediction_floor()
