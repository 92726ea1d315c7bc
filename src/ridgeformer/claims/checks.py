"""How checks gather evidence: a number of draws, trials of measured errors, and searches for a violation.

A search is gradient ascent on the ratio of an inequality's two sides, from many random starts. A tight bound is
approached (ratio -> 1), a false one is exceeded (ratio > 1). Every evaluation counts as a case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.claim import Trial
from ridgeformer.core.seeds import torch_generator

Met: TypeAlias = bool | np.bool_ | Tensor
Sides: TypeAlias = tuple[Tensor, Tensor]
"""Left and right side of an inequality, each (cases,)."""

NORMAL_CASES, DEEP_CASES = 2_000, 100_000
"""Cases of each search in a normal and in a deep run."""

ROUND_OFF = 1e-7
"""How far above 1 rounding alone may raise a ratio; the cases are conditioned well enough for it."""

ROUNDS, MOST_NUMBERS = 20, 1000
"""Steps of ascent from each start; more free numbers than any case has."""


def drawn(cases: int, normal: int) -> int:
    """Return the number of draws for a check that makes `normal` of them in a normal run.

    Example:
        >>> drawn(NORMAL_CASES, 20), drawn(DEEP_CASES, 20), drawn(1, 20)
        (20, 1000, 1)
    """
    return max(1, -(-normal * cases // NORMAL_CASES))


@dataclass(frozen=True)
class Trials:
    """Makes trials of the claim as published (`stated`) or of the corrected statement (`corrected`)."""

    name: str

    def counted(
        self,
        statement: str,
        cases: int,
        violations: int,
        conclusion: str = "",
        kept: float = 1.0,
        worst: float = math.nan,
    ) -> Trial:
        """Return the trial of a statement whose violations were counted."""
        return Trial(statement, cases, violations, worst, None, conclusion, kept, self.name)

    def holds(self, statement: str, met: Met | Sequence[Met], conclusion: str = "", kept: float = 1.0) -> Trial:
        """Return the trial of a condition that was tested on one case, or on each of several.

        Example:
            >>> stated.holds("the sum is even", [2 % 2 == 0, 3 % 2 == 0]).violations
            1
        """
        each = [bool(one) for one in met] if isinstance(met, Sequence) else [bool(met)]
        return self.counted(statement, len(each), each.count(False), conclusion, kept)

    def within(
        self,
        statement: str,
        errors: Tensor | Sequence[int | float | Tensor],
        tolerance: float,
        conclusion: str = "",
        kept: float = 1.0,
    ) -> Trial:
        """Return the trial that every error is at most the tolerance; NaN counts as a violation.

        Example:
            >>> trial = stated.within("rounding is small", [1e-16, 3e-12], tolerance=1e-12)
            >>> trial.cases, trial.violations, trial.worst
            (2, 1, 3.0)
        """
        values = torch.as_tensor(errors, dtype=torch.float64).flatten()
        outside = int((~(values <= tolerance)).sum())
        worst = max((values / tolerance).nan_to_num(nan=torch.inf, posinf=torch.inf).tolist(), default=math.nan)
        return self.counted(statement, values.numel(), outside, conclusion, kept, worst)

    def search(
        self, inequality: Inequality, cases: int, conclusion: str = "", kept: float = 1.0, seed: int = 0
    ) -> Trial:
        """Return the search for a violation as a trial of the inequality."""
        found = search(inequality, cases, seed)
        return Trial(inequality.words, found.cases, found.violations, found.ratio, seed, conclusion, kept, self.name)


stated, corrected = Trials("stated"), Trials("corrected")


class Numbers:
    """The free numbers of a batch of cases, (cases, size), taken in turn as matrices, vectors and positive numbers.

    Example:
        >>> take = Numbers(torch.zeros(5, 7))
        >>> take.matrix(2, 3).shape, take.positive().shape
        (torch.Size([5, 2, 3]), torch.Size([5]))
    """

    def __init__(self, theta: Tensor) -> None:
        self.theta, self.used = theta, 0

    def vector(self, size: int) -> Tensor:
        """Return (cases, size)."""
        self.used += size
        if self.used > self.theta.shape[1]:
            raise ValueError(f"a case has {self.theta.shape[1]} free numbers and {self.used} were asked for")
        return self.theta[:, self.used - size : self.used]

    def matrix(self, rows: int, columns: int) -> Tensor:
        """Return (cases, rows, columns)."""
        return self.vector(rows * columns).reshape(-1, rows, columns)

    def positive(self) -> Tensor:
        """Return one number between about 1e-3 and 1e3 for each case: (cases,)."""
        return (6.9 * torch.tanh(self.vector(1)[:, 0] / 3)).exp()

    def spectrum(self, size: int) -> Tensor:
        """Return (cases, size) numbers between about 1e-3 and 1e3 in descending order."""
        return (6.9 * torch.tanh(self.vector(size) / 3)).exp().sort(dim=-1, descending=True).values

    def between(self, low: float, high: float) -> Tensor:
        """Return one number of an interval for each case: (cases,)."""
        return low + (high - low) * torch.sigmoid(self.vector(1)[:, 0])


@dataclass(frozen=True)
class Inequality:
    """left <= right, for every case that some free numbers describe.

    Attributes:
        name: Also names the random numbers of its search.
        words: The inequality in words.
        sides: Returns left and right, each (cases,), differentiable, right > 0.
    """

    name: str
    words: str
    sides: Callable[[Numbers], Sides]

    @cached_property
    def size(self) -> int:
        """The free numbers of a case, counted on one of them."""
        take = Numbers(normal((1, MOST_NUMBERS), 0, "claims", "size"))
        self.sides(take)
        return take.used


def inequality(name: str, words: str) -> Callable[[Callable[[Numbers], Sides]], Inequality]:
    """Make an `Inequality` of the function below, which returns its two sides."""
    return lambda sides: Inequality(name, words, sides)


def inequalities(*names: str) -> Callable[[Callable[[Numbers], dict[str, Sides]]], dict[str, Inequality]]:
    """Make an `Inequality` of each name: the function below returns the sides on one case by their words."""

    def each(case: Callable[[Numbers], dict[str, Sides]]) -> dict[str, Inequality]:
        def sides(words: str) -> Callable[[Numbers], Sides]:
            return lambda take: case(take)[words]

        known = case(Numbers(normal((1, MOST_NUMBERS), 0, "claims", "size")))
        return {name: Inequality(name, words, sides(words)) for name, words in zip(names, known, strict=True)}

    return each


@dataclass(frozen=True)
class HardestCase:
    """The hardest case of a search.

    Attributes:
        ratio: Left over right there.
        theta: Its free numbers: `inequality.sides(Numbers(theta[None]))` reproduces the ratio.
        cases: The number tried.
        violations: The number with a ratio above 1 by more than round-off.
    """

    ratio: float
    theta: Tensor
    cases: int
    violations: int


def search(inequality: Inequality, cases: int, seed: int = 0) -> HardestCase:
    """Look for the largest ratio of left to right among at least `cases` cases.

    Example:
        >>> def sides(take):
        ...     t = take.vector(2)
        ...     return t.exp().prod(1).sqrt(), t.exp().mean(1)
        >>> found = search(Inequality("means", "geometric mean <= arithmetic mean", sides), 200)
        >>> 0.99 < found.ratio <= 1 + 1e-12, found.violations
        (True, 0)
    """
    generator = torch_generator(seed, "claims", inequality.name)
    starts = -(-cases // ROUNDS)
    theta = torch.randn(starts, inequality.size, generator=generator, dtype=torch.float64)
    theta *= 3 * torch.rand(starts, 1, generator=generator, dtype=torch.float64)  # mild and extreme cases
    ascent = torch.optim.Adam([theta.requires_grad_()], lr=0.1)
    ratio, hardest, violations = -1.0, theta.detach()[0], 0
    for _ in range(ROUNDS):
        ascent.zero_grad()
        left, right = inequality.sides(Numbers(theta))
        ratios = left / right
        known = ratios.detach().nan_to_num(nan=torch.inf)  # a case that cannot be evaluated is a violation
        violations += int((known > 1 + ROUND_OFF).sum())
        if float(known.max()) > ratio:
            ratio, hardest = float(known.max()), theta.detach()[known.argmax()].clone()
        (-ratios.clamp_min(1e-300).log()).sum().backward()
        assert theta.grad is not None
        theta.grad.nan_to_num_(0.0, 0.0, 0.0)
        ascent.step()
    return HardestCase(ratio, hardest, starts * ROUNDS, violations)


def normal(shape: Sequence[int], seed: int, *purpose: str | int) -> Tensor:
    """Return independent standard normal numbers in float64, the same for the same seed and purpose."""
    return torch.randn(*shape, generator=torch_generator(seed, *purpose), dtype=torch.float64)


def synthetic_rows(n: int, d: int, **options: Any) -> Tensor:
    """Return the rows of `datasets.synthetic`."""
    return torch.from_numpy(datasets.synthetic(n, d, **options).X)


def unit_task(supports: int, features: int, queries: int, *purpose: str | int) -> tuple[Tensor, Tensor, Tensor]:
    """Return supports, targets and queries in float64: rows of unit length, independent normal targets.

    Example:
        >>> X, y, Xq = unit_task(5, 3, 2, "an example")
        >>> X.shape, y.shape, Xq.shape, bool((X.norm(dim=1) - 1).abs().max() < 1e-12)
        (torch.Size([5, 3]), torch.Size([5]), torch.Size([2, 3]), True)
    """
    X, Xq = (
        torch.nn.functional.normalize(normal((n, features), 0, *purpose, which), dim=1)
        for which, n in (("X", supports), ("Xq", queries))
    )
    return X, normal((supports,), 0, *purpose, "y"), Xq
