"""A sublayer in words: where in the algorithm it stands, and one plain sentence on what it does."""

from __future__ import annotations

from collections.abc import Iterable

from ridgeformer.compiler.specification import Specification
from ridgeformer.language.program import Attend, Gate, Head, Program

__all__ = ["sentence", "title"]

METHODS = {
    "cg": "CG",
    "richardson": "Gradient descent",
    "chebyshev": "Chebyshev",
    "nadaraya_watson": "One softmax head",
}
"""Algorithms whose usual name is shorter than their family's."""


def title(spec: Specification, section: str, instruction: Attend | Gate) -> str:
    """Return which step of the algorithm a sublayer is part of, such as "CG step 3 of 8: curvature"."""
    if section == "prelude":
        return f"Before the first step: {instruction.name}"
    if section == "readout":
        return f"After the last step: {instruction.name}"
    family = spec.algorithm.family
    method = METHODS.get(spec.algorithm.name, f"{family[0].upper()}{family[1:]}")
    return f"{'P' * spec.algorithm.preconditioned}{method} {section} of {spec.steps}: {instruction.name}"


def sentence(program: Program, instruction: Attend | Gate) -> str:
    """Return what a sublayer does and what its channels hold after it."""
    does = "Every token, on its own, computes" if isinstance(instruction, Gate) else _reading(instruction.heads)
    held = _listed(f"{name} ({program.channels[name].meaning})" for name in sorted(instruction.writes))
    cleared = [name for name in instruction.clear if name not in instruction.writes]
    last = f"; {_listed(cleared)} {'is' if len(cleared) == 1 else 'are'} cleared" if cleared else ""
    return f"{does} {instruction.caption}. This writes {held}{last}."


def _reading(heads: tuple[Head, ...]) -> str:
    """Return who reads whom; heads with different habits are only named."""
    if len(heads) > 1:
        return f"{len(heads)} heads ({', '.join(head.name for head in heads)}) work at once:"
    (head,) = heads
    readers, sources = (
        _listed(dict.fromkeys(_plural(getattr(rule, side).value) for rule in head.mask.rules))
        for side in ("reader", "source")
    )
    if head.mask.own_only:
        return f"{readers[0].upper()}{readers[1:]} read only themselves, {_weighing(head)}:"
    verb = "reads" if readers.startswith("the ") and " and " not in readers else "read"
    return f"{readers[0].upper()}{readers[1:]} {verb} {sources}, {_weighing(head)}:"


def _weighing(head: Head) -> str:
    if not head.scores:
        return "all with the same weight"
    pairs = _listed(left if left == right else f"{left} with {right}" for left, right, _ in head.scores)
    return f"weighed by {'the softmax' if head.kind == 'softmax' else 'products'} of {pairs}"


def _plural(role: str) -> str:
    return {"aggregator": "the aggregator", "null": "the null token", "query": "queries"}.get(role, f"{role}s")


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
