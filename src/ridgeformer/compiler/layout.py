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
    channels, alive = program.channels, lives(program)
    columns: dict[str, tuple[int, ...]] = {}
    busy: list[set[int]] = []  # the positions at which each column that may be shared is in use
    kept = 0  # columns that are always in use, which come first
    # channels of the features come first among those that share, so that their columns are neighbours
    order = sorted(channels, key=lambda name: alive[name] is not None and 1 + (channels[name].size != "features"))
    for name in order:
        life, wanted = alive[name], sizes[channels[name].size]
        if life is None:
            columns[name] = tuple(range(kept, kept + wanted))
            kept += wanted
            continue
        free = [c for c, used in enumerate(busy) if share and not used & life.held][:wanted]
        free += range(len(busy), len(busy) + wanted - len(free))
        busy += [set() for _ in range(free[-1] + 1 - len(busy))]
        for column in free:
            busy[column] |= life.held
        columns[name] = tuple(kept + column for column in free)
    declared = features * sum(channel.size == "features" for channel in channels.values())
    per_output = frozenset(name for name, channel in channels.items() if channel.size == "outputs")
    constants = {name: c.source for name, c in channels.items() if isinstance(c.source, float) and c.source}
    return Layout(columns, max(width or 0, kept + len(busy)), declared, per_output, constants)


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
