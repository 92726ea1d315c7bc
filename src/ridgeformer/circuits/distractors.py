"""Distractors: heads, gated units and channels that carry data and never reach the prediction.

They are written into the program, before it has weights, so that nothing about them is special afterwards: they are
arranged, lowered, rotated and exported with the rest. Decoys read what the algorithm reads and attend where it attends;
they write into dead channels, which only other decoys, and idle parts of real heads and units, read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ridgeformer.core.seeds import numpy_generator
from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Attend, Channel, Gate, Head, Instruction, Program
from ridgeformer.language.roles import ANCHOR, SUPPORT, Role

__all__ = ["distract"]

DEAD = 4
"""Dead channels that decoys write, each from lower ones only, so that values stay moderate; two more are embedded."""

CARRIES = {"y": None, "r": None, "p": None, "alpha": SUPPORT, "copy": ANCHOR, "dead_x": None, "dead_y": None}
"""Channels of moderate size that decoys read, with the role that holds them where the embedding does not say."""


def distract(program: Program, steps: int, seed: int, decoys: int) -> Program:
    """Return the program with distractors; its predictions stay as they are, its steps are no longer alike.

    Args:
        program: Of softmax attention, rewritten for the units it is to be made of.
        steps: Of the algorithm.
        seed: Of their choice.
        decoys: Decoy heads beside the heads of every attention sublayer; as many decoy layers are put into each section
            of a program with gated sublayers.
    """
    given = {channel.source: channel for channel in reversed(program.channels.values())}
    channels = dict(program.channels)
    channels["dead_x"] = Channel("dead_x", "features", "features nobody uses", "features", given["features"].on)
    channels["dead_y"] = Channel("dead_y", "outputs", "targets nobody uses", "targets", given["targets"].on)
    for number in range(DEAD):
        channels[f"dead_{number}"] = Channel(f"dead_{number}", "outputs", "carries data that nobody uses")
    found = replace(program, channels=channels, uniform=False)
    real = [head for _, i in program.timeline() if isinstance(i, Attend) for head in i.heads]
    held = {name: (role,) if role else channels[name].on for name, role in CARRIES.items() if name in channels}
    draw = _Draw(numpy_generator(seed, "distractors"), held, real)
    gated = any(isinstance(instruction, Gate) for _, instruction in program.timeline())
    found.prelude = draw.section(program.prelude, decoys, gated)
    alike = program.steps * steps if program.uniform else program.steps
    found.steps = [draw.section(step, decoys, gated) for step in alike]
    found.readout = draw.section(program.readout, decoys, gated)
    return found


class _Draw:
    """Random decoys, with the scores, masks and scales of real heads."""

    def __init__(self, generator: np.random.Generator, held: dict[str, tuple[Role, ...]], real: list[Head]) -> None:
        self.generator, self.held, self.real = generator, held, real

    def section(self, section: list[Instruction], decoys: int, gated: bool) -> list[Instruction]:
        """Return a section with decoys beside its instructions and, where gates follow each other, between them."""
        found: list[Instruction] = [self._beside(i, decoys) if isinstance(i, Attend | Gate) else i for i in section]
        free = [place for place, i in enumerate(section) if place and isinstance(i, Gate)]
        if gated and free:
            places = sorted((int(place) for place in self.generator.choice(free, decoys)), reverse=True)
            for number, place in enumerate(places):
                heads = tuple(self._head(f"decoy {number}.{head}") for head in range(decoys))
                target, terms = self._product()
                gate = Gate(f"decoy gate {number}", f"{target} is not used", ((target, terms),))
                found[place:place] = [Attend(f"decoy heads {number}", "not used", heads), gate]
        return found

    def _beside(self, instruction: Attend | Gate, decoys: int) -> Attend | Gate:
        """Add decoy heads to an attention sublayer, and idle parts to its heads and to gated sublayers."""
        idle = self.generator.random() < 0.5
        if isinstance(instruction, Gate):
            return (
                replace(instruction, assignments=(*instruction.assignments, self._product())) if idle else instruction
            )
        heads = [self._entangled(head) if self.generator.random() < 0.5 else head for head in instruction.heads]
        heads += [self._head(f"decoy {number}") for number in range(decoys)]
        order = self.generator.permutation(len(heads))
        return replace(instruction, heads=tuple(heads[place] for place in order))

    def _head(self, name: str) -> Head:
        """Return a decoy: the scores and the mask of a real head, other values."""
        like = self.real[int(self.generator.integers(len(self.real)))]
        size = float(np.linalg.norm([scale for _, _, scale in like.values]))
        source, target = self._dead()
        readers = {rule.reader for rule in like.mask.rules if rule.source == SUPPORT}
        sources = {rule.source for rule in like.mask.rules if rule.reader in readers}  # all heads read supports
        carried = (target, self._carried(sources), self._scale(size))
        scores = tuple((left, right, scale * self.generator.uniform(0.7, 1.4)) for left, right, scale in like.scores)
        return replace(like, name=name, scores=scores, values=(carried, (target, source, self._scale())))

    def _entangled(self, head: Head) -> Head:
        """Return a real head that also moves one dead channel into another."""
        source, target = self._dead()
        return replace(head, values=(*head.values, (target, source, self._scale())))

    def _product(self) -> tuple[str, tuple[Term, ...]]:
        """Return a dead channel, and what a decoy unit makes of it."""
        source, target = self._dead()
        factors = (self._carried(), source)
        return target, (Term(1.0, (target,)), Term(self._scale(), factors), Term(self._scale(), (source,)))

    def _dead(self) -> tuple[str, str]:
        """Return two dead channels, the lower first."""
        low, high = sorted(int(place) for place in self.generator.choice(DEAD, 2, replace=False))
        return f"dead_{low}", f"dead_{high}"

    def _carried(self, sources: set[Role] | None = None) -> str:
        """Return a channel that holds data: of one column, or, read by a head, on one of its sources."""
        if sources is None:
            names = [name for name in self.held if name != "dead_x"]
        else:
            names = [name for name, roles in self.held.items() if sources & set(roles)]
        return names[int(self.generator.integers(len(names)))]

    def _scale(self, size: float = 1.0) -> float:
        return float(self.generator.choice([-1.0, 1.0]) * size * self.generator.uniform(0.4, 1.2))
