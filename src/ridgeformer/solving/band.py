"""A symmetric matrix as a block tridiagonal one in another basis: one reduction, then every shift is cheap."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.core.errors import InputError

__all__ = ["BandFactor", "BandForm", "band_form"]

WIDTH = 64
"""Size of the blocks: products of this width run near full speed, and a shift costs 4 WIDTH n^2."""

STRIPS = 6
"""Horizontal strips of the lower triangle that is kept: more waste less on the diagonal, fewer are faster."""

JOINED = 4
"""Reflections applied to Q as one: wider products are faster, and Q is read and written less often."""

ROWS = 1024
"""Rows of Q handled at a time: what passes through the blocks stays in the cache."""


@dataclass(frozen=True, eq=False)
class BandForm:
    """K = Q B Q', Q orthogonal and B block tridiagonal, given by its diagonal blocks and those below them."""

    Q: Float[Tensor, "n n"] = field(repr=False)
    own: tuple[Tensor, ...] = field(repr=False)
    below: tuple[Tensor, ...] = field(repr=False)

    def factor(self, ridge: float) -> BandFactor:
        """Return the Cholesky factor of B + ridge I, by blocks: O(n WIDTH^2).

        Raises:
            InputError: there is none in this precision; the ridge is below the round-off of K.
        """
        inverses: list[Tensor] = []
        links: list[Tensor] = []
        for k, block in enumerate(self.own):
            eye = torch.eye(len(block), dtype=block.dtype, device=block.device)
            rest = block + ridge * eye
            link = self.below[k - 1] @ inverses[-1].T if k else None
            if link is not None:
                rest = rest - link @ link.T
            L, info = torch.linalg.cholesky_ex(rest)
            if int(info) != 0:
                raise InputError(f"ridge is {ridge:.3g}, below the round-off of K in {block.dtype}: raise it.")
            inverses.append(torch.linalg.solve_triangular(L, eye, upper=False))
            if link is not None:
                links.append(-inverses[-1] @ link)
        return BandFactor(self.Q, tuple(inverses), tuple(links))


@dataclass(frozen=True, eq=False)
class BandFactor:
    """L^-1 of K + ridge I = Q L L' Q', as the inverse of each diagonal block and what links it to the one before."""

    Q: Tensor = field(repr=False)
    inverses: tuple[Tensor, ...] = field(repr=False)
    links: tuple[Tensor, ...] = field(repr=False)

    def solve_rotated(self, c: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return (B + ridge I)^-1 c: with Q on either side, (K + ridge I)^-1. Costs 4 WIDTH n r, without those."""
        width = len(self.inverses[0])
        forward: list[Tensor] = []
        for k, part in enumerate(c.split(width)):
            own = self.inverses[k] @ part
            forward.append(own + self.links[k - 1] @ forward[-1] if k else own)
        back = [forward[-1]]
        for k in range(len(forward) - 2, -1, -1):
            back.append(forward[k] + self.links[k].T @ back[-1])
        return torch.cat([inverse.T @ part for inverse, part in zip(self.inverses, back[::-1], strict=True)])

    def inverse_diagonal(self, at: Int[Tensor, " m"] | None = None) -> Float[Tensor, " m"]:
        """Return the diagonal of (K + ridge I)^-1, or some of it: the squared lengths of the columns of L^-1 Q'."""
        Q = self.Q if at is None else self.Q[at]
        lengths = torch.zeros_like(Q[:, 0])
        for rows, length in zip(Q.split(ROWS), lengths.split(ROWS), strict=True):
            first, *parts = rows.split(len(self.inverses[0]), dim=1)
            passed = first @ self.inverses[0].T
            length += passed.square().sum(1)
            for part, inverse, link in zip(parts, self.inverses[1:], self.links, strict=True):
                passed = torch.addmm(passed @ link.T, part, inverse.T)
                length += passed.square().sum(1)
        return lengths


def band_form(K: Float[Tensor, "n n"], width: int = WIDTH) -> BandForm:
    """Reduce a symmetric matrix by blocked Householder reflections: 8/3 n^3 operations, nearly all matrix products.

    An eigendecomposition takes at least three times as many, half of the first third memory-bound.
    Backward stable: B is exact for a matrix within a modest multiple of round-off times ||K|| of K.

    Example:
        >>> K = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
        >>> band_form(K).factor(1.0).inverse_diagonal()  # of [[3, 1], [1, 3]]
        tensor([0.3750, 0.3750], dtype=torch.float64)
    """
    n, B = len(K), K.clone(memory_format=torch.contiguous_format)
    strip = max(width, -(-n // STRIPS))
    reflectors = []
    for start in range(width, n - width, width):
        panel = B[start:, start - width : start]
        V, T, R = _reflector(panel)
        panel.zero_()
        panel[:width] = R
        edges = [0, *(edge - start for edge in range(strip, n, strip) if edge > start), n - start]
        _two_sided(B[start:, start:], V, T, list(pairwise(edges)))
        reflectors.append((start, V, T))
    blocks = range(0, n, width)  # copies, from the lower triangle
    lower = [B[i : i + width, i : i + width].tril() for i in blocks]
    own = tuple(block + block.tril(-1).T for block in lower)
    below = tuple(B[i : i + width, i - width : i].clone() for i in blocks[1:])
    Q = B.zero_()
    Q.diagonal().fill_(1)
    for first in reversed(range(0, len(reflectors), JOINED)):
        start, V, T = _joined(reflectors[first : first + JOINED])
        Q[start:, start:].addmm_(V @ T, V.T @ Q[start:, start:], alpha=-1)
    return BandForm(Q, own, below)


def _reflector(panel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return V, T and R of panel = (I - V T V')[:, :width] R, with more rows than columns."""
    packed, tau = torch.geqrf(panel)
    V = packed.tril(-1)
    V.diagonal().copy_(tau != 0)  # a column that needs no reflection has tau = 0: then its v is 0 too
    inverse = (V.T @ V).triu(1)
    inverse.diagonal().copy_(torch.where(tau != 0, 1 / tau, 1.0))
    eye = torch.eye(len(tau), dtype=panel.dtype, device=panel.device)
    return V * (tau != 0), torch.linalg.solve_triangular(inverse, eye, upper=True), packed[: len(tau)].triu()


def _joined(reflectors: list[tuple[int, Tensor, Tensor]]) -> tuple[int, Tensor, Tensor]:
    """Return several reflections in a row as one: (I - V S V')(I - W T W') = I - [V W] [[S, -S V'W T], [0, T]] [V W]'.

    Each is given with the row it begins at; the rows above are added as zeros.
    """
    (start, V, T), *others = reflectors
    for begin, W, S in others:
        W = torch.nn.functional.pad(W, (0, 0, begin - start, 0))
        across = torch.cat([T, -T @ (V.T @ W) @ S], 1)
        V, T = torch.cat([V, W], 1), torch.cat([across, torch.nn.functional.pad(S, (T.shape[1], 0))])
    return start, V, T


def _two_sided(A: Tensor, V: Tensor, T: Tensor, strips: list[tuple[int, int]]) -> None:
    """Replace A by H'A H in place, H = I - V T V'; only the strips of its lower triangle are read and written."""
    VT = V @ T
    W = torch.zeros_like(VT)
    for i, j in strips:
        W[i:j] += A[i:j, :j] @ VT[:j]
        W[:i] += A[i:j, :i].T @ VT[i:j]
    W -= V @ (T.T @ (V.T @ W)) / 2
    left, right = torch.cat([W, V], 1), torch.cat([V, W], 1).T
    for i, j in strips:
        A[i:j, :j].addmm_(left[i:j], right[:, :j], alpha=-1)
