"""A compiled transformer: explicit weights in a forward pass, every channel of its stream known by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ridgeformer.compiler.budget import Budget, count
from ridgeformer.compiler.execution import Hook, Reading, run_fast, run_literally
from ridgeformer.compiler.execution.fast import Plans
from ridgeformer.compiler.execution.plans import fingerprint
from ridgeformer.compiler.explain import explain
from ridgeformer.compiler.layout import Layout, arrange, lives
from ridgeformer.compiler.lowering import lower_attend, lower_gate
from ridgeformer.compiler.specification import Specification, write_program
from ridgeformer.compiler.sublayers import Attention, GatedMLP
from ridgeformer.compiler.task import Task, check_task
from ridgeformer.compiler.trace import Trace, collect
from ridgeformer.core.errors import DtypeError, unknown_name
from ridgeformer.language.interpreter import unroll
from ridgeformer.language.program import Attend, Gate, Instruction, Program, Record
from ridgeformer.language.roles import AGGREGATOR, ANCHOR, NULL, QUERY, SUPPORT, Role, Tokens, own

__all__ = ["CompiledTransformer"]


class CompiledTransformer(nn.Module):
    """A transformer whose weights perform kernel ridge regression on the tokens it is given.

    The weights know the specification and nothing of the data: one model solves every support set of every
    length. Made by `ridgeformer.compile`.
    """

    embedding: Tensor | None
    """The projection, sketched to what the stream carries, (features, carried); None where it is the identity.

    No layer reads it, certificates do: the specification names it by its SHA-256.
    """

    unsketched: Tensor | None
    """What the sketch is a sketch of, (features, projected); None without one. Named by the same SHA-256."""

    def __init__(
        self, spec: Specification, embedding: Tensor, unsketched: Tensor | None = None, most_units: int | None = None
    ) -> None:
        super().__init__()
        self.spec = spec
        self._most_units = most_units  # of a gated sublayer, where a file says so
        if unsketched is None:
            unsketched = torch.zeros(spec.features, spec.projected)
        named = spec.embedding_digest is not None
        self.register_buffer("embedding", _own(embedding) if named else None)
        self.register_buffer("unsketched", _own(unsketched) if spec.carried < spec.projected else None)
        self.program: Program = write_program(spec)
        self.layout: Layout = arrange(
            self.program, spec.carried, spec.outputs, share=spec.share_channels, width=spec.width
        )
        self.embed = nn.ParameterDict(
            {
                role.value: nn.Parameter(self._embedding(role, embedding), requires_grad=False)
                for role in self.program.roles
            }
        )
        self.prelude, self.steps, self.readout = self._lower()
        self._plans = Plans()

    # -- building ----------------------------------------------------------------------------------

    def _embedding(self, role: Role, features: Tensor) -> Tensor:
        """Return the (features + outputs + 1, width) matrix that turns a token of this role into its stream."""
        spec, dtype = self.spec, self.spec.torch_dtype
        W = torch.zeros(spec.features + spec.outputs + 1, self.layout.width, dtype=dtype)
        for name, channel in self.program.channels.items():
            columns = list(self.layout.columns[name])
            if role not in channel.on:
                continue
            if channel.source == "features":
                W[: spec.features, columns] = features.to(dtype)
            elif channel.source == "targets":
                W[spec.features : -1, columns] = torch.eye(spec.outputs, dtype=dtype)
            else:
                W[-1, columns] = float(channel.source or 0.0)
        return W

    def _lower(self) -> tuple[nn.ModuleList, nn.ModuleList, nn.ModuleList]:
        """Return the sublayers of prelude, steps and readout; tied steps are built once."""
        alive = lives(self.program)
        position = 0

        def build(section: list[Instruction]) -> nn.ModuleList:
            nonlocal position
            modules = nn.ModuleList()
            cleared: set[str] = set()  # in this section, and not written since
            for instruction in section:
                if isinstance(instruction, Record):
                    continue
                born = {name for name, life in alive.items() if life is not None and position in life.births}
                modules.append(self._module(instruction, frozenset(born | cleared)))
                cleared = (cleared | set(instruction.clear)) - instruction.writes
                position += 1
            return modules

        prelude = build(self.program.prelude)
        copies = 1 if self.spec.tied or not self.program.uniform else self.spec.steps
        before = position
        steps = []
        for number in range(copies if self.program.uniform else self.spec.steps):
            if self.program.uniform:
                position = before
            steps.append(build(self.program.steps[0 if self.program.uniform else number]))
        return prelude, nn.ModuleList(steps), build(self.program.readout)

    def _module(self, instruction: Attend | Gate, empty: frozenset[str]) -> Attention | GatedMLP:
        if isinstance(instruction, Attend):
            everyone = own(*self.program.roles)
            return lower_attend(instruction, self.layout, everyone, self.program.attention, self.spec.torch_dtype)
        return lower_gate(instruction, self.layout, empty, self.spec.units, self.spec.torch_dtype, self._most_units)

    # -- using -------------------------------------------------------------------------------------

    def forward(self, X: Any, y: Any, Xq: Any) -> Tensor:
        """Return the predictions for the queries: (q,) or (q, outputs) like the targets, after any batch axis.

        Args:
            X: Supports, (k, features) or (tasks, k, features).
            y: Targets, (k,), (k, outputs) or (tasks, k, outputs).
            Xq: Queries, (q, features) or (tasks, q, features).
        """
        task = self._check(X, y, Xq)
        ((_, _, prediction),) = self._refusing_overflow(self.answer(*task.given))
        return prediction[..., 0] if task.flat else prediction

    def trace(self, X: Any, y: Any, Xq: Any) -> Trace:
        """Return what every step did, read from the named channels of the stream."""
        return collect(self._refusing_overflow(self.readings(*self._check(X, y, Xq).given)), self.spec.steps)

    def run_with_hook(self, hook: Hook, X: Any, y: Any, Xq: Any) -> Trace:
        """Run literally, showing `hook` every sublayer: (place, sublayer, before, after) -> a new stream or None."""
        X, y, Xq = self._check(X, y, Xq).given
        tokens = self.tokens(X.shape[-2], Xq.shape[-2])
        return collect(run_literally(self, self.stream(X, y, Xq), tokens, hook), self.spec.steps)

    def run_with_cache(self, X: Any, y: Any, Xq: Any) -> tuple[Trace, dict[str, Tensor]]:
        """Return the trace and, by name, every sublayer's input, output and attention patterns.

        Keys are "step 3.kernel product.in", ".out" and ".pattern.HEAD".
        """
        tokens = self.tokens(*(t.shape[-2] for t in self._check(X, y, Xq).given[::2]))
        cache: dict[str, Tensor] = {}

        def keep(place: str, sublayer: Attention | GatedMLP, before: Tensor, after: Tensor) -> None:
            cache[f"{place}.in"], cache[f"{place}.out"] = before, after
            if isinstance(sublayer, Attention):
                for number, head in enumerate(sublayer.heads):
                    cache[f"{place}.pattern.{head}"] = sublayer.pattern(number, before, tokens)

        return self.run_with_hook(keep, X, y, Xq), cache

    @contextmanager
    def ablated(self, head: str) -> Iterator[CompiledTransformer]:
        """Silence every head of this name, in every step, for the length of a `with` block.

        Raises:
            UnknownNameError: no head has this name.
        """
        found = [(layer, n) for layer in self.modules() if isinstance(layer, Attention)
                 for n, name in enumerate(layer.heads) if name == head]  # fmt: skip
        if not found:
            names = {name for layer in self.modules() if isinstance(layer, Attention) for name in layer.heads}
            raise unknown_name("head", head, names)
        saved = [layer.W_O[n].detach().clone() for layer, n in found]
        try:
            for layer, n in found:
                layer.W_O[n].detach().zero_()
            yield self
        finally:
            for (layer, n), weight in zip(found, saved, strict=True):
                layer.W_O[n].detach().copy_(weight)

    @property
    def budget(self) -> Budget:
        """What it costs."""
        return count(self)

    def explain(self) -> str:
        """Return the channel map and the program, in words and formulas."""
        return explain(self)

    def save(self, directory: str | Path) -> Path:
        """Write `config.json` and `model.safetensors`; `ridgeformer.load` reads them."""
        from ridgeformer.compiler.saving import save  # saving knows this class

        return save(self, directory)

    # -- running -----------------------------------------------------------------------------------

    def _check(self, X: Any, y: Any, Xq: Any) -> Task:
        carried = next(name for name, channel in self.program.channels.items() if channel.source == "features")
        embedding = self.embed[SUPPORT.value][: self.spec.features, list(self.layout.columns[carried])]
        if embedding.dtype != self.spec.torch_dtype:
            raise DtypeError(
                f"the weights are {embedding.dtype} and the model was compiled for {self.spec.dtype}, which its sink "
                "and its guards are made for: compile it with dtype= instead of moving it."
            )
        return check_task(self.spec, X, y, Xq, embedding)

    def readings(self, X: Tensor, y: Tensor, Xq: Tensor, wanted: frozenset[int] | None = None) -> Iterator[Reading]:
        """Run fast, or literally where a gradient is wanted, on checked input; what overflows is not refused here."""
        tokens, stream = self.tokens(X.shape[-2], Xq.shape[-2]), self.stream(X, y, Xq)
        weights = list(self.parameters())
        wants_gradient = stream.requires_grad or any(weight.requires_grad for weight in weights)
        if torch.is_grad_enabled() and wants_gradient:
            return run_literally(self, stream, tokens, wanted=wanted)
        self._plans.refresh(self, fingerprint(weights))
        return run_fast(self, stream.detach(), tokens, self._plans, wanted)

    def answer(self, X: Tensor, y: Tensor, Xq: Tensor) -> Iterator[Reading]:
        """Run as `readings` does, for the last prediction alone."""
        last = max(place for place, (_, record, _) in enumerate(self.schedule) if record.name == "f")
        return self.readings(X, y, Xq, frozenset({last}))

    def _refusing_overflow(self, readings: Iterator[Reading]) -> Iterator[Reading]:
        from ridgeformer.compiler.primitives.ranges import refuse_overflow  # ranges knows this class

        return refuse_overflow(readings, self.spec)

    def tokens(self, supports: int, queries: int) -> Tokens:
        """Return the sequence for so many supports and queries."""
        counts = {SUPPORT: supports, ANCHOR: supports, AGGREGATOR: 1, NULL: 1, QUERY: queries}
        return Tokens({role: counts[role] for role in self.program.roles})

    def stream(self, X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        """Return the stream the first sublayer sees: every token through the embedding of its role."""
        batch, k, q = X.shape[:-2], X.shape[-2], Xq.shape[-2]

        def given(rows: Tensor, targets: Tensor | None) -> Tensor:
            targets = rows.new_zeros(*rows.shape[:-1], self.spec.outputs) if targets is None else targets
            return torch.cat([rows, targets, rows.new_ones(*rows.shape[:-1], 1)], dim=-1)

        nothing = X.new_zeros(*batch, 1, self.spec.features)
        inputs = {
            SUPPORT: (X, y),
            ANCHOR: (X, y),
            AGGREGATOR: (nothing, None),
            NULL: (nothing, None),
            QUERY: (Xq, None),
        }
        parts = [given(*inputs[role]) @ self.embed[role.value] for role in self.tokens(k, q).counts]
        return torch.cat(parts, dim=-2)

    @cached_property
    def schedule(self) -> tuple[tuple[str, Instruction, Attention | GatedMLP | None], ...]:
        """(section, instruction, sublayer) in the order of execution; records have no sublayer."""
        current, found = "", []
        modules: Iterator[nn.Module] = iter(())
        for section, instruction in unroll(self.program, self.spec.steps):
            if section != current:
                current, modules = section, iter(self._section(section))
            sublayer = None if isinstance(instruction, Record) else next(modules)
            assert sublayer is None or isinstance(sublayer, Attention | GatedMLP)
            found.append((section, instruction, sublayer))
        return tuple(found)

    def _section(self, section: str) -> nn.ModuleList:
        if not section.startswith("step"):
            return self.prelude if section == "prelude" else self.readout
        number = int(section.split()[1]) - 1
        module = self.steps[0 if len(self.steps) == 1 else number]
        assert isinstance(module, nn.ModuleList)
        return module

    def channel(self, name: str, stream: Tensor, role: Role, tokens: Tokens) -> Tensor:
        """Return a channel of the stream on the tokens of a role: (..., tokens, size)."""
        return stream[..., tokens.rows(role), :][..., list(self.layout.columns[name])]


def _own(matrix: Tensor) -> Tensor:
    """Return a copy in float64."""
    return matrix.to(torch.float64).clone(memory_format=torch.contiguous_format)
