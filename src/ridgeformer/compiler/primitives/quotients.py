"""The pass that replaces quotients by products with an inverse, which earlier sublayers have prepared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Channel, Gate, Instruction, Program

__all__ = ["Inversion", "invert_before_dividing"]


@dataclass(frozen=True)
class Inversion:
    """How a divisor is inverted.

    Attributes:
        channel: Holds the inverse, until the sublayer that multiplies by it clears it.
        scratch: Channels the gates also use, and clear.
        gates: Gated sublayers that fill `channel`.
        scale: 1 / divisor is this multiple of `channel`.
    """

    channel: Channel
    scratch: tuple[Channel, ...]
    gates: tuple[Gate, ...]
    scale: float = 1.0


Inverter = Callable[[Channel], Inversion]
"""Called with the divisor."""


def invert_before_dividing(program: Program, invert: Inverter, native: Callable[[Term], bool]) -> Program:
    """Return the program with every quotient that is not `native` made a product, the numerator's turn last.

    A divisor that several quotients of a sublayer share is inverted once.
    """
    channels = dict(program.channels)

    def rewritten(section: list[Instruction]) -> list[Instruction]:
        found: list[Instruction] = []
        for instruction in section:
            if isinstance(instruction, Gate):
                found += _split(instruction, channels, invert, native)
            else:
                found.append(instruction)
        return found

    prelude, readout = rewritten(program.prelude), rewritten(program.readout)
    steps = [rewritten(step) for step in program.steps]
    return replace(program, channels=channels, prelude=prelude, steps=steps, readout=readout)


def _split(
    gate: Gate, channels: dict[str, Channel], invert: Inverter, native: Callable[[Term], bool]
) -> tuple[Gate, ...]:
    """Return the gates that invert every divisor of a gate, then the gate itself without quotients."""
    terms = [term for _, expression in gate.assignments for term in expression]
    divisors = dict.fromkeys(term.divisor for term in terms if term.divisor is not None and not native(term))
    inversions = {divisor: invert(channels[divisor]) for divisor in divisors}
    if not inversions:
        return (gate,)
    for inversion in inversions.values():
        channels.update({channel.name: channel for channel in (inversion.channel, *inversion.scratch)})

    def product(term: Term) -> Term:
        if term.divisor is None or native(term):
            return term
        inversion = inversions[term.divisor]
        return Term(term.coefficient * inversion.scale, (*term.factors, inversion.channel.name))

    assignments = tuple((target, tuple(product(term) for term in terms)) for target, terms in gate.assignments)
    cleared = (*gate.clear, *(inversion.channel.name for inversion in inversions.values()))
    last = Gate(gate.name, _caption(gate.caption, inversions), assignments, cleared)
    return (*(prepared for inversion in inversions.values() for prepared in inversion.gates), last)


def _caption(caption: str, inversions: dict[str, Inversion]) -> str:
    for divisor, inversion in inversions.items():
        by = inversion.channel.name if inversion.scale == 1 else f"{inversion.scale:.4g} * {inversion.channel.name}"
        caption = re.sub(rf"/ {re.escape(divisor)}\b", f"* {by}", caption)
    return caption
