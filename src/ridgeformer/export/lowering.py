"""What every stock class is filled with: blocks of one attention and one gated sublayer, masks in the weights.

A stock class knows no roles. Every token therefore says in columns of its own which role it has and, in binary, which
number within that role; a head asks for them in a few more query and key columns, whose product is exactly 0 where
reading is allowed and at most -`masked()` where it is not. After a softmax the second is exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from math import ceil, log2

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.certificate.network import check_weights
from ridgeformer.compiler.compile import assemble
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.language.program import Attend, Gate
from ridgeformer.language.roles import AGGREGATOR, NULL, SUPPORT, Mask, Role

__all__ = [
    "UNDERFLOW",
    "Basis",
    "Block",
    "Lowered",
    "Matrices",
    "fill",
    "lower",
    "mark",
    "masked",
    "stream_width",
    "unshared",
]

MASKED = {torch.float64: 1024.0, torch.float32: 256.0}
"""What a logit loses where reading is not allowed."""

MASKED_ROTATED = 784.0
"""The same in a rotated float64 stream, whose rounding is multiplied by it."""

MARK, FAINT = 8.0, 4.0
"""What tokens hold in the columns of their role and number, and what supports hold there.

In a rotated stream every column is rounded in proportion to the whole token: the larger the marks, the more the
coefficients beside them lose. A key reads marks with a gain of `masked()` over their size: the smaller the marks, the
more logits lose. Of the powers of two that were tried these lost least; supports, whose coefficients count most, hold
the smaller.
"""

ROTATED_WIDTH = 128
"""A rotated stream has at least as many columns: each then holds, and is rounded to, less."""

UNDERFLOW = {torch.float64: 746.0, torch.float32: 104.0}
"""How far below the largest logit the exponential of another is exactly 0."""

LONE = (AGGREGATOR, NULL)
"""Roles of a single token, which need no number."""


def masked(dtype: torch.dtype, rotated: bool) -> float:
    """Return what a logit loses where reading is not allowed."""
    return MASKED_ROTATED if rotated and dtype == torch.float64 else MASKED[dtype]


def stream_width(lowered: Lowered, rotate: int | None) -> int:
    """Return the columns of a stream in a class that takes any number."""
    return lowered.width if rotate is None else max(lowered.width, ROTATED_WIDTH)


def mark(role: Role) -> float:
    """Return what the tokens of a role hold in its column."""
    return FAINT if role == SUPPORT else MARK


@dataclass(frozen=True, eq=False)
class Block:
    """One layer of a stock class: an attention sublayer, then a gated one; either may be missing."""

    attention: AttentionSublayer | None
    gated: GatedMLP | None


@dataclass(frozen=True, eq=False)
class Lowered:
    """A compiled transformer as blocks, before the basis of a class is chosen.

    Attributes:
        model: Whose channels all have columns of their own.
        max_tokens: The longest sequence.
        blocks: All layers, in order.
        ends: How many sublayers a token has passed through in hidden state 0 (the input), 1, 2, ...
        rotated: Whether the stream will be rotated.
    """

    model: CompiledTransformer
    max_tokens: int
    blocks: tuple[Block, ...]
    ends: tuple[int, ...]
    rotated: bool = False
    filled: dict[tuple[object, ...], Matrices] = field(default_factory=dict, repr=False)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return self.model.spec.torch_dtype

    @cached_property
    def role_columns(self) -> dict[Role, int]:
        """The column that holds `mark(role)` on the tokens of a role."""
        return {role: self.model.layout.width + place for place, role in enumerate(self.model.program.roles)}

    @cached_property
    def numbered(self) -> tuple[tuple[Role, ...], tuple[Role, ...]]:
        """Roles that read only the token of their own number in some head, and those read in this way."""
        heads = [mask for block in self.blocks if block.attention for mask in block.attention.masks]
        own = [rule for mask in heads for rule in mask.rules if rule.relation == "own" and rule.source not in LONE]
        roles = self.model.program.roles
        readers, sources = {rule.reader for rule in own}, {rule.source for rule in own}
        return tuple(role for role in roles if role in readers), tuple(role for role in roles if role in sources)

    @property
    def bits(self) -> int:
        """Binary digits of a token's number; none where no head asks for it."""
        return max(1, ceil(log2(self.max_tokens))) if self.numbered[0] else 0

    @property
    def _bits_from(self) -> int:
        return self.model.layout.width + len(self.role_columns)

    @property
    def width(self) -> int:
        """Columns of the stream with those of the masks."""
        return self._bits_from + 2 * self.bits

    def numbers(self, role: Role) -> Tensor | None:
        """Return what the tokens 0, 1, ... of a role hold in the columns of their numbers, (max_tokens, width)."""
        if not any(role in roles for roles in self.numbered):
            return None
        digits = (torch.arange(self.max_tokens)[:, None] >> torch.arange(self.bits)) & 1
        found = torch.zeros(self.max_tokens, self.width, dtype=torch.float64)
        for half, (roles, size) in enumerate(zip(self.numbered, (FAINT, MARK), strict=True)):
            if role in roles:
                start = self._bits_from + half * self.bits
                found[:, start : start + self.bits] = size * digits.double()
        return found

    def head_columns(self, mask: Mask) -> list[tuple[Tensor, Tensor]]:
        """Return the query and key columns, (width,) each, that put a mask into the weights."""
        roles, found = self.model.program.roles, []
        forbidden = {
            role: tuple(s for s in roles if not any(r.reader == role and r.source == s for r in mask.rules))
            for role in roles
        }
        if any(len(sources) == len(roles) for sources in forbidden.values()):
            raise InputError("a head lets some role read nobody, which no softmax can: compile the model again.")
        for sources, readers in groupby(sorted(roles, key=lambda role: forbidden[role]), lambda role: forbidden[role]):
            if sources:
                found.append((self._ones(tuple(readers)), -self._ones(sources)))
        own = {rule.source for rule in mask.rules if rule.relation == "own" and rule.source not in LONE}
        if own:
            if any(rule.relation == "all" and rule.source in own for rule in mask.rules):
                raise InputError(
                    "a head reads all tokens of a role and only its own of the same: it has no stock form."
                )
            (readers_of, sources_of), start = self.numbered, self._bits_from
            for bit in range(self.bits):
                asked, held = torch.zeros(2, self.width, dtype=torch.float64)
                asked[start + bit], held[start + self.bits + bit] = 1 / FAINT, 1 / MARK
                found += [(asked, held - self._ones(sources_of)), (self._ones(readers_of) - asked, -held)]
        return [(query, key * masked(self.dtype, self.rotated)) for query, key in found]

    def _ones(self, roles: tuple[Role, ...]) -> Tensor:
        """Return the column that reads 1 on the tokens of these roles."""
        found = torch.zeros(self.width, dtype=torch.float64)
        for role in roles:
            found[self.role_columns[role]] = 1 / mark(role)
        return found

    # -- sizes -------------------------------------------------------------------------------------

    @cached_property
    def heads(self) -> int:
        """Heads of the attention sublayer that has most."""
        return max(len(block.attention.heads) for block in self.blocks if block.attention)

    @cached_property
    def head_size(self) -> int:
        """Columns that the widest head needs."""
        sizes = [
            max(sublayer.W_Q[h].shape[1] + len(self.head_columns(sublayer.masks[h])), sublayer.W_V[h].shape[1])
            for sublayer in {id(b.attention): b.attention for b in self.blocks if b.attention}.values()
            for h in range(len(sublayer.heads))
        ]
        return max(sizes)

    @cached_property
    def units(self) -> int:
        """Units of the widest gated sublayer, 1 if there is none."""
        return max((block.gated.W_d.shape[0] for block in self.blocks if block.gated), default=1)


@dataclass(frozen=True, eq=False)
class Basis:
    """How the columns of the stream stand in the hidden state of a class.

    Attributes:
        write: E, (width, hidden): hidden = stream E.
        read: D, (hidden, width), with E D = I.
    """

    write: Tensor
    read: Tensor

    @classmethod
    def choose(cls, width: int, hidden: int, rotate: int | None, *, balanced: bool = False) -> Basis:
        """Return a basis.

        Args:
            width: Columns of the stream.
            hidden: Of the class.
            rotate: Seed of a random rotation; None leaves every column where it is.
            balanced: Give every column a negated twin, so that the mean that a LayerNorm subtracts is 0.
        """
        size = hidden // 2 if balanced else hidden
        R = torch.eye(size, dtype=torch.float64)
        if rotate is not None:
            draw = torch.randn(size, size, generator=torch_generator(rotate, "rotation of an export"), dtype=R.dtype)
            Q, upper = np.linalg.qr(draw.numpy())
            Q = (Q * np.sign(np.diagonal(upper))).astype(np.longdouble)
            Q = Q @ (1.5 * np.eye(size) - Q.T @ Q / 2)  # orthogonal to the last digit: LAPACK's loses a few
            R = torch.from_numpy(Q.astype(np.float64))
        rows = R[:width]
        return cls(torch.cat([rows, -rows], 1), torch.cat([rows, -rows], 1).T / 2) if balanced else cls(rows, rows.T)


@dataclass(frozen=True, eq=False)
class Matrices:
    """The weights of one block in a basis: Q, K, V are (hidden, heads * size), O the transpose of that shape."""

    Q: Tensor
    K: Tensor
    V: Tensor
    O: Tensor  # noqa: E741
    a: Tensor
    b: Tensor
    d: Tensor


def fill(lowered: Lowered, block: Block, basis: Basis, heads: int, size: int, scale: float = 1.0) -> Matrices:
    """Return the matrices of a block.

    Args:
        lowered: The transformer.
        block: Which block.
        basis: Of the class.
        heads: Heads of the class; those that are not needed are zero.
        size: Columns of a head.
        scale: What the class divides logits by.
    """
    same = (id(block.attention), id(block.gated), id(basis), heads, size, scale)
    if same not in lowered.filled:  # tied steps are filled once
        lowered.filled[same] = _fill(lowered, block, basis, heads, size, scale)
    return lowered.filled[same]


def _fill(lowered: Lowered, block: Block, basis: Basis, heads: int, size: int, scale: float) -> Matrices:
    width, dtype = lowered.width, torch.float64
    Q, K, V = torch.zeros(3, width, heads, size, dtype=dtype)
    O = torch.zeros(heads, size, width, dtype=dtype)  # noqa: E741
    old = lowered.model.layout.width
    if block.attention is not None:
        for h, mask in enumerate(block.attention.masks):
            for target, source in (
                (Q, block.attention.W_Q[h]),
                (K, block.attention.W_K[h]),
                (V, block.attention.W_V[h]),
            ):
                target[:old, h, : source.shape[1]] = source
            moved = block.attention.W_O[h]
            O[h, : moved.shape[0], :old] = moved
            start = block.attention.W_Q[h].shape[1]
            for place, (query, key) in enumerate(lowered.head_columns(mask), start=start):
                Q[:, h, place], K[:, h, place] = query, key
    a, b = torch.zeros(2, width, lowered.units, dtype=dtype)
    d = torch.zeros(lowered.units, width, dtype=dtype)
    if block.gated is not None:
        count = block.gated.W_d.shape[0]
        a[:old, :count], b[:old, :count], d[:count, :old] = block.gated.W_a, block.gated.W_b, block.gated.W_d
    read, write = basis.read, basis.write
    Q, K, V = (read @ W.reshape(width, -1) for W in (Q * scale, K, V))
    found = (Q, K, V, O.reshape(-1, width) @ write, read @ a, read @ b, d @ write)
    return Matrices(*(matrix.to(lowered.dtype) for matrix in found))


def unshared(model: CompiledTransformer) -> CompiledTransformer:
    """Return the model with columns of its own for every channel, compiled again if channels share some.

    Raises:
        InputError: its weights were edited; compiling again would lose that.
    """
    if not model.spec.share_channels:
        return model
    if float(check_weights(model).measured) != 0:
        raise InputError(
            "the weights of this model were edited and its channels share columns: compile it with "
            "share_channels=False, edit that, and export it."
        )
    embedding = model.carried if model.embedding is None else model.embedding
    return assemble(replace(model.spec, share_channels=False), embedding, model.unsketched)


def lower(model: CompiledTransformer, max_tokens: int, *, rotated: bool = False) -> Lowered:
    """Return a model as blocks of one attention and one gated sublayer.

    Raises:
        InputError: a model that no stock class can hold.
    """
    _refuse(model)
    model = unshared(model)
    read = {after for _, _, after in model.records}
    blocks, ends = list[Block](), [0]
    for number, (_, _, sublayer) in enumerate(model.sublayers, start=1):
        if isinstance(sublayer, GatedMLP):
            open_block = blocks and blocks[-1].gated is None and number - 1 not in read
            if open_block:
                blocks[-1] = replace(blocks[-1], gated=sublayer)
                ends[-1] = number
                continue
            blocks.append(Block(None, sublayer))
        else:
            blocks.append(Block(sublayer, None))
        ends.append(number)
    return Lowered(model, max_tokens, tuple(blocks), tuple(ends), rotated)


def _refuse(model: CompiledTransformer) -> None:
    """Refuse linear attention, gates that are not SwiGLU, and logits that are computed on the way."""
    spec = model.spec
    heads = [(i, head) for _, i in model.program.timeline() if isinstance(i, Attend) for head in i.heads]
    linear = next((instruction.name for instruction, head in heads if head.kind == "linear"), None)
    if linear is not None and spec.written:
        raise InputError(
            f"sublayer {linear!r} has a linear head, and stock classes have softmax heads only: use mean(...) and "
            "dot(...) instead of sum(...) and kind='linear', if the program allows it."
        )
    if linear is not None:
        raise InputError(
            "linear attention has no softmax, and stock classes have no other: compile an Exponential or Gaussian "
            "kernel."
        )
    if any(rule.relation == "before" for _, head in heads for rule in head.mask.rules):
        raise InputError("a head reads earlier tokens only, and the masks in the weights know roles, not order.")
    gates = [i for _, i in model.program.timeline() if isinstance(i, Gate)]
    if gates and spec.primitives != "swiglu":
        raise InputError(
            f"primitives are {spec.primitives!r}, and the gated layers of stock classes are SwiGLU: compile with "
            "primitives='swiglu', or attention='vanilla', which has none."
        )
    written = {name for i in model.program.steps[0] + model.program.prelude if isinstance(i, Gate) for name in i.writes}
    for _, _, sublayer in model.sublayers:
        if isinstance(sublayer, AttentionSublayer) and "soft maximum" in sublayer.heads and "eta" in written:
            raise InputError(
                "the step size found in context takes logits of any size, which no mask in the weights can exceed: "
                "compile Richardson(step_size=...)."
            )
