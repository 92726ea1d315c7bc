"""What a head or a gated sublayer writes, and what that is sensitive to, per channel and role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ridgeformer.compiler.layout import Layout
from ridgeformer.compiler.sublayers import GatedMLP
from ridgeformer.export.lowering import LONE
from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Attend, Gate, Head
from ridgeformer.language.roles import Role

__all__ = ["CONSTANT", "VARIES", "ZERO", "Flow", "Key", "attention_flows", "gated_flows", "term_flows"]

ZERO, CONSTANT, VARIES = 0, 1, 2
"""Kinds of content: zero on all data, the same on all data of one size, different from task to task."""

Key = tuple[str, Role]
"""A channel on the tokens of a role."""

Kinds = Mapping[Key, int]


@dataclass(frozen=True)
class Flow:
    """Something that is added to a channel on the tokens of a role.

    Attributes:
        write: Where it is added.
        reads: What it is sensitive to: a change there, alone, changes what is added.
        kind: Of what is added.
    """

    write: Key
    reads: frozenset[Key]
    kind: int


def attention_flows(instruction: Attend, roles: tuple[Role, ...], kinds: Kinds) -> list[tuple[Flow, ...]]:
    """Return the flows of every head, that of clearing last if the sublayer clears."""
    found = [_head_flows(head, roles, kinds) for head in instruction.heads]
    if instruction.clear:
        keys = [(name, role) for name in instruction.clear for role in roles]
        found.append(tuple(Flow(key, frozenset({key}), kinds[key]) for key in keys))
    return found


def _head_flows(head: Head, roles: tuple[Role, ...], kinds: Kinds) -> tuple[Flow, ...]:
    found = []
    for reader in roles:
        rules = [rule for rule in head.mask.rules if rule.reader == reader]
        sources = {rule.source for rule in rules}
        lone = len(rules) == 1 and (rules[0].relation == "own" or rules[0].source in LONE)  # its weight is 1 anyway
        asked, tilted = set[Key](), ZERO
        for left, right, _ in () if lone else head.scores:
            pairs = [(kinds[left, reader], kinds[right, source]) for source in sources]
            tilted = max(tilted, *(_product(*pair) for pair in pairs))
            if any(pair[1] for pair in pairs):
                asked.add((left, reader))
            if kinds[left, reader]:
                asked |= {(right, source) for source in sources}
        for target in dict.fromkeys(value[0] for value in head.values):
            moved = {(name, source) for to, name, _ in head.values if to == target for source in sources}
            held = max(kinds[key] for key in moved)
            kind = held if held == ZERO else max(held, tilted)
            found.append(Flow((target, reader), frozenset(moved | (asked if held else set())), kind))
    return tuple(found)


def gated_flows(sublayer: GatedMLP, layout: Layout, roles: tuple[Role, ...], kinds: Kinds) -> tuple[Flow, ...]:
    """Return the flows of all units, from the nonzero entries of the weights."""
    named = {column: name for name, columns in layout.columns.items() for column in columns}
    found = []
    for unit in range(sublayer.W_d.shape[0]):
        rows = (sublayer.W_a[:, unit], sublayer.W_b[:, unit], sublayer.W_d[unit])
        a, b, d = ({named[column] for column in row.nonzero().flatten().tolist()} for row in rows)
        for role in roles:
            flow = _multiplied({(name, role) for name in a}, {(name, role) for name in b}, kinds)
            found += [Flow((name, role), *flow) for name in d]
    return tuple(found)


def term_flows(instruction: Gate, roles: tuple[Role, ...], kinds: Kinds) -> tuple[Flow, ...]:
    """Return the flows that an instruction means: what channels hold after it, without the removal of the old."""
    found = []
    for target, terms in instruction.assignments:
        for term in terms:
            if term == Term(1.0, (target,)):
                continue
            for role in roles:
                first, *second = ({(name, role)} for name in term.channels)
                one = {("one", role)}
                found.append(Flow((target, role), *_multiplied(first, second[0] if second else one, kinds)))
    return tuple(found)


def _multiplied(a: set[Key], b: set[Key], kinds: Kinds) -> tuple[frozenset[Key], int]:
    """Return what a product of two sums is sensitive to, and its kind."""
    left, right = (max((kinds[key] for key in side), default=ZERO) for side in (a, b))
    return frozenset((a if right else set()) | (b if left else set())), _product(left, right)


def _product(left: int, right: int) -> int:
    return max(left, right) if left and right else ZERO
