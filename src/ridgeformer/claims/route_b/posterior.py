"""The bounds that judge an answer by its residual alone, put to the search: they back every prediction of a solver.

K is diagonal here, in its eigenbasis, with one eigenvalue zero; k(x) = sqrt(K) phi, and k(x, x) is norm(phi)^2 plus
what of x no support shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.search import Inequality

__all__ = ["POSTERIOR"]

SIZE = 4
FREE = 3 * SIZE + 1


@dataclass(frozen=True)
class _Answer:
    """An answer off by A^-1 r, and what the bounds ask of it; each (cases,) or (cases, SIZE)."""

    ridge: Tensor
    A: Tensor
    k: Tensor
    own: Tensor
    r: Tensor

    @property
    def residual(self) -> Tensor:
        return self.r.norm(dim=-1)

    @property
    def energy(self) -> Tensor:
        return (self.k.square() / self.A).sum(-1)

    @property
    def off(self) -> Tensor:
        """abs(f(x) - f*(x))."""
        return (self.k * self.r / self.A).sum(-1).abs()


def _answer(theta: Tensor) -> _Answer:
    take = Numbers(theta)
    spectrum, ridge = take.spectrum(SIZE - 1), take.positive()
    s = torch.cat([spectrum, torch.zeros_like(ridge)[:, None]], dim=-1)
    phi, unseen = take.vector(SIZE), take.vector(1)[:, 0]
    own = phi.square().sum(-1) + unseen.square()
    return _Answer(ridge, s + ridge[:, None], s.sqrt() * phi, own, take.vector(SIZE))


def _solution(theta: Tensor) -> tuple[Tensor, Tensor]:
    a = _answer(theta)
    return (a.r / a.A).norm(dim=-1), a.residual / a.ridge


def _query_norm(theta: Tensor) -> tuple[Tensor, Tensor]:
    a = _answer(theta)
    return a.off, a.k.norm(dim=-1) * a.residual / a.ridge


def _energy(theta: Tensor) -> tuple[Tensor, Tensor]:
    a = _answer(theta)
    return a.off, (a.energy / a.ridge).sqrt() * a.residual


def _diagonal(theta: Tensor) -> tuple[Tensor, Tensor]:
    a = _answer(theta)
    return a.off, (a.own / a.ridge).sqrt() * a.residual / 2


def _variance(theta: Tensor) -> tuple[Tensor, Tensor]:
    a = _answer(theta)
    return a.off, (a.energy * (1 - a.energy / a.own) / a.ridge).sqrt() * a.residual


POSTERIOR = (
    Inequality("posterior solution", FREE, _solution, "norm(alpha - alpha*) <= norm(r)/l"),
    Inequality("posterior query norm", FREE, _query_norm, "abs(f - f*) <= norm(k(x)) norm(r)/l"),
    Inequality("posterior energy", FREE, _energy, "abs(f - f*) <= sqrt(k(x)'A^-1 k(x)/l) norm(r)"),
    Inequality("posterior diagonal", FREE, _diagonal, "abs(f - f*) <= sqrt(k(x, x)/l) norm(r)/2"),
    Inequality("posterior variance", FREE, _variance, "abs(f - f*) <= sqrt(e v/(k(x, x) l)) norm(r), e + v = k(x, x)"),
)
"""Each is a function of `ridgeformer.bounds` with the same name."""
