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

DEAD = 8
"""Dead channels that decoys and idle parts write, one after the other as the program goes on, each from those before
it: nearly every part reads what every earlier part wrote, and values stay moderate. Two more are embedded."""

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
    for number in range(1, DEAD + 1):
        channels[f"dead_{number}"] = Channel(f"dead_{number}", "outputs", "carries data that nobody uses")
    found = replace(program, channels=channels, uniform=False)
    real = [head for _, i in program.timeline() if isinstance(i, Attend) for head in i.heads]
    held = {name: (role,) if role else channels[name].on for name, role in CARRIES.items() if name in channels}
    alike = program.steps * steps if program.uniform else program.steps
    sections = [program.prelude, *alike, program.readout]
    gated = any(isinstance(i, Gate) for section in sections for i in section)
    draw = _Draw(numpy_generator(seed, "distractors"), held, real, sum(len(section) for section in sections))
    found.prelude, *found.steps, found.readout = (draw.section(section, decoys, gated) for section in sections)
    return found


class _Draw:
    """Random decoys, with the scores, masks and scales of real heads; `length` is the number of instructions."""

    def __init__(
        self, generator: np.random.Generator, held: dict[str, tuple[Role, ...]], real: list[Head], length: int
    ) -> None:
        self.generator, self.held, self.real, self.length = generator, held, real, length
        self.passed, self.sign, self.sizes = 0, 1.0, dict[tuple[str, str], float]()

    @property
    def _written(self) -> int:
        """The number of the dead channel that is written at this point of the program."""
        return 1 + min(self.passed * DEAD // self.length, DEAD - 1)

    @property
    def _earlier(self) -> list[str]:
        """The dead channels that it is written from."""
        return ["dead_y", *(f"dead_{number}" for number in range(1, self._written))]

    def section(self, section: list[Instruction], decoys: int, gated: bool) -> list[Instruction]:
        """Return a section with decoys beside its instructions and, where gates follow each other, between them."""
        free = [place for place, i in enumerate(section) if place and isinstance(i, Gate)]
        places = [int(place) for place in self.generator.choice(free, decoys)] if gated and free else []
        found: list[Instruction] = []
        for place, instruction in enumerate(section):
            for number in range(places.count(place)):
                heads = tuple(self._head(f"decoy {number}.{head}") for head in range(decoys))
                assigned = self._product()
                gate = Gate(f"decoy gate {place}.{number}", f"{assigned[0]} is not used", (assigned,))
                found += [Attend(f"decoy heads {place}.{number}", "not used", heads), gate]
            found.append(self._beside(instruction, decoys) if isinstance(instruction, Attend | Gate) else instruction)
            self.passed += 1
        return found

    def _beside(self, instruction: Attend | Gate, decoys: int) -> Attend | Gate:
        """Add decoy heads to an attention sublayer, and idle parts to its heads and to gated sublayers."""
        if isinstance(instruction, Gate):
            return replace(instruction, assignments=(*instruction.assignments, self._product()))
        heads = [replace(head, values=(*head.values, *self._moved(head))) for head in instruction.heads]
        heads += [self._head(f"decoy {number}") for number in range(decoys)]
        order = self.generator.permutation(len(heads))
        return replace(instruction, heads=tuple(heads[place] for place in order))

    def _head(self, name: str) -> Head:
        """Return a decoy: the scores and the mask of a real head, other values, as many and as large."""
        like = self.real[int(self.generator.integers(len(self.real)))]
        readers = {rule.reader for rule in like.mask.rules if rule.source == SUPPORT}
        sources = {rule.source for rule in like.mask.rules if rule.reader in readers}  # all heads read supports
        target = f"dead_{self._written}"
        carried = [(target, self._carried(sources), self._scale(scale)) for _, _, scale in like.values]
        scores = tuple((left, right, scale * self.generator.uniform(0.7, 1.4)) for left, right, scale in like.scores)
        return replace(like, name=name, scores=scores, values=(*carried, *self._moved(like)))

    def _moved(self, like: Head) -> list[tuple[str, str, float]]:
        """Return what a head, real or decoy, also moves: earlier dead channels into the present one."""
        size = float(np.sqrt(np.mean([scale**2 for _, _, scale in like.values])))
        return [(f"dead_{self._written}", source, self._scale(size)) for source in self._earlier]

    def _product(self) -> tuple[str, tuple[Term, ...]]:
        """Return a dead channel, and what the units of a gated sublayer add to it.

        There may be a hundred such sublayers, so the next one takes the linear part away again.
        """
        target, sources = f"dead_{self._written}", self._earlier
        factors = (self._carried(), sources[int(self.generator.integers(len(sources)))])
        self.sign = -self.sign
        linear = [(source, self.sizes.setdefault((target, source), self._scale())) for source in sources]
        added = tuple(Term(self.sign * size, (source,)) for source, size in linear)
        return target, (Term(1.0, (target,)), Term(self._scale(), factors), *added)

    def _carried(self, sources: set[Role] | None = None) -> str:
        """Return a channel that holds data: of one column, or, read by a head, on one of its sources."""
        if sources is None:
            names = [name for name in self.held if name != "dead_x"]
        else:
            names = [name for name, roles in self.held.items() if sources & set(roles)]
        return names[int(self.generator.integers(len(names)))]

    def _scale(self, size: float = 1.0) -> float:
        return float(self.generator.choice([-1.0, 1.0]) * size * self.generator.uniform(0.4, 1.6))
