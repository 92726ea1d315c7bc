"""Where channels stand in the residual stream: names to columns, and the pass that lets them share storage.

Two channels may share columns if their lives never touch: one must have been cleared, exactly to zero, in
an earlier sublayer than the one that first writes the other. Clearing and writing in one sublayer would
leave the round-off of the old value behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ridgeformer.language.program import Attend, Channel, Gate, Program

__all__ = ["Layout", "Life", "arrange", "lives"]


@dataclass(frozen=True)
class Layout:
    """The columns of every channel.

    Attributes:
        columns: Channel name to its columns.
        width: Columns in all, unused ones included.
        features: Columns that carry features.
        per_output: Channels with one column an output.
        constants: Channels that hold one value on some roles and zero elsewhere, with that value.
    """

    columns: Mapping[str, tuple[int, ...]]
    width: int
    features: int
    per_output: frozenset[str]
    constants: Mapping[str, float]

    @property
    def used(self) -> int:
        """Columns that some channel stands in."""
        return 1 + max(column for columns in self.columns.values() for column in columns)

    @property
    def overhead(self) -> int:
        """Columns beyond the features: the c of "width p + c"."""
        return self.used - self.features


def arrange(program: Program, features: int, outputs: int, *, share: bool, width: int | None = None) -> Layout:
    """Give every channel its columns; with `share`, channels with disjoint lives get the same ones."""
    sizes = {"features": features, "outputs": outputs, "one": 1}
    alive = lives(program)
    columns: dict[str, tuple[int, ...]] = {}
    busy: list[set[int] | None] = []  # the positions at which a column is in use; None: always
    for name, channel in sorted(program.channels.items(), key=lambda item: alive[item[0]] is not None):
        life = alive[name]
        free = [
            c for c, used in enumerate(busy) if share and life is not None and used is not None and not used & life.held
        ]
        wanted = sizes[channel.size]
        chosen = free[:wanted]
        chosen += range(len(busy), len(busy) + wanted - len(chosen))
        for column in chosen:
            if column == len(busy):
                busy.append(None if life is None else set())
            used = busy[column]
            if used is not None and life is not None:
                used |= life.held
        columns[name] = tuple(chosen)
    declared = sum(sizes["features"] for channel in program.channels.values() if channel.size == "features")
    per_output = frozenset(name for name, channel in program.channels.items() if channel.size == "outputs")
    constants = {name: c.source for name, c in program.channels.items() if isinstance(c.source, float) and c.source}
    return Layout(columns, max(width or 0, len(busy)), declared, per_output, constants)


@dataclass(frozen=True)
class Life:
    """The positions on the timeline at which a channel holds something, and those at which it is first written."""

    held: frozenset[int]
    births: frozenset[int]


def lives(program: Program) -> dict[str, Life | None]:
    """Return the life of each channel; None means it is always alive.

    Channels the embedding fills, and those that live from one step into the next, are always alive.
    """
    timeline = [(section, i) for section, i in program.timeline() if isinstance(i, Attend | Gate)]
    return {name: _life(channel, timeline) for name, channel in program.channels.items()}


def _life(channel: Channel, timeline: list[tuple[str, Attend | Gate]]) -> Life | None:
    if channel.source is not None:
        return None
    held: set[int] = set()
    births: set[int] = set()
    born: int | None = None
    for position, (section, instruction) in enumerate(timeline):
        if born is not None and section != timeline[born][0]:
            return None  # it crosses from one section into another, and perhaps from step to step
        if born is None and channel.name in instruction.writes:
            born = position
            births.add(position)
        if channel.name in instruction.clear and born is not None and born != position:
            held.update(range(born, position + 1))
            born = None
    if born is not None:
        if timeline[born][0].startswith("step"):
            return None
        held.update(range(born, len(timeline)))
    return Life(frozenset(held), frozenset(births))
