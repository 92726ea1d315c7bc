"""Attacks on rows: they raise any objective, in any norm, with explicit bounds or none.

A new one is a subclass of `Attack` and an entry in `ATTACKS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ridgeformer.core.checks import ArrayLike, as_matrix, positive, whole
from ridgeformer.core.errors import DtypeError, InputError, unknown_name
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.exact import as_rows

__all__ = ["ATTACKS", "BALLS", "FGSM", "MIM", "PGD", "Attack", "Ball", "RandomNoise", "build_attack"]


@dataclass(frozen=True)
class Ball:
    """A norm on rows; every function treats each row by itself.

    Attributes:
        length: the norm of every row.
        direction: the move of length 1 along which the gradient promises most; 0 where it is 0.
        project: the nearest moves no longer than eps.
        inside: a uniform draw from the unit ball, a row each, shaped like the rows given.
        surface: a random move of length 1, a row each.
    """

    length: Callable[[Tensor], Tensor]
    direction: Callable[[Tensor], Tensor]
    project: Callable[[Tensor, float], Tensor]
    inside: Callable[[Tensor, torch.Generator], Tensor]
    surface: Callable[[Tensor, torch.Generator], Tensor]


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def _shorten(moves: Tensor, eps: float) -> Tensor:
    lengths = moves.norm(dim=1, keepdim=True)
    return moves * torch.where(lengths > eps, eps / lengths, 1.0)


def _random_direction(like: Tensor, generator: torch.Generator) -> Tensor:
    return normalize(torch.randn(like.shape, generator=generator, dtype=torch.float64), dim=1).to(like)


def _inside_sphere(like: Tensor, generator: torch.Generator) -> Tensor:
    radius = _uniform((len(like), 1), generator) ** (1 / like.shape[1])
    return _random_direction(like, generator) * radius.to(like)


BALLS: dict[str, Ball] = {
    "linf": Ball(
        length=lambda moves: moves.abs().amax(1),
        direction=torch.sign,
        project=lambda moves, eps: moves.clamp(-eps, eps),
        inside=lambda like, generator: (2 * _uniform(tuple(like.shape), generator) - 1).to(like),
        surface=lambda like, generator: (2 * torch.randint(2, like.shape, generator=generator) - 1).to(like),
    ),
    "l2": Ball(
        length=lambda moves: moves.norm(dim=1),
        direction=lambda gradient: normalize(gradient, dim=1),
        project=_shorten,
        inside=_inside_sphere,
        surface=_random_direction,
    ),
}


Objective: TypeAlias = Callable[[Tensor], Tensor]
"""What an attack raises: a differentiable function of all rows, (n, d); if it gives many numbers, their sum."""

Gradient: TypeAlias = Callable[[Tensor], Tensor]
"""The gradient of the objective in the rows that move, given where they are."""


@dataclass(frozen=True)
class Attack(ABC):
    """Moves rows by at most eps each, within bounds, to raise an objective.

    All rows move together in every step. Where the objective is a sum of terms of one row each, this is the
    textbook attack on every row by itself. No range is assumed: bounds are (low, high) or there are none.

    A row moves by at most `eps` in the norm, in the units of the rows.
    """

    eps: float
    norm: str = "linf"
    bounds: tuple[float, float] | None = None

    name: ClassVar[str]

    def __post_init__(self) -> None:
        what = "a finite number >= 0 was expected, the largest move of a row"
        try:
            eps = float(self.eps)
        except (TypeError, ValueError):
            raise DtypeError(f"eps is {self.eps!r}; {what}.") from None
        if not 0 <= eps < math.inf:
            raise InputError(f"eps is {eps:g}; {what}.")
        object.__setattr__(self, "eps", eps)
        if self.norm not in BALLS:
            raise unknown_name("norm", self.norm, BALLS)
        if self.bounds is not None:
            try:
                low, high = (float(end) for end in self.bounds)
            except (TypeError, ValueError):
                low = high = math.nan
            if not low < high:
                raise InputError(
                    f"bounds are {self.bounds!r}; (low, high) with low < high was expected, or None for no bounds."
                )
            object.__setattr__(self, "bounds", (low, high))

    def __call__(self, objective: Objective, X: ArrayLike, *, rows: ArrayLike | None = None, seed: int = 0) -> Tensor:
        """Return X with the given rows moved; None means all rows.

        Raises:
            InputError: rows outside the bounds before anything moved, or an objective without a finite gradient.
        """
        X = as_matrix(X, "X").detach()
        rows = torch.arange(len(X), device=X.device) if rows is None else as_rows(rows, len(X), X.device)
        start = X[rows]
        low, high = float(start.min()), float(start.max())
        if self.bounds is not None and (low < self.bounds[0] or high > self.bounds[1]):
            raise InputError(
                f"the rows go from {low:.4g} to {high:.4g} and the bounds are {self.bounds}: bounds must hold the data "
                "before the attack; widen them, or use None."
            )
        if self.eps == 0:
            return X.clone()
        generator = torch_generator(whole(seed, "seed", 0), "attack", self.name)

        def gradient(moved: Tensor) -> Tensor:
            leaf = moved.detach().clone().requires_grad_()
            with torch.enable_grad():
                found = torch.autograd.grad(objective(X.index_copy(0, rows, leaf)).sum(), leaf)[0]
            if not bool(torch.isfinite(found).all()):
                raise InputError("the gradient of the attacked objective is not finite: attack a smooth one.")
            return found

        return X.index_copy(0, rows, self.move(start, gradient, generator))

    @abstractmethod
    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return where the rows end up."""

    def clipped_to(self, X: ArrayLike) -> Attack:
        """Return this attack with bounds at the smallest and the largest entry of X: moved rows stay in its range."""
        X = as_matrix(X, "X")
        return replace(self, bounds=(float(X.min()), float(X.max())))

    @property
    def ball(self) -> Ball:
        """The ball of the norm."""
        return BALLS[self.norm]

    def confine(self, moved: Tensor, start: Tensor) -> Tensor:
        """Return the rows brought back to within eps of their start, then to within the bounds."""
        moved = start + self.ball.project(moved - start, self.eps)
        return moved if self.bounds is None else moved.clamp(*self.bounds)


@dataclass(frozen=True)
class FGSM(Attack):
    """One step of length eps along the gradient [Goodfellow2015]; exact where the objective is linear.

    Example:
        >>> FGSM(eps=0.5)(lambda X: (X * torch.tensor([2.0, -1.0])).sum(), [[0.0, 0.0]])
        tensor([[ 0.5000, -0.5000]], dtype=torch.float64)
    """

    name: ClassVar[str] = "fgsm"

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return start + eps times the direction of the gradient, within bounds."""
        return self.confine(start + self.eps * self.ball.direction(gradient(start)), start)


@dataclass(frozen=True)
class PGD(Attack):
    """Steps along the direction of the gradient, projected [Madry2018].

    A step has length `relative_step` times eps, by default Madry's on MNIST, 0.01 of 0.3; a random start is a uniform
    draw from the ball.

    Example:
        >>> PGD(eps=0.5, random_start=False)(lambda X: -(X - 0.25).square().sum(), [[0.0]]).round(decimals=1)
        tensor([[0.2000]], dtype=torch.float64)
    """

    steps: int = 40
    relative_step: float = 0.01 / 0.3
    random_start: bool = True

    name: ClassVar[str] = "pgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.steps, "steps", 1)
        positive(self.relative_step, "relative_step", "it is a step over eps")

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return the last iterate."""
        moved = start
        if self.random_start:
            moved = self.confine(start + self.eps * self.ball.inside(start, generator), start)
        for _ in range(self.steps):
            step = self.relative_step * self.eps * self.ball.direction(gradient(moved))
            moved = self.confine(moved + step, start)
        return moved


ACCUMULATE = ("l1", "direction")


@dataclass(frozen=True)
class MIM(Attack):
    """g <- momentum g + unit gradient; a step along the direction of g [Dong2018].

    A step has length `relative_step` times eps; None is 1/steps, as published. A `momentum` of 0 is PGD without a
    random start. `accumulate` "l1" adds the gradient of a row over its 1-norm, as published; "direction" its direction
    in the attack's norm (the signs, for linf), as some libraries do.

    Example:
        >>> MIM(eps=0.5)(lambda X: (X * torch.tensor([2.0, -1.0])).sum(), [[0.0, 0.0]])
        tensor([[ 0.5000, -0.5000]], dtype=torch.float64)
    """

    steps: int = 10
    relative_step: float | None = None
    momentum: float = 1.0
    accumulate: str = "l1"

    name: ClassVar[str] = "mim"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.steps, "steps", 1)
        if self.relative_step is not None:
            positive(self.relative_step, "relative_step", "it is a step over eps")
        if not isinstance(self.momentum, int | float) or not 0 <= self.momentum < float("inf"):
            raise InputError(f"momentum is {self.momentum!r}; a number >= 0 was expected.")
        if self.accumulate not in ACCUMULATE:
            raise unknown_name("accumulate", self.accumulate, ACCUMULATE)

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return the last iterate."""
        size = self.eps * (1 / self.steps if self.relative_step is None else self.relative_step)
        moved, accumulated = start, torch.zeros_like(start)
        for _ in range(self.steps):
            slope = gradient(moved)
            direction = self.ball.direction(slope) if self.accumulate == "direction" else normalize(slope, p=1.0, dim=1)
            accumulated = self.momentum * accumulated + direction
            moved = self.confine(moved + size * self.ball.direction(accumulated), start)
        return moved


@dataclass(frozen=True)
class RandomNoise(Attack):
    """Moves every row by a random vector of length eps: random signs for linf, a random direction for l2.

    Example:
        >>> RandomNoise(eps=0.5)(lambda X: X.sum(), [[0.0, 0.0]]).abs()
        tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """

    name: ClassVar[str] = "random_noise"

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return start + eps times a random unit vector, within bounds; the gradient is not asked for."""
        return self.confine(start + self.eps * self.ball.surface(start, generator), start)


ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in (FGSM, PGD, MIM, RandomNoise)}


def build_attack(name: str, eps: float, *, norm: str = "linf", bounds: tuple[float, float] | None = None) -> Attack:
    """Return the named attack with its default steps.

    Example:
        >>> build_attack("pgd", 0.3).steps
        40
    """
    if name not in ATTACKS:
        raise unknown_name("attack", name, ATTACKS)
    return ATTACKS[name](eps, norm, bounds)
