"""What a sublayer's weights amount to, read off their nonzero entries: operations on rows that the fast run follows.

Plans come from matrices and masks alone, not from the program. A sublayer reads the stream as it was before it: every
operation makes a new row and leaves the old one alone. A row may be shorter than the sequence: one number that every
token holds stays one number, and a cleared row is the number zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import copysign, inf
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ridgeformer.compiler.execution.operations import Operation, Update, Where, update
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.language.roles import AGGREGATOR, NULL, Mask, Role, Tokens

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["AttentionPlan", "GatedPlan", "HeadPlan", "plan_attention", "plan_gated"]


Entries = list[tuple[int, float]]


@dataclass(frozen=True)
class GatedPlan:
    """A gated sublayer as operations on rows; None where its gates are not products and quotients."""

    operations: Update | None


@dataclass(frozen=True, eq=False)
class HeadPlan:
    """A head that reads other tokens.

    Attributes:
        number: Which head of the sublayer.
        scores: The same object for all heads with the same scores and mask: what one has made, the others use.
        kind: "mean" (every score zero), "pattern" (softmax), "sum" (linear attention) or "pair" (a softmax over a
            token itself and one other, the same for all).
        query, key: Rows that the scores read, with the nonzero parts of W_Q and W_K.
        values: (target row, source row, coefficient).
        readers: Tokens that get something; None is all of them, or that the others get an exact zero.
        idle: Tokens that get nothing.
        sources: Tokens that are read, if every reader reads the same ones.
    """

    number: int
    scores: object
    kind: str
    query: tuple[tuple[int, ...], Tensor]
    key: tuple[tuple[int, ...], Tensor]
    values: tuple[tuple[int, int, float], ...]
    readers: tuple[slice, ...] | None
    idle: tuple[slice, ...]
    sources: slice | None

    @cached_property
    def runs(self) -> tuple[tuple[int, int, int, float], ...]:
        """Values that move neighbouring columns to neighbouring ones: (target, source, count, coefficient)."""
        found: list[tuple[int, int, int, float]] = []
        for target, source, coefficient in self.values:
            if found and (target, source) == (found[-1][0] + found[-1][2], found[-1][1] + found[-1][2]):
                to, of, count, scale = found[-1]
                if scale == coefficient:
                    found[-1] = (to, of, count + 1, scale)
                    continue
            found.append((target, source, 1, coefficient))
        return tuple(found)

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """Rows it writes to."""
        return tuple(target for target, _, _ in self.values)


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """An attention sublayer: heads that read other tokens, and operations of tokens on themselves."""

    heads: tuple[HeadPlan, ...]
    own: Update


def plan_gated(sublayer: GatedMLP, ones: frozenset[int]) -> GatedPlan:
    """Return the plan of a gated sublayer; columns in `ones` hold 1 on every token and need no multiplication."""
    operations = []
    reads, gated, writes = _columns(sublayer.W_a), _columns(sublayer.W_b), _columns(sublayer.W_d.T)
    for unit, gate in enumerate(sublayer.gates):
        a, b, out = reads[unit], gated[unit], writes[unit]
        if gate == "relu" and len(a) == 1 and a[0][0] in ones:
            weights = [] if not b else [(target, _held(a[0][1] * weight, sublayer.W_a)) for target, weight in out]
            operations += [Operation(target, (), weight, rectified=tuple(b)) for target, weight in weights]
            continue
        if gate not in ("identity", "reciprocal") or len(b) != 1:
            return GatedPlan(None)
        other, scale = b[0]
        if gate == "reciprocal" and scale != 1.0:
            return GatedPlan(None)  # the guard is for what the gate sees
        for target, weight in out:
            for row, coefficient in a:
                if gate == "identity":
                    factors = (row,) if other in ones else (row, other)
                    operations.append(Operation(target, factors, _held(coefficient * scale * weight, sublayer.W_a)))
                else:
                    operations.append(Operation(target, (row,), _held(coefficient * weight, sublayer.W_a), other))
    planned = update(operations)
    if "relu" in sublayer.gates and len(planned.actions) + len(planned.groups) > MOST_CALLS:
        return GatedPlan(None)  # piecewise-linear products have hundreds of units: matrices are faster
    return GatedPlan(planned)


MOST_CALLS = 64


def plan_attention(sublayer: AttentionSublayer, tokens: Tokens, known: dict[object, object]) -> AttentionPlan:
    """Return the plan of an attention sublayer for a sequence; scores met before are found in `known`."""
    heads: list[HeadPlan] = []
    own: list[Operation] = []
    for number, mask in enumerate(sublayer.masks):
        values = _values(sublayer, number)
        scored = bool(sublayer.W_Q[number].any()) and bool(sublayer.W_K[number].any())
        if not values or not (scored or sublayer.kinds[number] == "softmax"):
            continue
        if mask.own_only:
            own += _own_operations(sublayer, number, values, _spans([rule.reader for rule in mask.rules], tokens))
        else:
            heads.append(_head_plan(sublayer, number, values, mask, tokens, known))
    return AttentionPlan(tuple(heads), update(own))


def _head_plan(
    sublayer: AttentionSublayer,
    number: int,
    values: list[tuple[int, int, float]],
    mask: Mask,
    tokens: Tokens,
    known: dict[object, object],
) -> HeadPlan:
    query, key = _part(sublayer.W_Q[number]), _part(sublayer.W_K[number])
    softmax = sublayer.kinds[number] == "softmax"
    sources = _same_sources(mask, tokens)
    flat = softmax and not (query[0] and key[0]) and sources is not None
    kind = "mean" if flat else "pattern" if softmax or sources is None else "sum"
    lone = _own_or_lone(mask, tokens) if softmax and query[0] and key[0] else None
    if lone is not None:
        kind, sources = "pair", lone
    readers = {rule.reader for rule in mask.rules}
    idle = [tokens.rows(role) for role in tokens.counts if role not in readers]
    spans = None if kind == "pattern" else _spans(list(readers), tokens)
    entries = [tuple(map(tuple, _columns(W[number]))) for W in (sublayer.W_Q, sublayer.W_K)]
    scores = known.setdefault((kind, softmax, mask, *entries), object())
    return HeadPlan(number, scores, kind, query, key, tuple(values), spans, tuple(idle), sources)


def _own_operations(
    sublayer: AttentionSublayer, number: int, values: list[tuple[int, int, float]], where: Where
) -> list[Operation]:
    """Return what a head does in which every token reads itself: softmax gives it weight 1, linear its score."""
    if sublayer.kinds[number] == "softmax":
        return [Operation(target, (source,), scale, None, where) for target, source, scale in values]
    return [
        Operation(target, (reader, other, source), _held(left * right * scale, sublayer.W_Q[number]), None, where)
        for queries, keys in zip(_columns(sublayer.W_Q[number]), _columns(sublayer.W_K[number]), strict=True)
        for reader, left in queries
        for other, right in keys
        for target, source, scale in values
    ]


def _values(sublayer: AttentionSublayer, number: int) -> list[tuple[int, int, float]]:
    return [
        (target, source, _held(read * write, sublayer.W_V[number]))
        for sources, targets in zip(_columns(sublayer.W_V[number]), _columns(sublayer.W_O[number].T), strict=True)
        for source, read in sources
        for target, write in targets
    ]


def _held(coefficient: float, W: Tensor) -> float:
    """Return a product of weights as their precision holds it, infinite beyond: torch refuses to convert it."""
    beyond = abs(coefficient) > torch.finfo(W.dtype).max
    return copysign(inf, coefficient) if beyond else coefficient


def _columns(W: Tensor) -> list[Entries]:
    """Return the nonzero entries of every column, as (row, value)."""
    columns: list[Entries] = [[] for _ in range(W.shape[1])]
    places = W.nonzero()
    for (row, column), value in zip(places.tolist(), W[places[:, 0], places[:, 1]].tolist(), strict=True):
        columns[column].append((row, value))
    return columns


def _part(W: Tensor) -> tuple[tuple[int, ...], Tensor]:
    rows = W.abs().sum(1).nonzero().flatten()
    return tuple(int(row) for row in rows), W[rows]


def _spans(roles: list[Role], tokens: Tokens) -> tuple[slice, ...] | None:
    """Return where the tokens of these roles stand, neighbours joined; None if that is everywhere."""
    joined: list[slice] = []
    for role in tokens.counts:
        if role not in roles:
            continue
        here = tokens.rows(role)
        if joined and joined[-1].stop == here.start:
            joined[-1] = slice(joined[-1].start, here.stop)
        else:
            joined.append(here)
    return None if joined == [slice(0, tokens.total)] else tuple(joined)


def _own_or_lone(mask: Mask, tokens: Tokens) -> slice | None:
    """Return where the one token stands that all tokens read besides themselves, if that is how the mask is."""
    lone = {rule.source for rule in mask.rules if rule.relation == "all"}
    if len(lone) != 1 or not lone <= {AGGREGATOR, NULL} or any(rule.relation == "before" for rule in mask.rules):
        return None
    (source,) = lone
    own = {rule.reader for rule in mask.rules if rule.relation == "own" and rule.reader == rule.source}
    others = [rule for rule in mask.rules if rule.relation == "own" and rule.reader != rule.source]
    readers = {rule.reader for rule in mask.rules if rule.relation == "all"}
    everyone = set(tokens.counts)
    return tokens.rows(source) if not others and readers == everyone and own == everyone - {source} else None


def _same_sources(mask: Mask, tokens: Tokens) -> slice | None:
    """Return the one span of sources that every reader reads whole, if that is how the mask is."""
    by_reader: dict[Role, set[Role]] = {}
    for rule in mask.rules:
        if rule.relation != "all":
            return None
        by_reader.setdefault(rule.reader, set()).add(rule.source)
    sources = list(by_reader.values())
    if any(other != sources[0] for other in sources):
        return None
    spans = _spans(list(sources[0]), tokens)
    if spans is None:
        return slice(0, tokens.total)
    return spans[0] if len(spans) == 1 else None


def always_one(model: CompiledTransformer) -> frozenset[int]:
    """Return the columns that hold 1 on every token throughout: so the embedding fills them, and no sublayer writes."""
    writes = [W for layer in model.modules() if isinstance(layer, AttentionSublayer) for W in layer.W_O]
    writes += [layer.W_d for layer in model.modules() if isinstance(layer, GatedMLP)]
    one = torch.stack([(W[:-1] == 0).all(0) & (W[-1] == 1) for W in model.embed.values()]).all(0)
    written = torch.stack([(W != 0).any(0) for W in writes]).any(0)
    return frozenset(int(column) for column in (one & ~written).nonzero().flatten())
