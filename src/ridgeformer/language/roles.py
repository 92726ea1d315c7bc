"""Token roles, and masks as functions of roles: who may read whom, never what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import torch
from torch import Tensor

from ridgeformer.core.errors import InputError, unknown_name

__all__ = [
    "AGGREGATOR",
    "ANCHOR",
    "NULL",
    "QUERY",
    "SUPPORT",
    "Mask",
    "Role",
    "Rule",
    "Tokens",
    "checked_mask",
    "own",
    "reads",
]


class Role(StrEnum):
    """What a token stands for."""

    SUPPORT = "support"
    ANCHOR = "anchor"
    AGGREGATOR = "aggregator"
    NULL = "null"
    QUERY = "query"


SUPPORT, ANCHOR, AGGREGATOR, NULL, QUERY = Role.SUPPORT, Role.ANCHOR, Role.AGGREGATOR, Role.NULL, Role.QUERY


@dataclass(frozen=True)
class Tokens:
    """How many tokens of each role there are, in the order of the sequence."""

    counts: Mapping[Role, int]

    def __hash__(self) -> int:
        return hash(tuple(self.counts.items()))

    @property
    def total(self) -> int:
        """Length of the sequence."""
        return sum(self.counts.values())

    def rows(self, role: Role) -> slice:
        """Return where the tokens of a role stand."""
        start = 0
        for other, count in self.counts.items():
            if other == role:
                return slice(start, start + count)
            start += count
        return slice(0, 0)


@dataclass(frozen=True)
class Rule:
    """Tokens of one role may read those of another: all of them, only the one of the same number, or earlier ones."""

    reader: Role
    source: Role
    relation: Literal["all", "own", "before"] = "all"


@dataclass(frozen=True)
class Mask:
    """Which tokens a head lets which tokens read."""

    rules: tuple[Rule, ...]

    def matrix(self, tokens: Tokens, device: torch.device | str = "cpu") -> Tensor:
        """Return the boolean (tokens, tokens) matrix: reader rows, source columns."""
        allowed = torch.zeros(tokens.total, tokens.total, dtype=torch.bool, device=device)
        for rule in self.rules:
            block = allowed[tokens.rows(rule.reader), tokens.rows(rule.source)]
            if rule.relation == "all":
                block.fill_(True)
            elif rule.relation == "own":
                block.fill_diagonal_(True)
            else:
                block |= torch.ones_like(block).tril(-1)
        return allowed

    @property
    def own_only(self) -> bool:
        """Whether every token reads itself and no other."""
        return all(rule.relation == "own" and rule.reader == rule.source for rule in self.rules)


def reads(readers: tuple[Role, ...], sources: tuple[Role, ...]) -> Mask:
    """Return the mask in which every reader reads every source.

    Example:
        >>> tokens = Tokens({SUPPORT: 2, QUERY: 1})
        >>> reads((SUPPORT, QUERY), (SUPPORT,)).matrix(tokens).int().tolist()
        [[1, 1, 0], [1, 1, 0], [1, 1, 0]]
    """
    return Mask(tuple(Rule(reader, source) for reader in readers for source in sources))


def own(*roles: Role) -> Mask:
    """Return the mask in which tokens of these roles read themselves."""
    return Mask(tuple(Rule(role, role, "own") for role in roles))


def checked_mask(readers: str, sources: str, relation: str, known: tuple[Role, ...]) -> Mask:
    """Return the mask of roles given as words.

    Raises:
        InputError: an unknown role or relation, or a mask through which answers could depend on other queries.
    """
    roles = []
    for given in (readers, sources):
        for name in given.split():
            if name not in {role.value for role in known}:
                raise unknown_name("role", name, [role.value for role in known])
        roles.append([Role(name) for name in given.split()])
    if relation not in ("all", "own", "before"):
        raise InputError(f"relation is {relation!r}; 'all', 'own' or 'before' was expected.")
    rules = []
    for reader in roles[0]:
        for source in roles[1]:
            if relation == "own" and reader != source:
                continue
            if source == QUERY and relation != "own":
                raise InputError(
                    f"this mask lets {reader.value} tokens read queries, so answers would depend on other queries: "
                    "take query out of the sources, or read relation='own'."
                )
            before = relation == "before" and reader == source == SUPPORT
            rules.append(Rule(reader, source, "own" if relation == "own" else "before" if before else "all"))
    if not rules:
        raise InputError("this mask lets no token read any other: name readers and sources.")
    return Mask(tuple(rules))
