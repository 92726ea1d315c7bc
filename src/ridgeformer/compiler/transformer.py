"""A compiled transformer: explicit weights in a forward pass, every channel of its stream known by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ridgeformer.compiler.interpreter import unroll
from ridgeformer.compiler.layout import Layout, arrange, lives
from ridgeformer.compiler.lowering import lower_attend, lower_gate
from ridgeformer.compiler.program import Attend, Gate, Instruction, Program, Record
from ridgeformer.compiler.roles import AGGREGATOR, ANCHOR, NULL, QUERY, SUPPORT, Role, Tokens, own
from ridgeformer.compiler.specification import Specification, write_program
from ridgeformer.compiler.sublayers import Attention, GatedMLP

__all__ = ["CompiledTransformer", "Moment"]


@dataclass(frozen=True)
class Moment:
    """One place in a forward pass: its name, the sublayer, and the stream before and after it.

    Attributes:
        name: Such as "step 3.kernel product".
        sublayer: The module.
        before: (..., tokens, width).
        after: (..., tokens, width).
    """

    name: str
    sublayer: Attention | GatedMLP
    before: Tensor
    after: Tensor


Hook = Callable[[str, Tensor], Tensor | None]
"""Called with (place, stream after that sublayer); what it returns, if anything, replaces the stream."""


class CompiledTransformer(nn.Module):
    """A transformer whose weights perform kernel ridge regression on the tokens it is given.

    The weights know the specification and nothing of the data: one model solves every support set of every
    length. Made by `ridgeformer.compile`.
    """

    def __init__(self, spec: Specification, embedding: Tensor) -> None:
        super().__init__()
        self.spec = spec
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
            for instruction in section:
                if isinstance(instruction, Record):
                    continue
                empty = frozenset(n for n, life in alive.items() if life is not None and position in life.births)
                modules.append(self._module(instruction, empty))
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
        return lower_gate(instruction, self.layout, empty, self.spec.torch_dtype)

    # -- running -----------------------------------------------------------------------------------

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

    def schedule(self) -> Iterator[tuple[str, Instruction, Attention | GatedMLP | None]]:
        """Yield (section, instruction, sublayer) in the order of execution; records have no sublayer."""
        current = ""
        modules: Iterator[nn.Module] = iter(())
        for section, instruction in unroll(self.program, self.spec.steps):
            if section != current:
                current, modules = section, iter(self._section(section))
            sublayer = None if isinstance(instruction, Record) else next(modules)
            assert sublayer is None or isinstance(sublayer, Attention | GatedMLP)
            yield section, instruction, sublayer

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
