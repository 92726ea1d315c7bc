"""Functions as stock parts: sigmoid and exp are a softmax over two tokens, square roots are Newton's iteration.

sigmoid(x) is what a head puts on its own token, with the logit x, beside the aggregator, with the logit 0. The weight
on the aggregator is 1 / (1 + e^x), so exp(x) is the quotient of the two. 1 / sqrt(b) takes products only:
y <- y + y m / 2 with m = 1 - b y^2, which becomes m^2 (3 + m) / 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Apply, Attend, Channel, Gate, Head, Instruction, Program
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, Mask, Rule

__all__ = ["TOKEN", "expand", "root_sweeps"]

TOKEN = "token"
"""A channel that holds 1 on every token but the aggregator."""

ENOUGH = 1e-9
"""What 1 - b y^2 may be before the last sweep, which squares it."""

BLOCK = 4
"""Sweeps between two measurements of 1 - b y^2: the recursion alone would keep its rounding errors."""


def root_sweeps(low: float, high: float) -> int:
    """Return how many sweeps bring y within rounding of 1 / sqrt(b) for every b in [low, high].

    Example:
        >>> [root_sweeps(1 / span, 1.0) for span in (4.0, 1e4, 1e8)]
        [7, 17, 28]
    """
    m, sweeps = 1 - low / high, 1
    while m > ENOUGH:
        m, sweeps = m * m * (3 + m) / 4, sweeps + 1
    return sweeps


def expand(program: Program) -> Program:
    """Return the program with every function replaced by heads and gated sublayers."""
    channels = dict(program.channels)

    def section(instructions: list[Instruction]) -> list[Instruction]:
        found: list[Instruction] = []
        for instruction in instructions:
            if not isinstance(instruction, Apply):
                found.append(instruction)
                continue
            made, needed = _EXPANSIONS[instruction.function](instruction, channels, _Names(program.channels))
            channels.update({channel.name: channel for channel in needed})
            found += [*made[:-1], replace(made[-1], clear=(*made[-1].clear, *_rest(instruction, made)))]
        return found

    prelude, steps = section(program.prelude), [section(step) for step in program.steps]
    readout = section(program.readout)
    return replace(program, channels=channels, prelude=prelude, steps=steps, readout=readout)


Expanded = tuple[list[Attend | Gate], list[Channel]]


class _Names:
    """Names for the channels that a function needs, beside those of the program."""

    def __init__(self, taken: Mapping[str, Channel]) -> None:
        self.taken = taken

    def __call__(self, name: str) -> str:
        """Return this name, with underscores where the program has it."""
        while name in self.taken:
            name += "_"
        return name


def _rest(instruction: Apply, made: list[Attend | Gate]) -> tuple[str, ...]:
    """Return what is still to be cleared; a head clears its target itself."""
    return tuple(name for name in instruction.clear if name != instruction.target and name not in made[-1].clear)


def _two_tokens(instruction: Apply, values: tuple[tuple[str, str, float], ...], clear: tuple[str, ...]) -> Attend:
    rules = [Rule(role, role, "own") for role in (SUPPORT, QUERY)] + [
        Rule(role, AGGREGATOR) for role in (SUPPORT, QUERY)
    ]
    scores = ((instruction.source, TOKEN, 1.0),)
    head = Head("own or aggregator", scores, values, Mask((*rules, Rule(AGGREGATOR, AGGREGATOR))), "softmax")
    return Attend(instruction.name, instruction.caption, (head,), clear)


def _sigmoid(instruction: Apply, channels: dict[str, Channel], free: _Names) -> Expanded:
    held = (instruction.target,) if instruction.target in instruction.clear else ()
    return [_two_tokens(instruction, ((instruction.target, TOKEN, 1.0),), held)], []


def _exp(instruction: Apply, channels: dict[str, Channel], free: _Names) -> Expanded:
    target, size = instruction.target, channels[instruction.target].size
    own, rest = free(f"{target}_own"), free(f"{target}_rest")
    attend = _two_tokens(instruction, ((own, TOKEN, 1.0), (rest, "aggregator", 1.0)), ())
    quotient = ((target, (Term(1.0, (own,), rest),)),)
    gate = Gate(f"{instruction.name}: quotient", f"{target} = {own} / {rest}", quotient, (own, rest))
    source = instruction.source
    needed = [
        Channel(own, size, f"e^{source} / (1 + e^{source})", most=1.0),
        Channel(rest, size, f"1 / (1 + e^{source})", most=1.0),
    ]
    return [replace(attend, caption=f"{own}, {rest} = softmax of {source} and 0"), gate], needed


def _rsqrt(instruction: Apply, channels: dict[str, Channel], free: _Names) -> Expanded:
    y, b, (low, high) = instruction.target, instruction.source, instruction.span
    m, n, name = free(f"{y}_missing"), free(f"{y}_square"), instruction.name
    size = channels[instruction.target].size
    moved = (y, (Term(1.0, (y,)), Term(0.5, (y, m))))
    squared = (n, (Term(1.0, (m, m)),))
    next_m = (m, (Term(0.75, (n,)), Term(0.25, (n, m))))
    product, measured = (n, (Term(1.0, (b, y)),)), (m, (Term(1.0, ("one",)), Term(-1.0, (n, y))))
    first = ((y, (Term(1 / sqrt(high), ("one",)),)), (m, (Term(1.0, ("one",)), Term(-1 / high, (b,)))))
    gates = [Gate(f"{name}: start", f"{y} = {high:g}^-1/2, {m} = 1 - {b} / {high:g}", first)]

    def measure(sweep: int) -> list[Gate]:
        return [
            Gate(f"{name}: product {sweep}", f"{n} = {b} * {y}", (product,)),
            Gate(f"{name}: measure {sweep}", f"{m} = 1 - {n} * {y}", (measured,), (n,)),
        ]

    sweeps = root_sweeps(low, high)
    for sweep in range(1, sweeps):
        if sweep % BLOCK == 0:
            gates += measure(sweep)
        caption = f"{y} += {y} * {m} / 2, {n} = {m} * {m}"
        gates.append(Gate(f"{name}: sweep {sweep}", caption, (moved, squared)))
        gates.append(Gate(f"{name}: missing {sweep}", f"{m} = 3/4 {n} + {n} * {m} / 4", (next_m,), (n,)))
    last = Gate(f"{name}: sweep {sweeps}", f"{y} += {y} * {m} / 2", (moved,), (m,))
    needed = [Channel(m, size, f"1 - {b} * {y}^2"), Channel(n, size, "a product on the way")]
    return [*gates, *measure(sweeps), last], needed


def _sqrt(instruction: Apply, channels: dict[str, Channel], free: _Names) -> Expanded:
    target, b = instruction.target, instruction.source
    inverse = Channel(free(f"{target}_inverse"), channels[target].size, f"1 / sqrt({b})")
    inner = replace(instruction, target=inverse.name, clear=())
    gates, needed = _rsqrt(inner, {**channels, inverse.name: inverse}, free)
    times = Gate(f"{instruction.name}: root", f"{target} = {b} * {inverse.name}",
                 ((target, (Term(1.0, (b, inverse.name)),)),), (inverse.name,))  # fmt: skip
    return [*gates, times], [inverse, *needed]


_EXPANSIONS = {"sigmoid": _sigmoid, "exp": _exp, "rsqrt": _rsqrt, "sqrt": _sqrt}
