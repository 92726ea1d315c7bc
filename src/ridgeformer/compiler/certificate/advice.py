"""What to do about a run whose accuracy is not shown: how many more steps, or why steps would not help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, repeat

import numpy as np
import torch
from torch import Tensor

from ridgeformer.algorithms import Coefficients, FixedCoefficients, NadarayaWatson
from ridgeformer.compiler.attentions import ImitatedAttention
from ridgeformer.compiler.certificate.accuracy import Proof
from ridgeformer.compiler.certificate.evidence import RunEvidence
from ridgeformer.compiler.certificate.expected import diagonal, kept_of_a_query
from ridgeformer.compiler.certificate.textbook import iterates
from ridgeformer.compiler.vanilla import VanillaAttention
from ridgeformer.core.words import percent_at_most

__all__ = ["advise"]

MOST_STEPS, MOST_WORK = 2000, 2**28
"""Steps tried at most, and multiplications spent on them, (supports)^2 a step."""


def advise(evidence: list[RunEvidence], proofs: list[Proof], tolerance: float, *, compiled: bool) -> str:
    """Return a clause that says what to do, for the tasks whose bound is above the tolerance.

    `compiled` says whether the weights are those of the specification.
    """
    if not compiled:
        return "the weights are not those of the specification: compile the model again"
    failing = [(e, p) for e, p in zip(evidence, proofs, strict=True) if not bool((p.relative <= tolerance).all())]
    for task, proof in failing:
        reason = _hindrance(task, proof, tolerance)
        if reason is not None:
            return reason
    spec, most = evidence[0].spec, 0
    for task, proof in failing:
        tried = max(spec.steps + 1, min(MOST_STEPS, MOST_WORK // task.problem.system.n**2))
        steps = _steps_needed(task, proof, tolerance, tried)
        if steps is None:
            todo = "raise the ridge"
            if not spec.algorithm.inner_products or spec.dtype != "float64":
                todo = "compile ConjugateGradients with the kernel's own attention in float64, or raise the ridge"
            return f"{tried:,} steps would not be enough: {todo}"
        most = max(most, steps - spec.steps)
    if most > 0:
        return f"run {most:,} more step{'s' * (most != 1)}"
    if evidence[0].approximate:
        return "its ReLU units approximate too coarsely: compile with primitives 'exact', or more relu_knots"
    if isinstance(spec.attention, ImitatedAttention):
        tilt = f"its tilt (epsilon {spec.attention.epsilon:g})"
        return f"{tilt} is too large or drowns in rounding: compile linear attention"
    if spec.dtype == "float32":
        return "rounding in float32 keeps it there: compile with dtype 'float64'"
    return "rounding keeps it there: raise the ridge"


def _hindrance(evidence: RunEvidence, proof: Proof, tolerance: float) -> str | None:
    """Return what no number of steps would mend, if there is such a thing."""
    spec = evidence.spec
    if isinstance(spec.algorithm, NadarayaWatson):
        return "one softmax head averages the targets and does no regression: compile ConjugateGradients"
    if not np.isfinite(proof.solved).all():
        return proof.how
    if not bool((proof.solved.max(0) <= tolerance * proof.sizes).all()):
        least = float(np.abs(proof.exact).max(0).min())
        return (
            f"float64 cannot prove even its direct solve to be that near, whose predictions reach {least:.1e} in some "
            "output: raise the ridge or the temperature, or scale the rows"
        )
    if evidence.true is not evidence.problem:
        lost = np.abs(evidence.problem.f.numpy() - proof.exact).max(0) / np.where(proof.sizes > 0, proof.sizes, 1.0)
        if float(lost.max()) > tolerance:
            return (
                f"its sketch of {spec.projected} features to {spec.carried} alone costs "
                f"{percent_at_most(float(lost.max()))}: give a larger width"
            )
    return None


def _steps_needed(evidence: RunEvidence, proof: Proof, tolerance: float, most: int) -> int | None:
    """Return how many steps the method needs on this task, run without a network; None if more than `most`."""
    allowed = torch.from_numpy(tolerance * proof.sizes - proof.solved.max(0))
    limit = evidence.problem.f - torch.from_numpy(proof.exact)
    errors = _iterated(evidence) if evidence.algorithm.inner_products else _polynomial(evidence)
    for step, error in enumerate(islice(errors, most), start=1):
        if step >= evidence.spec.steps and bool(((limit + error).abs().amax(0) <= allowed).all()):
            return step
    return None


def _iterated(evidence: RunEvidence) -> Iterator[Tensor]:
    """Return k(x)'(alpha_t - alpha*) of conjugate gradients in the network's precision, (queries, outputs), t = 1..."""
    problem = evidence.problem
    order = torch.arange(problem.system.n)
    states = iterates(evidence, problem.in_precision(evidence.spec.torch_dtype, order), order)
    return (problem.cross @ alpha.to(torch.float64) - problem.f for alpha in states)


def _polynomial(evidence: RunEvidence) -> Iterator[Tensor]:
    """Return the same for methods with fixed coefficients: the error is a polynomial in the eigenvalues of A."""
    problem, algorithm = evidence.problem, evidence.algorithm
    assert isinstance(algorithm, FixedCoefficients)
    if isinstance(evidence.spec.attention, VanillaAttention):  # gradient descent on D^-1/2 A D^-1/2
        scale = diagonal(evidence).sqrt()
        values, Q = torch.linalg.eigh(problem.A / torch.outer(scale, scale))
        coefficients: Iterable[Coefficients] = repeat(Coefficients(0.0, 1.0))
        keep = kept_of_a_query(evidence)[:, None]
    else:
        scale, keep = torch.ones(problem.system.n, dtype=torch.float64), None
        values, Q = problem.spectrum
        coefficients = algorithm.coefficients((problem.ridge, problem.ridge), problem.ridge)
    left, right = (problem.cross / scale) @ Q, Q.T @ (scale[:, None] * problem.alpha)
    last, change, slot = torch.ones_like(values), torch.zeros_like(values), -problem.f
    for carry, push, look in coefficients:
        if keep is not None:  # the slot of a query is one step behind alpha
            slot = keep * slot - (1 - keep) * ((left * last) @ right)
        change = carry * change - push * values * (last + look * change)
        last = last + change
        yield slot if keep is not None else -((left * last) @ right)
