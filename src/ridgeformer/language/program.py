"""Programs: what a transformer does, in named channels, before any weight exists.

The same program drives the compiler, the reference interpreter, `explain` and the trace. A channel lives
from the sublayer that first writes it to the one that clears it; those never cleared live for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ridgeformer.core.errors import InputError
from ridgeformer.language.expressions import Expression, parse
from ridgeformer.language.roles import SUPPORT, Mask, Role, own, reads

__all__ = ["Apply", "Attend", "Channel", "Gate", "Head", "Instruction", "KernelAttention", "Program", "Record"]

Size = Literal["features", "outputs", "one"]


@dataclass(frozen=True)
class Channel:
    """A named part of the residual stream.

    Attributes:
        name: What programs call it.
        size: One column a feature, one an output, or one.
        meaning: One line for a person.
        source: What the embedding writes into it: the features, the targets, half the squared length of the features,
            or a constant.
        on: Roles whose tokens get it.
        most: An upper bound on its values, where the program has one: a weight of a softmax is at most 1.
    """

    name: str
    size: Size
    meaning: str
    source: Literal["features", "targets", "half squares"] | float | None = None
    on: tuple[Role, ...] = ()
    most: float | None = None


@dataclass(frozen=True)
class Head:
    """One attention head: scores from pairs of channels, values added to channels.

    Attributes:
        scores: (reader channel, source channel, scale); the scores are summed. None at all: every score 0.
        values: (target channel, source channel, scale).
        kind: "softmax", or "linear" for the masked product itself.
    """

    name: str
    scores: tuple[tuple[str, str, float], ...]
    values: tuple[tuple[str, str, float], ...]
    mask: Mask
    kind: Literal["softmax", "linear"]

    @property
    def reads(self) -> frozenset[str]:
        """Every channel it reads."""
        pairs = {name for left, right, _ in self.scores for name in (left, right)}
        return frozenset(pairs | {source for _, source, _ in self.values})


@dataclass(frozen=True)
class Attend:
    """An attention sublayer; channels in `clear` end it at exactly zero unless a head writes them."""

    name: str
    caption: str
    heads: tuple[Head, ...]
    clear: tuple[str, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """Every channel it reads."""
        return frozenset().union(*(head.reads for head in self.heads))

    @property
    def writes(self) -> frozenset[str]:
        """Every channel it adds to."""
        return frozenset(target for head in self.heads for target, _, _ in head.values)


@dataclass(frozen=True)
class Gate:
    """A gated sublayer: assignments computed from the values before it, and channels cleared by it."""

    name: str
    caption: str
    assignments: tuple[tuple[str, Expression], ...]
    clear: tuple[str, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """Every channel it reads."""
        return frozenset(name for _, terms in self.assignments for term in terms for name in term.channels)

    @property
    def writes(self) -> frozenset[str]:
        """Every channel it assigns."""
        return frozenset(target for target, _ in self.assignments)


@dataclass(frozen=True)
class Record:
    """A place where the trace reads a channel on the tokens of a role, times a scale: no sublayer, no weight.

    A lag of 1 says that the value belongs to the step before.
    """

    name: str
    channel: str
    role: Role
    scale: float = 1.0
    lag: int = 0


Function = Literal["sigmoid", "exp", "sqrt", "rsqrt"]


@dataclass(frozen=True)
class Apply:
    """target = function(source), token by token: `language.expansion` makes it of heads and gated sublayers.

    Attributes:
        span: Smallest and largest argument of a square root, between which it is right to rounding.
    """

    name: str
    caption: str
    target: str
    function: Function
    source: str
    span: tuple[float, float]
    clear: tuple[str, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The channel it reads."""
        return frozenset({self.source})

    @property
    def writes(self) -> frozenset[str]:
        """The channel it assigns."""
        return frozenset({self.target})


Instruction = Attend | Gate | Apply | Record


@dataclass
class Program:
    """A program under construction, such as "softmax conjugate gradients", then read by the compiler.

    Roles are in the order of the sequence; `constants` are numbers that expressions may name.
    """

    name: str
    attention: Literal["softmax", "linear"]
    roles: tuple[Role, ...]
    constants: Mapping[str, float] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    prelude: list[Instruction] = field(default_factory=list)
    steps: list[list[Instruction]] = field(default_factory=list)
    readout: list[Instruction] = field(default_factory=list)
    uniform: bool = True
    one_output: str = ""
    """Why it takes one target column only, where that is so."""
    _into: list[Instruction] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._into = self.prelude

    # -- channels ----------------------------------------------------------------------------------

    def features(self, name: str, meaning: str, on: tuple[Role, ...]) -> None:
        """Declare a channel that the embedding fills with the features."""
        self.channels[name] = Channel(name, "features", meaning, "features", on)

    def half_squares(self, name: str, meaning: str, on: tuple[Role, ...]) -> None:
        """Declare a channel that the embedding fills with half the squared length of the features."""
        self.channels[name] = Channel(name, "one", meaning, "half squares", on)

    def targets(self, name: str, meaning: str, on: tuple[Role, ...] = (SUPPORT,)) -> None:
        """Declare a channel that the embedding fills with the targets."""
        self.channels[name] = Channel(name, "outputs", meaning, "targets", on)

    def constant(self, name: str, meaning: str, on: tuple[Role, ...], value: float = 1.0) -> None:
        """Declare a channel that holds a constant on some roles and zero elsewhere."""
        self.channels[name] = Channel(name, "one", meaning, value, on)

    def state(self, meanings: Mapping[str, str], size: Size = "outputs", most: float | None = None) -> None:
        """Declare channels that start at zero and hold at most `most`, where that is known."""
        for name, meaning in meanings.items():
            self.channels[name] = Channel(name, size, meaning, most=most)

    # -- sections ----------------------------------------------------------------------------------

    def begin_step(self) -> None:
        """Put what follows into a new step."""
        self.steps.append([])
        self._into = self.steps[-1]

    def begin_readout(self) -> None:
        """Put what follows after the last step."""
        self._into = self.readout

    # -- instructions ------------------------------------------------------------------------------

    def gate(self, name: str, *, clear: str = "", **assignments: str) -> None:
        """Add a gated sublayer: each channel named gets the value of its expression.

        A channel of one column gets the sum over the columns of wider ones: "phi * phi" is an inner product.
        """
        caption = ", ".join(f"{target} = {text}" for target, text in assignments.items())
        parsed = tuple((target, parse(text, self.constants)) for target, text in assignments.items())
        self._add(Gate(name, caption, parsed, tuple(clear.split())))

    def attend(self, name: str, caption: str, *heads: Head, clear: str = "") -> None:
        """Add an attention sublayer with these heads."""
        self._add(Attend(name, caption, heads, tuple(clear.split())))

    def head(
        self,
        name: str,
        scores: Mapping[tuple[str, str], float],
        values: Mapping[str, str | tuple[str, float] | list[tuple[str, float]]],
        mask: Mask,
    ) -> Head:
        """Return a head of the program's attention.

        Scores are {(reader channel, source channel): scale}, values {target channel: source channel}, where several
        sources, or one with a scale, are given as (source channel, scale).
        """
        pairs = tuple((left, right, scale) for (left, right), scale in scores.items())
        moved: list[tuple[str, str, float]] = []
        for target, given in values.items():
            sources = given if isinstance(given, list) else [(given, 1.0) if isinstance(given, str) else given]
            moved.extend((target, source, scale) for source, scale in sources)
        return Head(name, pairs, tuple(moved), mask, self.attention)

    def record(
        self, name: str, channel: str | None = None, role: Role = SUPPORT, scale: float = 1.0, lag: int = 0
    ) -> None:
        """Let the trace read a channel here."""
        self._into.append(Record(name, channel or name, role, scale, lag))

    def everyone_reads_supports(self) -> Mask:
        """Return the mask in which every token reads the supports."""
        return reads(self.roles, (SUPPORT,))

    def everyone_reads_itself(self) -> Mask:
        """Return the mask in which every token reads itself."""
        return own(*self.roles)

    def _add(self, instruction: Attend | Gate | Apply) -> None:
        for name in sorted(instruction.reads | instruction.writes | set(instruction.clear)):
            if name not in self.channels:
                raise InputError(f"sublayer {instruction.name!r} names the channel {name!r}, which is not declared.")
        if any(instruction.name == other.name for other in self._into if not isinstance(other, Record)):
            raise InputError(
                f"there is a sublayer {instruction.name!r} already: caches tell them apart by their names."
            )
        self._into.append(instruction)

    # -- reading it --------------------------------------------------------------------------------

    @property
    def takes_squares(self) -> bool:
        """Whether tokens carry half the squared length of their features as an input."""
        return any(channel.source == "half squares" for channel in self.channels.values())

    def timeline(self) -> Iterator[tuple[str, Instruction]]:
        """Yield (section, instruction) once each: prelude, one step of each kind, readout."""
        for instruction in self.prelude:
            yield "prelude", instruction
        for number, step in enumerate(self.steps):
            for instruction in step:
                yield ("step" if self.uniform else f"step {number + 1}"), instruction
        for instruction in self.readout:
            yield "readout", instruction


class KernelAttention(ABC):
    """A way for attention to multiply by a kernel matrix.

    Programs work with `scale` times the kernel and the ridge, which leaves the predictions as they are.
    """

    name: ClassVar[str]
    trilinear: ClassVar[bool] = False
    """Whether heads multiply three channels, (q.k) v: linear attention, where products need no gated sublayer."""

    @property
    def scale(self) -> float:
        """The factor by which the program scales the kernel and the ridge."""
        return 1.0

    @abstractmethod
    def begin(self, algorithm: str, ridge: float, *, products: bool = True) -> Program:
        """Return a program with the features, the constant 1, and what kernel products read if it has any."""

    @abstractmethod
    def scratch(self, net: Program) -> None:
        """Declare the channels that a kernel product writes and clears."""

    @abstractmethod
    def product(self, net: Program, v: str, *, minus: str | None = None, ahead: str | None = None) -> None:
        """Add u = (K + ridge I) v - minus.

        With `ahead` it is u = (K + ridge I) (v + look ahead) - minus, `look` a constant of the program, and f = K v.
        """

    def mean(self, net: Program, what: str) -> None:
        """Add s = mean of w over the supports."""
        raise NotImplementedError(f"{self.name} attention takes sums, not means")

    def safe_step(self, net: Program) -> None:
        """Add to the prelude eta, on supports: a step size below 2 / (largest eigenvalue of K + ridge I)."""
        raise NotImplementedError(f"{self.name} attention has no safe step size in context")

    def average(self, net: Program, target: str, source: str) -> None:
        """Add target = kernel-weighted mean of source, on queries."""
        raise NotImplementedError(f"{self.name} attention takes no weighted means")
