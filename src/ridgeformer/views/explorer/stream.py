"""The residual stream of a run, after every sublayer, with the names of what its columns hold at that moment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.layout import lives
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.language.program import Attend, Gate, Record
from ridgeformer.language.roles import SUPPORT, Tokens
from ridgeformer.views.explorer.cache import remember
from ridgeformer.views.explorer.compute import compiled, run
from ridgeformer.views.explorer.data import pose
from ridgeformer.views.explorer.state import State

__all__ = ["QUERIES", "Pattern", "View", "Walk", "look", "pattern", "walk"]

Array = NDArray[np.float64]

QUERIES = 5
"""Queries shown in the stream: supports never read them, so fewer change nothing but the picture."""


class Walk:
    """A run that goes on as far as one looks: `after(0)` is the embedding, `after(i)` what sublayer i left behind.

    The weights are applied literally, one sublayer after the other; what has been passed is kept.
    """

    def __init__(self, model: CompiledTransformer, X: Tensor, y: Tensor, queries: Tensor) -> None:
        self.model = model
        self.tokens = model.tokens(len(X), len(queries))
        passed = [(section, i, sublayer) for section, i, sublayer in model.schedule if not isinstance(i, Record)]
        self.sections = tuple(section for section, _, _ in passed)
        self.instructions = tuple(instruction for _, instruction, _ in passed)
        self._sublayers = tuple(sublayer for _, _, sublayer in passed)
        self._streams = [model.stream(X, y, queries)]
        self._lock = Lock()

    def after(self, number: int) -> Tensor:
        """Return the stream after so many sublayers."""
        with self._lock, torch.no_grad():
            while len(self._streams) <= number:
                sublayer = self._sublayers[len(self._streams) - 1]
                assert sublayer is not None
                self._streams.append(sublayer(self._streams[-1], self.tokens))
        return self._streams[number]

    def attention(self, number: int) -> AttentionSublayer | None:
        """Return sublayer `number`, counted from 1, if it is attention."""
        sublayer = self._sublayers[number - 1] if number else None
        return sublayer if isinstance(sublayer, AttentionSublayer) else None


@dataclass(frozen=True, eq=False)
class View:
    """The stream at one moment.

    Attributes:
        values: (tokens, columns).
        tokens: A name for each token.
        columns: What each column holds now; "" where nothing lives.
        title: Where one is: section and sublayer.
        formula: What the sublayer does.
        kind: "embedding", "attention" or "gated".
        written: Channels it wrote.
        number, last: Which sublayer of how many.
        heads: Names of its heads, if it is attention.
    """

    values: Array
    tokens: tuple[str, ...]
    columns: tuple[str, ...]
    title: str
    formula: str
    kind: str
    written: frozenset[str]
    number: int
    last: int
    heads: tuple[str, ...]

    @property
    def channels(self) -> list[tuple[str, list[int]]]:
        """Channels alive now, in the order of their columns."""
        grouped = groupby(range(len(self.columns)), key=lambda column: self.columns[column])
        return [(name, list(columns)) for name, columns in grouped if name]


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a head reads: `weights[i, j]` is how much token i takes of token j."""

    weights: Array
    tokens: tuple[str, ...]
    head: str
    softmax: bool
    supports: int


@remember(most=4)
def _walk(state: State) -> Walk:
    run(state)  # it refuses what the weights cannot hold, in the library's words
    task = pose(state)
    chosen = np.unique(np.linspace(0, len(task.Xq) - 1, QUERIES).round().astype(int))
    return Walk(compiled(state), task.X, task.y[:, None], task.Xq[torch.from_numpy(chosen)])


def walk(state: State) -> Walk:
    """Return the run of a state, to be looked at sublayer by sublayer."""
    return _walk(state.problem)


def look(state: State) -> View:
    """Return the stream after the state's sublayer; a number beyond the last is the last."""
    found = walk(state)
    last = len(found.instructions)
    number = min(state.sublayer, last)
    instruction = found.instructions[number - 1] if number else None
    attention = isinstance(instruction, Attend)
    return View(
        values=found.after(number).numpy(),
        tokens=_token_names(found.tokens),
        columns=_holders(found.model, instruction),
        title=f"{found.sections[number - 1]}: {instruction.name}" if instruction else "the embedding",
        formula=instruction.caption if instruction else "features, targets and constants, as the tokens bring them",
        kind="embedding" if instruction is None else ("attention" if attention else "gated"),
        written=instruction.writes if instruction else frozenset(),
        number=number,
        last=last,
        heads=tuple(head.name for head in instruction.heads) if isinstance(instruction, Attend) else (),
    )


def pattern(state: State) -> Pattern | None:
    """Return the attention pattern of the state's sublayer and head, None if it is not an attention sublayer."""
    found = walk(state)
    number = min(state.sublayer, len(found.instructions))
    sublayer = found.attention(number)
    if sublayer is None:
        return None
    head = min(state.head, len(sublayer.heads) - 1)
    with torch.no_grad():
        weights = sublayer.pattern(head, found.after(number - 1), found.tokens)
    return Pattern(
        weights=weights.numpy(),
        tokens=_token_names(found.tokens),
        head=sublayer.heads[head],
        softmax=sublayer.kinds[head] == "softmax",
        supports=found.tokens.counts[SUPPORT],
    )


def _token_names(tokens: Tokens) -> tuple[str, ...]:
    names = []
    for role, count in tokens.counts.items():
        names += [f"{role} {i}" for i in range(count)] if count > 1 else [str(role)]
    return tuple(names)


def _holders(model: CompiledTransformer, instruction: Attend | Gate | None) -> tuple[str, ...]:
    """Return what every column holds after an instruction: channels with disjoint lives share columns."""
    timeline = [i for _, i in model.program.timeline() if isinstance(i, Attend | Gate)]
    position = next((p for p, i in enumerate(timeline) if i is instruction), None)
    cleared = set(instruction.clear) - instruction.writes if instruction else set()
    holders = [""] * model.layout.width
    for name, life in lives(model.program).items():
        alive = life is None or (position is not None and position in life.held)
        if alive and name not in cleared:
            for column in model.layout.columns[name]:
                holders[column] = name
    return tuple(holders)
