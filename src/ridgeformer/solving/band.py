"""A symmetric matrix as a block tridiagonal one in another basis: one reduction, then every shift is cheap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.core.errors import InputError
from ridgeformer.core.products import add_product, product

__all__ = ["BandFactor", "BandForm", "band_form"]

WIDTH = 64
"""Size of the blocks: products of this width run near full speed, and a shift costs 4 WIDTH n^2."""

TILE = 1024
"""Rows of a square tile of the matrix, a multiple of the width; each lies in one piece."""

STRIP = 512
"""Columns of a strip of Q, a multiple of the width; each lies in one piece."""

JOINED = 4
"""Reflections applied to Q as one: wider products are faster, and Q is read and written less often."""

ROWS = 5120
"""Rows of Q handled at a time: more make products faster and take more memory."""


@dataclass(frozen=True, eq=False)
class BandForm:
    """K = Q B Q', Q orthogonal and B block tridiagonal, given by its diagonal blocks and those below them.

    Q is held as strips of `STRIP` columns.
    """

    Q: tuple[Float[Tensor, "n _"], ...] = field(repr=False)
    own: tuple[Tensor, ...] = field(repr=False)
    below: tuple[Tensor, ...] = field(repr=False)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of all."""
        return self.Q[0].dtype

    def rotated(self, b: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return Q'b."""
        rows = b.T.contiguous()
        return torch.cat([product(rows, strip) for strip in self.Q], 1).T

    def turned_back(self, c: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return Q c."""
        found = torch.zeros_like(c, memory_format=torch.contiguous_format)
        for strip, part in zip(self.Q, c.split(STRIP), strict=True):
            add_product(found, strip, part)
        return found

    def factor(self, ridge: float) -> BandFactor:
        """Return the Cholesky factor of B + ridge I, by blocks: O(n WIDTH^2).

        Raises:
            InputError: there is none in this precision; the ridge is below the round-off of K.
        """
        return self.factors([ridge])[0]

    def factors(self, ridges: Sequence[float]) -> list[BandFactor]:
        """Return the factors of several ridges, side by side."""
        shifts = torch.tensor(ridges, dtype=self.dtype, device=self.Q[0].device)[:, None, None]
        inverses: list[Tensor] = []
        links: list[Tensor] = []
        for k, block in enumerate(self.own):
            eye = torch.eye(len(block), dtype=block.dtype, device=block.device).expand(len(ridges), -1, -1)
            rest = block + shifts * eye
            link = self.below[k - 1] @ inverses[-1].mT if k else None
            if link is not None:
                rest = rest - link @ link.mT
            L, info = torch.linalg.cholesky_ex(rest)
            if bool((info != 0).any()):
                least = min(ridge for ridge, failed in zip(ridges, info.tolist(), strict=True) if failed)
                raise InputError(f"ridge is {least:.3g}, below the round-off of K in {block.dtype}: raise it.")
            inverses.append(torch.linalg.solve_triangular(L, eye, upper=False))
            if link is not None:
                links.append(-inverses[-1] @ link)
        return [
            BandFactor(self.Q, tuple(one[g] for one in inverses), tuple(one[g] for one in links))
            for g in range(len(ridges))
        ]


@dataclass(frozen=True, eq=False)
class BandFactor:
    """L^-1 of K + ridge I = Q L L' Q', as the inverse of each diagonal block and what links it to the one before."""

    Q: tuple[Tensor, ...] = field(repr=False)
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
        width = len(self.inverses[0])
        steps = [self.inverses[0].T.contiguous()]
        steps += [torch.cat([own, link], 1).T for own, link in zip(self.inverses[1:], self.links, strict=True)]
        strips = self.Q if at is None else tuple(strip[at] for strip in self.Q)
        lengths = torch.zeros_like(strips[0][:, 0])
        for start in range(0, len(lengths), ROWS):
            rows = slice(start, start + ROWS)
            parts = [part for strip in strips for part in strip[rows].split(width, dim=1)]
            squares = torch.zeros_like(parts[0])
            passed = squares[:, :0]
            for part, step in zip(parts, steps, strict=True):
                passed = product(torch.cat([part, passed], 1), step)
                squares[:, : passed.shape[1]].addcmul_(passed, passed)
            lengths[rows] = squares.sum(1)
        return lengths


def band_form(K: Float[Tensor, "n n"], width: int = WIDTH, *, dtype: torch.dtype | None = None) -> BandForm:
    """Reduce a symmetric matrix by blocked Householder reflections: 8/3 n^3 operations, nearly all matrix products.

    These are in `dtype`, if one is given; K is left as it is.

    An eigendecomposition takes at least three times as many, half of the first third memory-bound.
    Backward stable: B is exact for a matrix within a modest multiple of round-off times ||K|| of K.

    Example:
        >>> K = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
        >>> band_form(K).factor(1.0).inverse_diagonal()  # of [[3, 1], [1, 3]]
        tensor([0.3750, 0.3750], dtype=torch.float64)
    """
    n, lower = len(K), _Lower(K, dtype or K.dtype)
    own, below, reflectors = [], [], []
    for start in range(width, n - width, width):
        block, panel = lower.taken(start - width, width)
        V, T, R = _reflector(panel)
        lower.reflect(start, V, T)
        own.append(block)
        below.append(R)
        reflectors.append((start, V, T))
    for start in range(width * len(own), n, width):  # one or two are left
        block, panel = lower.taken(start, min(width, n - start))
        own.append(block)
        below.extend([panel] * bool(len(panel)))
    Q = [torch.zeros(n, min(STRIP, n - left), dtype=dtype or K.dtype, device=K.device) for left in range(0, n, STRIP)]
    for left, strip in zip(range(0, n, STRIP), Q, strict=True):
        strip[left:].fill_diagonal_(1)
    for first in reversed(range(0, len(reflectors), JOINED)):
        start, V, T = _joined(reflectors[first : first + JOINED])
        VT, across = product(V, T), V.T.contiguous()
        for strip in Q[start // STRIP :]:
            add_product(strip[start:], VT, product(across, strip[start:]), alpha=-1.0)
    return BandForm(tuple(Q), tuple(own), tuple(below))


class _Lower:
    """The lower triangle of a symmetric matrix in square tiles; those on the diagonal are whole.

    The last reflection is applied to a tile when the next one reads it, so that each tile comes from memory once for
    both: `pending` holds, for the rows from `first` on, what is still to be subtracted, as left right'.
    """

    def __init__(self, K: Float[Tensor, "n n"], dtype: torch.dtype) -> None:
        edges = [slice(start, start + TILE) for start in range(0, len(K), TILE)]
        whole = torch.contiguous_format
        self.tiles = [
            [K[rows, columns].to(dtype, copy=True, memory_format=whole) for columns in edges[: i + 1]]
            for i, rows in enumerate(edges)
        ]
        self.first, self.pending = 0, (K.new_zeros(len(K), 0, dtype=dtype), K.new_zeros(len(K), 0, dtype=dtype))

    def taken(self, start: int, width: int) -> tuple[Tensor, Tensor]:
        """Return the block on the diagonal from `start` on and the columns below it; here they become zero."""
        j, begin = divmod(start, TILE)
        end = begin + width
        tiles = [row[j] for row in self.tiles[j:]]
        columns = torch.cat([tiles[0][begin:, begin:end], *(tile[:, begin:end] for tile in tiles[1:])])
        left, right = (one[start - self.first * TILE :] for one in self.pending)
        add_product(columns, left, right[:width].T, alpha=-1.0)
        tiles[0][begin:end] = 0
        for tile in tiles:
            tile[:, begin:end] = 0
        for one in (left, right):
            one[:width] = 0
        return columns[:width], columns[width:]

    def reflect(self, start: int, V: Float[Tensor, "m w"], T: Float[Tensor, "w w"]) -> None:
        """Replace A by H'A H, H = I - V T V' for the rows from `start` on; those before must be zero."""
        skipped, cut = divmod(start, TILE)
        V = torch.nn.functional.pad(V, (0, 0, cut, 0))
        VT = product(V, T)
        W, rows = torch.zeros_like(VT), [row[skipped:] for row in self.tiles[skipped:]]
        places, factors = W.split(TILE), VT.split(TILE)
        left, right = (one[(skipped - self.first) * TILE :].split(TILE) for one in self.pending)
        for i, row in enumerate(rows):
            across = factors[i].T.contiguous()
            for j, tile in enumerate(row):
                begin = cut if j == 0 else 0  # columns before it are zero
                active = tile[:, begin:]
                add_product(active, left[i], right[j][begin:].T, alpha=-1.0)
                places[i].add_(product(active, factors[j][begin:]))
                if j < i:
                    places[j].add_(product(across, tile).T)
        W[:cut] = 0
        W -= product(V, T.T @ (V.T @ W)) / 2
        self.first, self.pending = skipped, (torch.cat([W, V], 1), torch.cat([V, W], 1))


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
