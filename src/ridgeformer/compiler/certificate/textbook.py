"""Are these the steps of the textbook? The network's coefficients beside the same method run without a network.

Conjugate gradients lose orthogonality, and from then on even the textbook disagrees with itself when its rows
are put in another order. So equality is claimed only as long as that control stays below sqrt(eps).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from ridgeformer.algorithms import Iterative
from ridgeformer.compiler.certificate.certificate import MODELLED, TaskCheck
from ridgeformer.compiler.certificate.evidence import RunEvidence
from ridgeformer.compiler.certificate.expected import diagonal, relative
from ridgeformer.compiler.certificate.problem import ReferenceProblem
from ridgeformer.compiler.vanilla import VanillaAttention
from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving import PRECONDITIONERS

__all__ = ["check_steps", "iterates"]

MARGIN = 1000.0
"""How many times further from the textbook than the control the network may be, logits of order one."""

CONTROLS = 4
"""Orders tried: one alone may drift little by luck."""


def check_steps(evidence: RunEvidence) -> TaskCheck:
    """Return the finding that every step, up to the loss of orthogonality, is the textbook's."""
    problem, steps, whole = evidence.problem, evidence.spec.steps, evidence.problem.solution_norms
    reference = torch.stack(list(islice(iterates(evidence, problem, None), steps)))
    drift, generator = torch.zeros(()), torch_generator(0, "permuted control")  # the largest up to every step
    for _ in range(CONTROLS):
        order = torch.randperm(problem.system.n, generator=generator)
        control = problem.in_precision(evidence.spec.torch_dtype, order)
        shuffled = torch.stack(list(islice(iterates(evidence, control, order), steps))).to(torch.float64)
        gap = problem.a_norm(shuffled[:, order.argsort()] - reference)
        drift = torch.maximum(drift, relative(gap, whole).cummax(0).values)
    claimed = int((drift.amax(1) <= evidence.eps**0.5).sum())
    measured = relative(problem.a_norm(evidence.alpha - reference), whole)[:claimed]
    rounding = evidence.relative_eps * torch.arange(1, steps + 1)[:, None]  # a single row cannot be permuted
    return TaskCheck(
        "textbook steps",
        f"steps 1 to {claimed} of {steps} are those of the textbook, relative to the size of the solution",
        f"claimed while the textbook agrees with itself in {CONTROLS} other orders of the rows to sqrt(eps); at "
        f"most {MARGIN:g} (1 + largest logit) times as far off, plus (1 + largest logit) eps a step; {MODELLED}",
        torch.nn.functional.pad(measured, (0, 0, 0, steps - claimed)),
        MARGIN * evidence.relative_eps / evidence.eps * drift + evidence.floor + rounding,
        ("step", "output"),
        met=claimed > 0,
        kind="observed",
    )


def iterates(evidence: RunEvidence, problem: ReferenceProblem, order: Tensor | None) -> Iterator[Tensor]:
    """Return the textbook's coefficients after step 1, 2, ..."""
    if isinstance(evidence.spec.attention, VanillaAttention):
        D = diagonal(evidence).to(problem.y.dtype)[slice(None) if order is None else order]
        alpha = torch.zeros_like(problem.y)
        while True:
            alpha = alpha - (problem.system.apply(alpha) - problem.y) / D[:, None]
            yield alpha
    algorithm = evidence.algorithm
    assert isinstance(algorithm, Iterative)
    builder = PRECONDITIONERS["jacobi" if algorithm.preconditioned else "identity"]
    inverse = builder.build(problem.system, torch.Generator())
    states = algorithm.iterate(problem.system, problem.y, spectrum=(problem.ridge, problem.ridge), precondition=inverse)
    yield from (state.alpha for state in states)
