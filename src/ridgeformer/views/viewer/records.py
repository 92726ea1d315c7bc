"""What a page is told of a run: tokens, channels and sublayers by name, and the numbers of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Group", "ShownChannel", "ShownSublayer", "ShownToken", "TraceView"]

Array = NDArray[np.float64]

Group = Literal["features", "state", "scratch", "constants"]


@dataclass(frozen=True)
class ShownToken:
    """A token: its role, what it is called, and its place in the sequence; `visible` ones have a row in the grid."""

    role: str
    label: str
    visible: bool


@dataclass(frozen=True)
class ShownChannel:
    """A channel: what it holds, what it is there for, its columns, and the roles whose targets it is given."""

    name: str
    meaning: str
    group: Group
    size: str
    columns: tuple[int, ...]
    targets_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownSublayer:
    """A sublayer of the run.

    Attributes:
        place: Its name in caches, such as "step 3.kernel product".
        kind: "attention" or "gated".
        title: Which step of the algorithm it is part of.
        sentence: What it does.
        formulas: The same in LaTeX, from the program's expressions.
        writes: Channels it writes.
        module: Which of the view's modules holds its weights; tied steps share one.
        alive: Channels that hold something after it.
        answered: The last step whose prediction can be read after it; 0 before the first.
    """

    place: str
    kind: str
    title: str
    sentence: str
    formulas: tuple[str, ...]
    writes: tuple[str, ...]
    module: int
    alive: tuple[str, ...]
    answered: int


@dataclass(frozen=True, eq=False)
class TraceView:
    """One forward pass, ready to be shown.

    Attributes:
        name: What the data are called.
        program: What the model runs.
        subject: The run in one line.
        tokens: The sequence.
        channels: The residual stream by name.
        born: Channels that the embedding fills.
        sublayers: In the order of execution.
        modules: Their weights, entries that are not zero.
        stream: After the embedding and after every sublayer, (sublayers + 1, tokens, width), float64.
        reading: Where the prediction is read: column of every output, and what it is multiplied by.
        targets: (supports, outputs).
        predictions: After every step, (steps, queries, outputs).
        exact: The direct solve of the problem the stream carries, (queries, outputs).
        smoother: exact = smoother @ targets, (queries, supports).
        averager: The weights of one softmax head (Nadaraya-Watson), (queries, supports).
        bound: What the certificate allows abs(prediction - exact) after every step; None where it promises nothing.
        smallest: What a reciprocal takes for zero.
        verdict: The certificate's verdict, with the proved distance from exact ridge regression.
        holds: Whether it is proved within the tolerance and every other check holds; red if not.
        at: Where supports and queries stand on a line, if they do.
    """

    name: str
    program: str
    subject: str
    tokens: tuple[ShownToken, ...]
    channels: tuple[ShownChannel, ...]
    born: tuple[str, ...]
    sublayers: tuple[ShownSublayer, ...]
    modules: tuple[dict[str, Any], ...]
    stream: Array
    reading: tuple[tuple[int, ...], float]
    targets: Array
    predictions: Array
    exact: Array
    smoother: Array
    averager: Array
    bound: Array | None
    smallest: float
    verdict: str
    holds: bool
    at: tuple[Array, Array] | None

    @property
    def errors(self) -> Array:
        """Largest distance of a prediction from the exact one after every step, (steps, outputs)."""
        return np.abs(self.predictions - self.exact).max(axis=1)

    @property
    def steps(self) -> int:
        """Steps of the algorithm."""
        return len(self.predictions)
