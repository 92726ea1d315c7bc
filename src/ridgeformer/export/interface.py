"""The interface of an export: what a stock class is called with, and how its hidden states are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import Specification, Trace
from ridgeformer.compiler.certificate.problem import carried_features
from ridgeformer.compiler.inputs import TokenInput, check_task
from ridgeformer.compiler.specification import write_source
from ridgeformer.core.checks import ArrayLike
from ridgeformer.core.errors import InputError, LogitRangeError, ShapeError
from ridgeformer.export.circuit import Circuit, draw_circuit
from ridgeformer.export.lowering import UNDERFLOW, Basis, Lowered, mark, masked
from ridgeformer.language.expansion import expand
from ridgeformer.language.interpreter import excess, interpret, start
from ridgeformer.language.program import Attend
from ridgeformer.language.roles import AGGREGATOR, ANCHOR, NULL, QUERY, SUPPORT, Role, Tokens

__all__ = ["Direction", "Interface", "LayerRecord", "describe"]

NORMS_IDLE = {"t5": 2.0**51, "llama": 2.0**51, "bert": 2.0**36, "albert": 2.0**36, "gpt2": 2.0**36}
"""Root mean square of a token up to which the norms of a class are the identity; LayerNorms compute in float64."""


@dataclass(frozen=True, eq=False)
class Direction:
    """A channel in the hidden states of a class.

    Attributes:
        meaning: One line for a person.
        read: (hidden, size): hidden @ read is the channel.
        write: (size, hidden): adding v @ write to a hidden state adds v to the channel.
        life: Hidden states that hold it; state 0 is the input, state l + 1 the output of layer l.
    """

    meaning: str
    read: Tensor
    write: Tensor
    life: tuple[range, ...]


@dataclass(frozen=True)
class LayerRecord:
    """A value of the algorithm: scale times a channel, on the tokens of a role, in a hidden state."""

    name: str
    step: int
    channel: str
    role: Role
    scale: float
    state: int


@dataclass(frozen=True, eq=False)
class Interface:
    """How to call an exported model, and how to read it.

    Attributes:
        spec: What was compiled.
        target: The class it was exported to.
        max_tokens: The longest sequence.
        hidden: Size of the hidden states.
        causal: Whether the class is causal, so that a mask of zeros must be given.
        rotate: Seed of the rotation of the stream; None without one.
        roles: In the order of the sequence.
        embed: Role to (inputs, hidden): the inputs are features, targets, half the squared length where it is taken,
            and 1.
        numbers: Role to (max_tokens, hidden), added to tokens 0, 1, ... of roles that heads tell apart by number.
        carried: What the features are multiplied by, in float64, (features, carried).
        unsketched: What that is a sketch of; None without a sketch.
        directions: Every channel, and "role query" and so on, by name.
        layers: "step 1.kernel product" to (layer, "attention" or "gated").
        records: What every step computed, and where it is read.
        circuit: The ground truth: heads and gated sublayers, and which channel leads from one to another.
    """

    spec: Specification
    target: str
    max_tokens: int
    hidden: int
    causal: bool
    rotate: int | None
    roles: tuple[Role, ...]
    embed: Mapping[Role, Tensor]
    numbers: Mapping[Role, Tensor]
    carried: Tensor
    unsketched: Tensor | None
    directions: Mapping[str, Direction]
    layers: Mapping[str, tuple[int, str]]
    records: tuple[LayerRecord, ...]
    circuit: Circuit

    # -- calling -----------------------------------------------------------------------------------

    def inputs(
        self,
        X: ArrayLike | Sequence[ArrayLike],
        y: ArrayLike | Sequence[ArrayLike],
        Xq: ArrayLike | Sequence[ArrayLike],
    ) -> dict[str, Tensor]:
        """Return what the class is called with: `inputs_embeds`, and the masks it needs.

        Args:
            X: Supports, (k, features) or (tasks, k, features); a list of matrices for tasks of different sizes.
            y: Targets of the same.
            Xq: Queries.

        Raises:
            InputError: what the compiled model refuses, too many tokens, or logits that a mask cannot exceed.
        """
        tasks: list[tuple[Any, Any, Any]] = [(X, y, Xq)]
        if isinstance(X, list | tuple) and X and getattr(X[0], "ndim", 0) == 2:
            counts = [len(part) if isinstance(part, Sized) else 1 for part in (X, y, Xq)]
            if len(set(counts)) > 1:
                raise ShapeError(
                    f"X, y and Xq list {counts[0]}, {counts[1]} and {counts[2]} tasks: give as many of each."
                )
            tasks = list(zip(X, list(y), list(Xq), strict=True))  # type: ignore[arg-type]
        streams = [stream for task in tasks for stream in self._streams(self._check(*task))]
        lengths = [len(stream) for stream in streams]
        if max(lengths) > self.max_tokens:
            raise InputError(
                f"the sequence has {max(lengths):,} tokens and the model was exported for {self.max_tokens:,}: export "
                "it with a larger max_tokens, or give fewer rows."
            )
        embeds = torch.nn.utils.rnn.pad_sequence(streams, batch_first=True)
        self._check_norms(embeds)
        given: dict[str, Tensor] = {"inputs_embeds": embeds}
        kept = torch.arange(embeds.shape[1]) < torch.tensor(lengths)[:, None]
        if self.causal:
            least = torch.finfo(embeds.dtype).min
            mask = torch.zeros(len(streams), 1, *[embeds.shape[1]] * 2, dtype=embeds.dtype)
            given["attention_mask"] = mask.masked_fill(~kept[:, None, None, :], least)
            given["position_ids"] = torch.zeros(kept.shape, dtype=torch.long)
        elif len(set(lengths)) > 1:
            given["attention_mask"] = kept.long()
        return given

    def _check_norms(self, states: Tensor) -> None:
        """Refuse hidden states so large that the norms of the class change them."""
        limit = NORMS_IDLE.get(self.target, torch.inf)
        largest = float(states.detach().double().square().mean(-1).max().sqrt())
        if not largest <= limit:
            raise InputError(
                f"tokens reach a root mean square of {largest:.3g}, and the norms of {self.target} are the identity up "
                f"to {limit:.3g}: divide y by a constant, and multiply the predictions by it."
            )

    @property
    def _room(self) -> float:
        """How far a logit that may not be read can exceed those that may, before the mask is not exactly 0."""
        return masked(self.spec.torch_dtype, self.rotate is not None) - UNDERFLOW[self.spec.torch_dtype]

    def _check(self, X: Any, y: Any, Xq: Any) -> TokenInput:
        task = check_task(self.spec, X, y, Xq, self.carried.to(self.spec.torch_dtype))
        if self.spec.written:
            self._check_logits(task)
            return task
        kernel, limit = self.spec.kernel, self._room
        rows = [part.detach() @ self.carried.to(part.dtype) for part in (task.X, task.Xq)]
        largest = max(float(part.square().sum(-1).max()) for part in rows) / getattr(kernel, "temperature", 1.0)
        sink = getattr(self.spec.attention, "sink", 0.0)
        span = max(largest, sink) - min(-largest, sink) + (largest if kernel.name == "gaussian" else 0.0)
        if not span < limit:
            raise LogitRangeError(
                f"logits may span {span:.4g} on these rows and the masks in the weights hold for {limit:g}: raise the "
                f"temperature, {'' if self.rotate is None else 'export without rotate, '}or shorten the rows."
            )
        return task

    def _check_logits(self, task: TokenInput) -> None:
        """Refuse tasks on which a logit that may not be read could outweigh the mask, by running the program."""
        limit = self._room
        counts = {SUPPORT: task.X.shape[-2], AGGREGATOR: 1, QUERY: task.Xq.shape[-2]}
        program, tokens = expand(write_source(self.spec)), Tokens(counts)
        given = (task.X.detach(), task.y.detach(), task.Xq.detach())
        state = start(program, tokens, *given)
        for section, instruction, after in interpret(program, tokens, *given, self.spec.steps):
            for head in instruction.heads if isinstance(instruction, Attend) else ():
                found = excess(head, state, tokens)
                if not found < limit:
                    raise LogitRangeError(
                        f"in {section}.{instruction.name} a logit that may not be read exceeds those that may by "
                        f"{found:.4g}, and the masks in the weights hold for {limit:g}: scale the features."
                    )
            state = after

    def _streams(self, task: TokenInput) -> list[Tensor]:
        """Return the hidden states of every task before the first layer."""
        X, y, Xq = (part if part.ndim == 3 else part[None] for part in task.given)
        squares = self.embed[SUPPORT].shape[0] - self.spec.features - self.spec.outputs - 1

        def embedded(role: Role, rows: Tensor, targets: Tensor) -> Tensor:
            half = [(rows @ self.carried.to(rows.dtype)).square().sum(-1, keepdim=True) / 2] * squares
            given = torch.cat([rows, targets, *half, rows.new_ones(*rows.shape[:-1], 1)], -1)
            found = given @ self.embed[role].to(rows.dtype)
            return found + self.numbers[role][: rows.shape[-2]].to(rows.dtype) if role in self.numbers else found

        none, blank = X.new_zeros(len(X), 1, self.spec.features), X.new_zeros(len(X), 1, self.spec.outputs)
        of = {SUPPORT: (X, y), ANCHOR: (X, y), AGGREGATOR: (none, blank), NULL: (none, blank)}
        of[QUERY] = (Xq, X.new_zeros(*Xq.shape[:-1], self.spec.outputs))
        return list(torch.cat([embedded(role, *of[role]) for role in self.roles], -2))

    # -- reading -----------------------------------------------------------------------------------

    def predictions(self, output: object) -> list[Tensor]:
        """Return the predictions, (queries, outputs) for every task.

        Args:
            output: What the class returned, or its last hidden state; of TransformerLens, the logits.

        Raises:
            InputError: another output, or hidden states beyond the range in which the norms are the identity.
        """
        hidden = getattr(output, "last_hidden_state", output)
        sizes = (self.hidden, self.spec.outputs + 1)
        if not isinstance(hidden, Tensor) or hidden.ndim != 3 or hidden.shape[-1] not in sizes:
            raise ShapeError(
                f"an output of shape (tasks, tokens, {self.hidden}) was expected: give what the exported class "
                "returned, unchanged."
            )
        if hidden.shape[-1] == self.spec.outputs + 1 and self.target == "lens":
            return [task[task[:, -1] > 0.5][:, :-1] for task in hidden]
        self._check_norms(hidden)
        record = next(record for record in reversed(self.records) if record.name == "f")
        return self.read(record, hidden)

    def read(self, record: LayerRecord, hidden: Tensor) -> list[Tensor]:
        """Return what a record reads in its hidden state, (tokens of its role, size) for every task."""
        here = self.channel(f"role {record.role.value}", hidden)[..., 0] > 0.5
        values = record.scale * self.channel(record.channel, hidden)
        return [task[rows] for task, rows in zip(values, here, strict=True)]

    def channel(self, name: str, hidden: Tensor) -> Tensor:
        """Return a channel of a hidden state: (..., tokens, size)."""
        return hidden @ self.directions[name].read.to(hidden.dtype)

    def trace(self, hidden_states: Sequence[Tensor]) -> Trace:
        """Return what every step computed, from all hidden states of one run on tasks of one size."""
        found: dict[str, dict[int, Tensor]] = {}
        for record in self.records:
            read = self.read(record, hidden_states[record.state])
            if len({len(task) for task in read}) > 1:
                raise ShapeError("a trace has tasks of one size: run those of other sizes one by one.")
            value = torch.stack(read)
            found.setdefault(record.name, {})[record.step] = value
        steps = self.spec.steps
        return Trace({name: torch.stack([by[step] for step in sorted(by)]) for name, by in found.items()}, steps)


def describe(lowered: Lowered, basis: Basis, target: str, *, causal: bool, rotate: int | None) -> Interface:
    """Return the interface of a lowered model in the basis of a class."""
    model, width = lowered.model, lowered.width
    embed, numbers, directions = dict[Role, Tensor](), dict[Role, Tensor](), dict[str, Direction]()
    for role in model.program.roles:
        W = model.embed[role.value].detach().double()
        W = torch.cat([W, W.new_zeros(len(W), width - W.shape[1])], 1)
        W[-1, lowered.role_columns[role]] = mark(role)
        embed[role] = (W @ basis.write).to(lowered.dtype)
        code = lowered.numbers(role)
        if code is not None:
            numbers[role] = (code @ basis.write).to(lowered.dtype)
    states = range(len(lowered.ends))
    for name, channel in model.program.channels.items():
        columns, held = list(model.layout.columns[name]), {n for life in model.life(name) for n in life}
        alive = [state for state in states if lowered.ends[state] in held]
        directions[name] = Direction(channel.meaning, basis.read[:, columns], basis.write[columns], _runs(alive))
    for role, column in lowered.role_columns.items():
        vectors = basis.read[:, [column]] / mark(role), basis.write[[column]] * mark(role)
        directions[f"role {role.value}"] = Direction(f"1 on {role.value} tokens", *vectors, (states,))
    places = {}
    for number, (section, instruction, sublayer) in enumerate(model.sublayers, start=1):
        layer = bisect_left(lowered.ends, number) - 1
        part = "gated" if sublayer is lowered.blocks[layer].gated else "attention"
        places[f"{section}.{instruction.name}"] = (layer, part)
    records = []
    for section, record, after in model.records:
        step = (model.spec.steps if section == "readout" else int(section.split()[1])) - record.lag
        if step >= 1:
            state = lowered.ends.index(after)
            records.append(LayerRecord(record.name, step, record.channel, record.role, record.scale, state))
    return Interface(
        model.spec, target, lowered.max_tokens, basis.write.shape[1], causal, rotate, model.program.roles, embed,
        numbers, carried_features(model), model.unsketched, directions, places, tuple(records), draw_circuit(lowered),
    )  # fmt: skip


def _runs(numbers: list[int]) -> tuple[range, ...]:
    """Return increasing numbers as ranges without gaps."""
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return tuple(found)
