"""From the temporaries of a statement to sublayers, and clearing what a section no longer needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from ridgeformer.language.expansion import TOKEN
from ridgeformer.language.expressions import Expression
from ridgeformer.language.flattening import Work
from ridgeformer.language.program import Apply, Attend, Gate, Head, Instruction, Program, Record
from ridgeformer.language.roles import AGGREGATOR, SUPPORT, Role, reads

__all__ = ["stage", "tidy", "unassigned", "used"]

Sublayer = Attend | Gate | Apply


def stage(
    work: Iterable[Work], final: Mapping[str, Expression], roles: tuple[Role, ...], name: str, caption: str
) -> list[Sublayer]:
    """Return the sublayers of one statement: those of its temporaries level by level, then its assignments.

    A statement that only takes means or sums ends with its heads, and one that only applies a function with that.
    """
    found: list[Sublayer] = []
    temporaries = {item.target: item for item in work}
    ending = _ending(final, temporaries)
    if ending:
        final = {}
        for item, _, _ in ending:
            del temporaries[item.target]
    levels = sorted(temporaries.values(), key=lambda item: item.level)
    for _, group in groupby(levels, key=lambda item: item.level):
        items = list(group)
        gates = [item for item in items if item.kind == "gate"]
        heads = [item for item in items if item.kind in ("mean", "sum")]
        if gates:
            shown = ", ".join(f"{item.target} = {item.text}" for item in gates)
            found.append(Gate(name, shown, tuple((item.target, item.terms) for item in gates)))
        if heads:
            shown = ", ".join(f"{item.target} = {item.text}" for item in heads)
            found.append(Attend(name, shown, tuple(_reduction(item, item.target, 1.0, roles) for item in heads)))
        found += [_applied(item, item.target, name) for item in items if item.kind == "apply"]
    if ending and ending[0][0].kind == "apply":
        found.append(replace(_applied(ending[0][0], ending[0][1], name), caption=caption))
    elif ending:
        found.append(Attend(name, caption, tuple(_reduction(*item, roles) for item in ending)))
    elif final:
        found.append(Gate(name, caption, tuple(final.items())))
    if found and temporaries:
        found[-1] = replace(found[-1], clear=tuple(temporaries))
    return found


def _ending(final: Mapping[str, Expression], temporaries: Mapping[str, Work]) -> list[tuple[Work, str, float]]:
    """Return (temporary, target, coefficient) a target, if all are multiples of reductions, or one is a function."""
    found = []
    for target, terms in final.items():
        alone = len(terms) == 1 and terms[0].linear and terms[0].factors[0] in temporaries
        if not alone:
            return []
        found.append((temporaries[terms[0].factors[0]], target, terms[0].coefficient))
    if all(item.kind in ("mean", "sum") for item, _, _ in found):
        return found
    item, target, coefficient = found[0]
    lone = len(found) == 1 and item.kind == "apply" and coefficient == 1.0 and item.source != target
    return found if lone else []


def _reduction(item: Work, target: str, coefficient: float, roles: tuple[Role, ...]) -> Head:
    scores = (("one", "one", 1.0),) if item.kind == "sum" else ()
    kind = "linear" if item.kind == "sum" else "softmax"
    values = ((target, item.source, coefficient),)
    return Head(f"{item.kind} {target}", scores, values, reads(roles, (SUPPORT,)), kind)  # type: ignore[arg-type]


def _applied(item: Work, target: str, name: str) -> Apply:
    return Apply(name, f"{target} = {item.text}", target, item.function, item.source, item.span)


def tidy(section: list[Instruction], local: Iterable[str], held: Iterable[str], *, repeated: bool) -> list[Instruction]:
    """Return a section whose local channels are cleared after their last use, and whose heads write to empty ones.

    Clearing takes part in a sublayer that is there anyway; where there is none, a channel stays as it is and the head
    that writes it the next time clears it first.

    Args:
        section: Its instructions.
        local: Channels that nothing outside the section reads.
        held: Channels that may hold something when it begins.
        repeated: Whether it runs again, so that what is not cleared is still there.
    """
    found, left = list(section), set(local)
    for name in sorted(left):
        last = max((place for place, i in enumerate(found) if _uses(i, name)), default=None)
        if last is None:
            continue
        last_one = found[last]
        own = not isinstance(last_one, Record) and name not in last_one.writes
        place = (
            last if own else next((n for n in range(last + 1, len(found)) if not isinstance(found[n], Record)), None)
        )
        if place is not None:
            sublayer = found[place]
            assert not isinstance(sublayer, Record)
            if name not in sublayer.clear:
                found[place] = replace(sublayer, clear=(*sublayer.clear, name))
            left.discard(name)
    full = set(held) | (left if repeated else set())
    for place, instruction in enumerate(found):
        if isinstance(instruction, Record):
            continue
        if not isinstance(instruction, Gate):
            again = tuple(sorted(instruction.writes & full - set(instruction.clear)))
            instruction = replace(instruction, clear=(*instruction.clear, *again))
            found[place] = instruction
        full = (full - set(instruction.clear)) | instruction.writes
    return found


def _uses(instruction: Instruction, name: str) -> bool:
    if isinstance(instruction, Record):
        return instruction.channel == name
    return name in instruction.reads or name in instruction.writes or name in instruction.clear


def used(program: Program) -> set[str]:
    """Return the channels that some sublayer or record touches; a function needs the channels of its two tokens."""
    found = set[str]()
    for _, instruction in program.timeline():
        if isinstance(instruction, Record):
            found.add(instruction.channel)
            continue
        found |= instruction.reads | instruction.writes | set(instruction.clear)
        if isinstance(instruction, Apply):
            found |= {TOKEN, AGGREGATOR.value}
    return found


def unassigned(program: Program) -> list[str]:
    """Return the states that something reads and nothing assigns: they would have no columns of their own."""
    written, read = set[str](), dict[str, None]()
    for _, instruction in program.timeline():
        if isinstance(instruction, Record):
            read[instruction.channel] = None
            continue
        read |= dict.fromkeys(sorted(instruction.reads))
        written |= instruction.writes
    return [name for name in read if name not in written and program.channels[name].source is None]
