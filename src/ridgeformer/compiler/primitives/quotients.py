"""The pass that replaces quotients by products with an inverse, which earlier sublayers have prepared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest

from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Attend, Channel, Gate, Head, Instruction, Program, Record

__all__ = ["Inversion", "invert_before_dividing"]


@dataclass(frozen=True)
class Inversion:
    """How a divisor is inverted.

    Attributes:
        channel: Holds the inverse, until the last sublayer that multiplies by it clears it.
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

Native = Callable[[Term], bool]
"""Whether the units divide by themselves."""


def invert_before_dividing(program: Program, invert: Inverter, native: Native, *, early: bool = False) -> Program:
    """Return the program with every quotient that is not `native` made a product, the numerator's turn last.

    A divisor that several quotients of a sublayer share is inverted once. With `early`, divisors that are known at the
    same time are inverted side by side, and one that no step changes is inverted before the first step.
    """
    channels, kept = dict(program.channels), dict[str, Inversion]()
    if early:
        for divisor in dict.fromkeys(d for _, i in program.timeline() for d in _divisors(i, native)):
            inversion = invert(channels[divisor])
            moved = _inverted_once(program, divisor, inversion)
            if moved is not None:
                program, kept[divisor] = moved, inversion
                channels.update({channel.name: channel for channel in (inversion.channel, *inversion.scratch)})

    def rewritten(section: list[Instruction]) -> list[Instruction]:
        found, ready = list[Instruction](), dict[str, Inversion]()
        for place, instruction in enumerate(section):
            if not isinstance(instruction, Gate):
                found.append(instruction)
                continue
            used = _divisors(instruction, native)
            due = [d for d in used if d not in kept and d not in ready]
            if due and early:
                due += [d for d in _known(section[place:], native) if d not in (*due, *kept, *ready)]
            made = {divisor: invert(channels[divisor]) for divisor in due}
            channels.update({c.name: c for inversion in made.values() for c in (inversion.channel, *inversion.scratch)})
            found += _side_by_side(made) if early else [gate for inverted in made.values() for gate in inverted.gates]
            ready |= made
            later = _known(section[place:], native) if early else []
            done = [divisor for divisor in used if divisor in ready and divisor not in later]
            found.append(_multiplied(instruction, {d: (kept | ready)[d] for d in used}, done, native))
            for divisor in done:
                del ready[divisor]
        return found

    prelude, readout = rewritten(program.prelude), rewritten(program.readout)
    steps = [rewritten(step) for step in program.steps]
    return replace(program, channels=channels, prelude=prelude, steps=steps, readout=readout)


def _divisors(instruction: Instruction, native: Native) -> list[str]:
    """Return what an instruction divides by, each once."""
    if not isinstance(instruction, Gate):
        return []
    terms = [term for _, expression in instruction.assignments for term in expression]
    return list(dict.fromkeys(term.divisor for term in terms if term.divisor is not None and not native(term)))


def _changes(instruction: Instruction) -> set[str]:
    return set() if isinstance(instruction, Record) else {*instruction.writes, *instruction.clear}


def _known(section: list[Instruction], native: Native) -> list[str]:
    """Return the divisors of later instructions that neither the first one nor any in between changes."""
    found, changed = list[str](), _changes(section[0])
    for instruction in section[1:]:
        found += [d for d in _divisors(instruction, native) if d not in changed and d not in found]
        changed |= _changes(instruction)
    return found


def _side_by_side(inversions: dict[str, Inversion]) -> list[Gate]:
    """Return gates that do the work of all inversions at once, in as many sublayers as the longest takes."""
    found = []
    for together in zip_longest(*(inversion.gates for inversion in inversions.values())):
        gates = [gate for gate in together if gate is not None]
        names = ", ".join(gate.name.partition(":")[0] for gate in gates)
        caption = "; ".join(gate.caption for gate in gates)
        assignments = tuple(one for gate in gates for one in gate.assignments)
        cleared = tuple(name for gate in gates for name in gate.clear)
        found.append(Gate(f"{names}:{gates[0].name.partition(':')[2]}", caption, assignments, cleared))
    return found


def _inverted_once(program: Program, divisor: str, inversion: Inversion) -> Program | None:
    """Return the program with a divisor that is the same in every step inverted before the first; None if it is not.

    It is the same if one head fills it, always with the same scores and values, from channels that stay as they are.
    """
    timeline = [i for _, i in program.timeline() if not isinstance(i, Record)]
    writers = [i for i in timeline if divisor in i.writes]
    heads = {part for i in writers for part in (_filling(i, divisor) if isinstance(i, Attend) else [None])}
    head = heads.pop() if len(heads) == 1 else None
    if head is None or any(head.reads & _changes(i) for i in timeline[timeline.index(writers[0]) :]):
        return None
    *gates, last = inversion.gates
    inverted = [*gates, replace(last, clear=(*last.clear, divisor))]
    if writers[0] in program.prelude:
        place = program.prelude.index(writers[0]) + 1
        prelude = [*program.prelude[:place], *inverted, *(_without(divisor, i) for i in program.prelude[place:])]
    else:
        alone = Attend(f"{divisor} once", f"{divisor}, the same in every step", (head,))
        prelude = [*program.prelude, alone, *inverted]
    steps = [[_without(divisor, i) for i in step] for step in program.steps]
    return replace(program, prelude=prelude, steps=steps, readout=[_without(divisor, i) for i in program.readout])


def _filling(instruction: Attend, channel: str) -> list[Head]:
    """Return the heads that write a channel, reduced to that, under the name of the channel."""
    found = [(head, tuple(value for value in head.values if value[0] == channel)) for head in instruction.heads]
    return [replace(head, name=channel, values=values) for head, values in found if values]


def _without(channel: str, instruction: Instruction) -> Instruction:
    """Return an instruction that leaves a channel alone."""
    if isinstance(instruction, Record):
        return instruction
    clear = tuple(name for name in instruction.clear if name != channel)
    if not isinstance(instruction, Attend):
        return replace(instruction, clear=clear)
    heads = (replace(h, values=tuple(v for v in h.values if v[0] != channel)) for h in instruction.heads)
    caption = re.sub(rf", {re.escape(channel)}\b(?=[^=]*=)", "", instruction.caption, count=1)
    return replace(instruction, caption=caption, heads=tuple(head for head in heads if head.values), clear=clear)


def _multiplied(gate: Gate, inversions: dict[str, Inversion], done: list[str], native: Native) -> Gate:
    """Return a gate that multiplies by inverses instead of dividing, and clears those that are not needed again."""

    def product(term: Term) -> Term:
        if term.divisor is None or native(term):
            return term
        inversion = inversions[term.divisor]
        return Term(term.coefficient * inversion.scale, (*term.factors, inversion.channel.name))

    assignments = tuple((target, tuple(product(term) for term in terms)) for target, terms in gate.assignments)
    caption = gate.caption
    for divisor, inversion in inversions.items():
        by = inversion.channel.name if inversion.scale == 1 else f"{inversion.scale:.4g} * {inversion.channel.name}"
        caption = re.sub(rf"/ {re.escape(divisor)}\b", f"* {by}", caption)
    return Gate(gate.name, caption, assignments, (*gate.clear, *(inversions[d].channel.name for d in done)))
