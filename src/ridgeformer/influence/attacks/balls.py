"""How far an attack may move a row, and which way is up: the l_inf and the l_2 ball."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

__all__ = ["BALLS", "Ball", "Cube", "Sphere"]


class Ball(ABC):
    """A norm on rows; every method treats each row by itself."""

    @abstractmethod
    def length(self, moves: Tensor) -> Tensor:
        """Return the norm of every row."""

    @abstractmethod
    def direction(self, gradient: Tensor) -> Tensor:
        """Return the move of length 1 along which the gradient promises most; 0 where it is 0."""

    @abstractmethod
    def project(self, moves: Tensor, eps: float) -> Tensor:
        """Return the nearest moves no longer than eps."""

    @abstractmethod
    def inside(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return a uniform draw from the unit ball, a row each."""

    @abstractmethod
    def surface(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return a random move of length 1, a row each."""


class Cube(Ball):
    """The l_inf ball."""

    def length(self, moves: Tensor) -> Tensor:
        """Return the largest entry."""
        return moves.abs().amax(1)

    def direction(self, gradient: Tensor) -> Tensor:
        """Return the signs."""
        return gradient.sign()

    def project(self, moves: Tensor, eps: float) -> Tensor:
        """Clip every entry."""
        return moves.clamp(-eps, eps)

    def inside(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return uniform entries."""
        return (2 * torch.rand(like.shape, generator=generator, dtype=torch.float64) - 1).to(like)

    def surface(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return random signs: a corner."""
        return (2 * torch.randint(2, like.shape, generator=generator) - 1).to(like)


class Sphere(Ball):
    """The l_2 ball."""

    def length(self, moves: Tensor) -> Tensor:
        """Return the Euclidean length."""
        return moves.norm(dim=1)

    def direction(self, gradient: Tensor) -> Tensor:
        """Divide by the length."""
        return torch.nn.functional.normalize(gradient, dim=1)

    def project(self, moves: Tensor, eps: float) -> Tensor:
        """Shorten what is too long."""
        lengths = moves.norm(dim=1, keepdim=True)
        return moves * torch.where(lengths > eps, eps / lengths, 1.0)

    def inside(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return a random direction times the d-th root of a uniform number."""
        radius = torch.rand(len(like), 1, generator=generator, dtype=torch.float64) ** (1 / like.shape[1])
        return self.surface(like, generator) * radius.to(like)

    def surface(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return a random direction."""
        return self.direction(torch.randn(like.shape, generator=generator, dtype=torch.float64)).to(like)


BALLS: dict[str, Ball] = {"linf": Cube(), "l2": Sphere()}
