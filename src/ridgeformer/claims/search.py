"""Trying to break an inequality: gradient ascent on the ratio of its two sides, from many random starts.

A tight bound is approached (ratio -> 1), a false one is exceeded (ratio > 1). Every evaluation is a case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.claims.claim import Trial
from ridgeformer.core.seeds import torch_generator

__all__ = ["ROUND_OFF", "Found", "Inequality", "search", "try_to_break"]

ROUND_OFF = 1e-7
"""How far above 1 a ratio may stand by rounding alone; the cases are conditioned well enough for it."""

ROUNDS = 20
"""Steps of ascent from each start."""


@dataclass(frozen=True)
class Inequality:
    """left <= right, for every case that a vector of free numbers describes.

    Attributes:
        name: Names the search's random numbers too.
        size: How many free numbers a case has.
        sides: (cases, size) -> left and right, each (cases,), differentiable, right > 0.
        words: The inequality in words.
    """

    name: str
    size: int
    sides: Callable[[Tensor], tuple[Tensor, Tensor]]
    words: str


@dataclass(frozen=True)
class Found:
    """The hardest case of a search.

    Attributes:
        ratio: Left over right there.
        case: Its free numbers: `inequality.sides` of them gives the ratio again.
        cases: How many were tried.
        violations: How many had a ratio above 1 by more than round-off.
        seed: Of the search.
    """

    ratio: float
    case: Tensor
    cases: int
    violations: int
    seed: int


def search(inequality: Inequality, cases: int, seed: int = 0) -> Found:
    """Look for the largest ratio of left to right among at least `cases` cases.

    Example:
        >>> means = lambda t: (t.exp().prod(1).sqrt(), t.exp().mean(1))
        >>> found = search(Inequality("means", 2, means, "geometric mean <= arithmetic mean"), 200)
        >>> 0.99 < found.ratio <= 1 + 1e-12, found.violations
        (True, 0)
    """
    generator = torch_generator(seed, "claims", inequality.name)
    starts = -(-cases // ROUNDS)
    theta = torch.randn(starts, inequality.size, generator=generator, dtype=torch.float64)
    theta *= 3 * torch.rand(starts, 1, generator=generator, dtype=torch.float64)  # mild and wild cases
    ascent = torch.optim.Adam([theta.requires_grad_()], lr=0.1)
    ratio, case, violations = -1.0, theta.detach()[0], 0
    for _ in range(ROUNDS):
        ascent.zero_grad()
        left, right = inequality.sides(theta)
        ratios = left / right
        known = ratios.detach().nan_to_num(nan=torch.inf)  # a case that cannot be evaluated is a failure
        violations += int((known > 1 + ROUND_OFF).sum())
        if float(known.max()) > ratio:
            ratio, case = float(known.max()), theta.detach()[known.argmax()].clone()
        (-ratios.clamp_min(1e-300).log()).sum().backward()
        assert theta.grad is not None
        theta.grad.nan_to_num_(0.0, 0.0, 0.0)
        ascent.step()
    return Found(ratio, case, starts * ROUNDS, violations, seed)


def try_to_break(inequality: Inequality, cases: int, seed: int = 0) -> Trial:
    """Return the search as a trial of the inequality."""
    found = search(inequality, cases, seed)
    return Trial(inequality.words, found.cases, found.violations, found.ratio, seed)
