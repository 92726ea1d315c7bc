"""The language in which programs are written: channels, formulas, heads, steps and records.

Every statement remembers the line it stands on, and a statement that is refused says so. See `ProgramWriter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from itertools import count as count_from
from math import exp, isfinite
from typing import Concatenate, Literal, ParamSpec, TypeVar

from ridgeformer.core.errors import InputError, ProgramError, unknown_name
from ridgeformer.language.expansion import TOKEN
from ridgeformer.language.expressions import Expression
from ridgeformer.language.flattening import Flattening, is_number
from ridgeformer.language.places import Place, here, refused
from ridgeformer.language.program import Apply, Attend, Channel, Gate, Head, Instruction, Program, Record, Size
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, Role, checked_mask
from ridgeformer.language.staging import stage, tidy, unassigned, used

__all__ = ["ProgramWriter"]

ROLES = (SUPPORT, AGGREGATOR, QUERY)
P = ParamSpec("P")
R = TypeVar("R")


def _statement(
    method: Callable[Concatenate[ProgramWriter, P], R],
) -> Callable[Concatenate[ProgramWriter, P], R]:
    """Let a method say on which line of the program it was refused."""

    @wraps(method)
    def located(self: ProgramWriter, /, *args: P.args, **options: P.kwargs) -> R:
        try:
            return method(self, *args, **options)
        except ProgramError:
            raise
        except InputError as error:
            raise refused(error, here()) from None

    return located


@dataclass
class _Known:
    """What is known of a channel: where it was defined, in which section, and where it was cleared."""

    place: Place
    section: int | None  # None: it is kept from step to step
    cleared: Place | None = None


class ProgramWriter:
    """A program under construction: what a function under `@rf.algorithm` is given.

    Every token has a row of named channels: supports carry features and targets, queries carry features, and one
    aggregator carries neither. `let` assigns formulas, token by token; `mean` and `sum` inside them run over the
    supports; `attend` is a head with scores of its own. Statements before the first step run once, those inside `step`
    run at every step. Channels of `features`, `targets` and `state`, and those defined before the first step, are kept;
    others live within their step. The names support, query, aggregator and token are channels that hold 1 on the
    tokens of that role (token: on supports and queries), and one holds 1 everywhere.

    Example:
        >>> net = ProgramWriter("gradient descent", steps=3)
        >>> net.features("x"), net.targets("y"), net.state("w", "features")
        (None, None, None)
        >>> with net.step():
        ...     net.let(r="dot(x, w) - y")
        ...     net.let(w="w - 0.5 * mean(r * x)")
        ...     net.predict("dot(x, w)")
        >>> [i.caption for i in net.finish().steps[0] if hasattr(i, "caption")]
        ['r = dot(x, w) - y', 't1 = r * x', 't2 = mean(r * x)', 'w = w - 0.5 * mean(r * x)', 'f = dot(x, w)']
    """

    def __init__(
        self, name: str, steps: int = 1, constants: Mapping[str, float] | None = None, place: Place | None = None
    ) -> None:
        self.steps, self._place = steps, place or here()
        self._program = Program(name, "softmax", ROLES, {})
        self._known: dict[str, _Known] = {}
        self._temporaries: dict[str, Size] = {}
        self._helpers = set[str]()
        self._stage: Literal["prelude", "step", "between", "readout"] = "prelude"
        self._done = False
        given = {"one": ROLES, TOKEN: (SUPPORT, QUERY)} | {role.value: (role,) for role in ROLES}
        for channel, on in given.items():
            self._program.constant(channel, f"1 on {' and '.join(role.value for role in on)} tokens", on=on)
            self._known[channel] = _Known(self._place, None)
        self.constant(**(constants or {}))

    # -- channels ----------------------------------------------------------------------------------

    @_statement
    def features(self, name: str = "x") -> None:
        """Declare the channel of the features, on supports and queries."""
        self._declare(name)
        self._program.features(name, "features", on=(SUPPORT, QUERY))

    @_statement
    def targets(self, name: str = "y") -> None:
        """Declare the channel of the targets, on supports; it is zero on queries."""
        self._declare(name)
        self._program.targets(name, "targets, on supports")

    @_statement
    def state(self, name: str, size: Size = "one", meaning: str = "") -> None:
        """Declare a channel that starts at zero and is kept from step to step.

        Args:
            name: What formulas call it.
            size: "one" column, or one for each of the "features" or "outputs".
            meaning: One line for a person.
        """
        if size not in ("one", "features", "outputs"):
            raise InputError(f"size is {size!r}; 'one', 'features' or 'outputs' was expected.")
        self._declare(name)
        self._program.state({name: meaning or "kept from step to step"}, size)

    @_statement
    def constant(self, /, **values: float | int) -> None:
        """Give numbers names that formulas may use; a step of `each_step` may give them anew."""
        for name, value in values.items():
            if name in self._program.channels:
                raise InputError(f"{name!r} is a channel already: choose another name for the constant.")
            if not (is_number(value) and isfinite(value)):
                raise InputError(f"the constant {name!r} is {value!r}; a finite number was expected.")
            self._program.constants = {**self._program.constants, name: float(value)}

    # -- sections ----------------------------------------------------------------------------------

    @contextmanager
    def step(self) -> Iterator[None]:
        """Put the statements of a `with` block into every step; all steps have the same weights.

        Raises:
            ProgramError: a block that records nothing, or a second one.
        """
        place = here()
        if self._stage != "prelude":
            raise refused("a program has one kind of step: write all of it in one block, or use each_step.", place)
        self._begin()
        yield
        self._end(place)

    def each_step(self) -> Iterator[int]:
        """Yield 1, 2, ..., steps: the body of a `for` loop is written once a step, with its own weights each time."""
        place = here()
        if self._stage != "prelude":
            raise refused("a program has one kind of step: use step or each_step once.", place)
        self._program.uniform = False
        for number in range(1, self.steps + 1):
            self._begin()
            yield number
            self._end(place)

    # -- statements --------------------------------------------------------------------------------

    @_statement
    def let(self, /, *, clear: str = "", **formulas: str) -> None:
        """Assign formulas to channels, all read before any is written; a new name defines a channel.

        Args:
            clear: Channels that are not needed again, separated by spaces; their columns become free.
            formulas: Such as r="dot(x, w) - y".
        """
        work, terms = self._flattening(), dict[str, Expression]()
        read = {target: work.read(text) for target, text in formulas.items()}
        for name in clear.split():
            if self._lookup(name).source is not None:
                raise InputError(f"{name!r} is filled by the embedding and stays: clear another channel.")
        for target, formula in read.items():
            terms[target] = work.fitted(formula, self._target(target, formula.size, formulas[target]), target)
        caption = ", ".join(f"{target} = {text}" for target, text in formulas.items())
        self._note_outputs(work)
        self._add(stage(work.work, terms, ROLES, ", ".join(formulas) or "clear", caption))
        if clear and self._program._into and not isinstance(last := self._program._into[-1], Record):
            self._program._into[-1] = replace(last, clear=(*last.clear, *clear.split()))
        for name in clear.split():
            self._known[name].cleared = here()

    @_statement
    def attend(
        self,
        values: Mapping[str, str],
        *,
        scores: Mapping[tuple[str, str], float] | None = None,
        kind: Literal["softmax", "linear"] = "softmax",
        readers: str = "support aggregator query",
        sources: str = "support",
        relation: Literal["all", "own", "before"] = "all",
        name: str = "",
    ) -> None:
        """Add one head: every reader gets the weighted sum of what the sources hold.

        Args:
            values: Target channel to source channel or formula.
            scores: (reader's channel, source's channel) to a scale; the scores are summed. None: all scores are equal.
            kind: "softmax", or "linear" for the products themselves.
            readers: Roles that read, separated by spaces: support, aggregator, query.
            sources: Roles that are read.
            relation: Read "all" sources, one's "own" token, or supports strictly "before" one's own place.
            name: Of the sublayer, in caches and traces.
        """
        work, pairs = self._flattening(), list[tuple[str, str, float]]()
        scored, sizes = set[Size](), set[Size]()
        if not isinstance(values, Mapping) or not isinstance(scores or {}, Mapping):
            raise InputError("values are {target: source} and scores {(reader's channel, source's channel): number}.")
        for between, scale in (scores or {}).items():
            if not (isinstance(between, tuple) and len(between) == 2 and is_number(scale)):
                raise InputError(f"the score {between!r}: {scale!r} is no pair of channels with a number.")
            left, right = between
            pair = {self._lookup(side).size for side in (left, right)}
            scored |= pair
            if "features" in pair and len(pair) > 1:
                raise InputError(f"the score ({left}, {right}) pairs a channel of the features with one of one column.")
            if not isfinite(scale):
                raise InputError(f"the scale of ({left}, {right}) is {scale!r}; a finite number was expected.")
            pairs.append((left, right, float(scale)))
        if kind not in ("softmax", "linear"):
            raise InputError(f"kind is {kind!r}; 'softmax' or 'linear' was expected.")
        if kind == "linear" and not pairs:
            pairs.append(("one", "one", 1.0))
        mask, moved = checked_mask(readers, sources, relation, ROLES), list[tuple[str, str, float]]()
        for target, text in values.items():
            scale, source = work.atom(list(work.read(text).parts), text)
            sizes.add(self._target(target, work.channel_size(source), text))
            sizes.add(work.channel_size(source))
            moved.append((target, source, scale))
        if "outputs" in scored and (kind == "softmax" or sizes | scored != {"outputs"}):
            work.one_output = work.one_output or "its scores read targets, and other channels take part in the head"
        self._note_outputs(work)
        shown = " + ".join(f"{scale:.4g} {left}.{right}" for left, right, scale in pairs) or "0"
        caption = ", ".join(f"{target} <- {text}" for target, text in values.items()) + f" by {kind}({shown})"
        before = stage(work.work, {}, ROLES, name or ", ".join(values), "")
        temporaries = tuple(item.target for item in work.work)
        if before:
            before[-1] = replace(before[-1], clear=())
        head = Head(name or ", ".join(values), tuple(pairs), tuple(moved), mask, kind)
        self._add([*before, Attend(name or ", ".join(values), caption, (head,), temporaries)])

    @_statement
    def kernel_product(
        self,
        target: str,
        source: str,
        *,
        features: str = "x",
        temperature: float | None = None,
        gaussian: bool = False,
        sink: float | None = None,
    ) -> None:
        """Add target_i = sum over the supports of k(x_i, x_j) source_j.

        Without a temperature the kernel is the inner product, by one linear head. With one it is
        exp(x'z / temperature), or the Gaussian exp(-|x - z|^2 / 2 temperature), by a softmax head with the aggregator
        as a sink of the logit `sink`, and a division that undoes the normalisation.
        """
        if temperature is None:
            self.attend({target: source}, scores={(features, features): 1.0}, kind="linear", name=target)
            return
        if not (isfinite(temperature) and temperature > 0):
            raise InputError(f"temperature is {temperature!r}; a number > 0 was expected.")
        logit = sink if sink is not None else 0.0 if gaussian else 1 / temperature
        scores = {(features, features): 1 / temperature, ("one", AGGREGATOR.value): logit}
        if gaussian:
            half = self._helper(f"half_square_of_{features}")
            if half not in self._known or self._known[half].section not in (None, self._section()):
                self.let(**{half: f"0.5 * dot({features}, {features})"})
            scores |= {("one", half): -1 / temperature, (half, AGGREGATOR.value): 1 / temperature}
        weighted, rest = self._helper(f"{target}_weighted"), self._helper(f"{target}_sink")
        values = {weighted: f"({source}) * {SUPPORT.value}", rest: AGGREGATOR.value}  # the sink has no value
        self.attend(values, scores=scores, sources="support aggregator", name=f"{target}: softmax")
        self._program.channels[rest] = replace(self._program.channels[rest], most=1.0)
        self.let(**{target: f"{exp(logit)!r} * {weighted} / {rest}"})

    @_statement
    def count(self, name: str = "n") -> None:
        """Add name = the number of supports, counted in context by one softmax head and one division."""
        share = self._helper(f"{name}_share")
        self.attend({share: AGGREGATOR.value}, sources="support aggregator", name=f"{name}: share")
        self._program.channels[share] = replace(self._program.channels[share], most=1.0)
        self.let(**{name: f"1 / {share} - 1"})

    @_statement
    def record(
        self, name: str, channel: str | None = None, *, role: Literal["support", "query", "aggregator"] = "support"
    ) -> None:
        """Let the trace read a channel here, on the tokens of a role."""
        if name == "f":
            raise InputError("'f' is what the answers are recorded as: use net.predict, or another name.")
        if role not in {known.value for known in ROLES}:
            raise unknown_name("role", role, [known.value for known in ROLES])
        self._record(name, self._lookup(channel or name).name, Role(role))

    def _record(self, name: str, channel: str, role: Role) -> None:
        if self._section() is None:
            raise InputError(f"{name!r} before the first step belongs to no step: put it into the step.")
        if any(isinstance(i, Record) and i.name == name for i in self._program._into):
            raise InputError(f"{name!r} is recorded twice in a step: give the second one another name.")
        self._program.record(name, channel, role)

    @_statement
    def predict(self, formula: str) -> None:
        """Let the queries answer with a channel or a formula; inside a step, after every one."""
        if not (isinstance(formula, str) and formula.isidentifier()):
            self.let(f=formula)
            formula = "f"
        if self._lookup(formula).size == "features":
            raise InputError(f"{formula!r} has one column a feature, and an answer has one an output: use dot(a, b).")
        self._record("f", formula, QUERY)

    def finish(self) -> Program:
        """Return the program.

        Raises:
            ProgramError: it has no step, or never answers.
        """
        if not self._program.steps:
            raise refused("the program has no step: write one in a block `with net.step():`.", self._place)
        if self._stage == "step":
            raise refused(f"step {len(self._program.steps)} was left before its end: let every step run.", self._place)
        if not any(i.name == "f" for _, i in self._program.timeline() if isinstance(i, Record)):
            raise refused("the program never answers at its queries: add net.predict.", self._place)
        if not any(channel.source == "features" for channel in self._program.channels.values()):
            raise refused("the program reads no features: declare them with net.features.", self._place)
        for name in unassigned(self._program):
            raise refused(f"the state {name!r} is read and never assigned: assign to it.", self._known[name].place)
        if not self._done:
            self._close(self._program.readout)
            needed = used(self._program) | {"one"}
            given = self._program.channels.items()
            self._program.channels = {n: c for n, c in given if n in needed or c.source in ("features", "targets")}
            self._done = True
        return self._program

    # -- inside ------------------------------------------------------------------------------------

    def _declare(self, name: str) -> None:
        """Take a name for a channel."""
        if not name.isidentifier() or name.startswith("_"):
            raise InputError(f"{name!r} is no name for a channel: use letters, digits and underscores.")
        if name in self._program.constants or name in self._program.channels:
            raise InputError(f"there is a channel or constant {name!r} already: choose another name.")
        self._known[name] = _Known(here(), None)

    def _target(self, name: str, size: Size, text: str) -> Size:
        """Return the size of a channel that is about to be written; a new name defines it."""
        section, known = self._section(), self._known.get(name)
        if name in self._temporaries:
            raise InputError(f"{name!r} is a temporary of an earlier statement: choose another name.")
        if known is None or (known.section is not None and known.section != section):
            old = self._program.channels.get(name)
            if old is not None and old.size != size:
                raise InputError(f"{name!r} had another size in an earlier step: choose another name.")
            if old is None:
                self._declare(name)
                self._program.channels[name] = Channel(name, size, text)
            self._known[name] = _Known(here(), section)
        elif self._program.channels[name].source is not None:
            raise InputError(f"{name!r} is filled by the embedding and stays: assign to another channel.")
        self._known[name].cleared = None
        return self._program.channels[name].size

    def _lookup(self, name: str) -> Channel:
        """Return a channel that may be read here."""
        known = self._known.get(name)
        if known is None:
            raise unknown_name("channel", name, [*self._known, *self._program.constants])
        if known.section is not None and known.section != self._section():
            raise InputError(
                f"{name!r} is defined inside a step (line {known.place.line}) and gone after it: declare it with "
                "net.state to keep it."
            )
        if known.cleared is not None:
            raise InputError(f"{name!r} was cleared on line {known.cleared.line}: assign to it before reading it.")
        return self._program.channels[name]

    def _flattening(self) -> Flattening:
        self._section()
        taken = set[str]()

        def fresh(size: Size) -> str:
            """Return a temporary of this size that the statement does not use yet; statements share them."""
            free = (name for name, held in self._temporaries.items() if held == size and name not in taken)
            taken_names = {*self._program.channels, *self._program.constants}
            name = next(free, "") or next(n for k in count_from(1) if (n := f"t{k}") not in taken_names)
            if name not in self._temporaries:
                self._declare(name)
                del self._known[name]  # programs cannot read it
                self._temporaries[name] = size
                self._program.channels[name] = Channel(name, size, "a temporary")
            taken.add(name)
            return name

        return Flattening(self._lookup, self._program.constants, fresh)

    def _helper(self, name: str) -> str:
        """Return a name like this one for a channel that a statement needs: one's own, or one that is free."""
        while name not in self._helpers and (name in self._program.channels or name in self._program.constants):
            name += "_"
        self._helpers.add(name)
        return name

    def _note_outputs(self, work: Flattening) -> None:
        if work.one_output and not self._program.one_output:
            place = here()
            self._program.one_output = f"{place.file}, line {place.line}: {work.one_output}"

    def _add(self, sublayers: list[Attend | Gate | Apply]) -> None:
        """Add sublayers, each under a name of its own in its section."""
        for sublayer in sublayers:
            taken = {i.name for i in self._program._into}
            name = next(
                n for k in count_from(1) if (n := sublayer.name if k == 1 else f"{sublayer.name} {k}") not in taken
            )
            self._program._add(replace(sublayer, name=name))

    def _section(self) -> int | None:
        """Return the number of the section being written; None before the first step, where channels are kept."""
        if self._stage == "between":
            self._stage = "readout"
            self._program.begin_readout()
        return {"prelude": None, "step": len(self._program.steps), "readout": -1}[self._stage]

    def _begin(self) -> None:
        if self._stage == "prelude":
            self._close(self._program.prelude)
        self._stage = "step"
        self._program.begin_step()

    def _end(self, place: Place) -> None:
        step = self._program.steps[-1]
        if not any(isinstance(instruction, Record) for instruction in step):
            raise refused("the step records nothing, so no trace can show it: add net.record or net.predict.", place)
        self._close(step)
        self._stage = "between"

    def _close(self, section: list[Instruction]) -> None:
        """Clear the local channels of a section after their last use."""
        number, first = self._section() if section else None, section is self._program.prelude
        local = [name for name, known in self._known.items() if known.section is not None and known.section == number]
        kept = [n for n, k in self._known.items() if k.section is None and self._program.channels[n].source is None]
        section[:] = tidy(section, local, () if first else kept, repeated=self._stage == "step")
