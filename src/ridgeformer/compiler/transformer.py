"""A compiled transformer: explicit weights in a forward pass, every channel of its stream known by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.compiler.execution import Hook, Reading, run_fast, run_literally
from ridgeformer.compiler.execution.fast import Plans
from ridgeformer.compiler.inputs import TokenInput, check_task
from ridgeformer.compiler.layout import Layout
from ridgeformer.compiler.lowering import Weights
from ridgeformer.compiler.reports import Budget, Trace, collect, count, explain
from ridgeformer.compiler.specification import Specification, write_source
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.core.checks import ArrayLike, as_tensor
from ridgeformer.core.errors import DtypeError, InputError, unknown_name
from ridgeformer.language.interpreter import run as interpret_program
from ridgeformer.language.interpreter import unroll
from ridgeformer.language.program import Attend, Gate, Instruction, Program, Record
from ridgeformer.language.roles import AGGREGATOR, ANCHOR, NULL, QUERY, SUPPORT, Role, Tokens

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
        self,
        spec: Specification,
        program: Program,
        layout: Layout,
        weights: Weights,
        embedding: Tensor,
        unsketched: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.spec, self.program, self.layout = spec, program, layout
        if unsketched is None:
            unsketched = torch.zeros(spec.features, spec.projected)
        self.register_buffer("embedding", None if spec.embedding_digest is None else _own(embedding))
        self.register_buffer("unsketched", _own(unsketched) if spec.carried < spec.projected else None)
        self.embed = weights.embed
        self.prelude, self.steps, self.readout = weights.prelude, weights.steps, weights.readout
        self._plans = Plans()

    # -- using -------------------------------------------------------------------------------------

    def forward(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> Tensor:
        """Return the predictions for the queries: (q,) or (q, outputs) like the targets, after any batch axis.

        Args:
            X: Supports, (k, features) or (tasks, k, features).
            y: Targets, (k,), (k, outputs) or (tasks, k, outputs).
            Xq: Queries, (q, features) or (tasks, q, features).

        A program that takes one target takes several columns of them too: as tasks of their own, one pass each.
        """
        outputs = self._columns_beyond(X, y)
        if outputs > 1:
            return self._each_target(X, y, Xq, outputs)
        task = self._check(X, y, Xq)
        ((_, _, prediction),) = self._refusing_overflow(self.answer(*task.given))
        return prediction[..., 0] if task.flat else prediction

    def trace(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> Trace:
        """Return what every step did, read from the named channels of the stream."""
        return collect(self._refusing_overflow(self.readings(*self._check(X, y, Xq).given)), self.spec.steps)

    def interpret(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> Trace:
        """Return what the program records when it is run on plain tensors with names, without any weight."""
        X, y, Xq = self._check(X, y, Xq).given
        carried, tokens = self.carried.detach(), self.tokens(X.shape[-2], Xq.shape[-2])
        found = interpret_program(write_source(self.spec), tokens, X @ carried, y, Xq @ carried, self.spec.steps)
        return Trace(found, self.spec.steps)

    def run_with_hook(self, hook: Hook, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> Trace:
        """Run literally, showing `hook` every sublayer: (place, sublayer, before, after) -> a new stream or None."""
        X, y, Xq = self._check(X, y, Xq).given
        tokens = self.tokens(X.shape[-2], Xq.shape[-2])
        return collect(run_literally(self, self.stream(X, y, Xq), tokens, hook), self.spec.steps)

    def run_with_cache(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> tuple[Trace, dict[str, Tensor]]:
        """Return the trace and, by name, every sublayer's input, output and attention patterns.

        Keys are "step 3.kernel product.in", ".out" and ".pattern.HEAD".
        """
        tokens = self.tokens(*(t.shape[-2] for t in self._check(X, y, Xq).given[::2]))
        cache: dict[str, Tensor] = {}

        def keep(place: str, sublayer: AttentionSublayer | GatedMLP, before: Tensor, after: Tensor) -> None:
            cache[f"{place}.in"], cache[f"{place}.out"] = before, after
            if isinstance(sublayer, AttentionSublayer):
                for number, head in enumerate(sublayer.heads):
                    cache[f"{place}.pattern.{head}"] = sublayer.pattern(number, before, tokens)

        return self.run_with_hook(keep, X, y, Xq), cache

    @contextmanager
    def ablated(self, head: str) -> Iterator[CompiledTransformer]:
        """Silence every head of this name, in every step, for the length of a `with` block.

        Raises:
            UnknownNameError: no head has this name.
        """
        found = [(layer, n) for layer in self.modules() if isinstance(layer, AttentionSublayer)
                 for n, name in enumerate(layer.heads) if name == head]  # fmt: skip
        if not found:
            names = {name for layer in self.modules() if isinstance(layer, AttentionSublayer) for name in layer.heads}
            raise unknown_name("head", head, names)
        saved = [layer.W_O[n].detach().clone() for layer, n in found]
        try:
            for layer, n in found:
                layer.W_O[n].detach().zero_()
            yield self
        finally:
            for (layer, n), weight in zip(found, saved, strict=True):
                layer.W_O[n].detach().copy_(weight)

    @contextmanager
    def frozen(self) -> Iterator[CompiledTransformer]:
        """Promise that no weight changes within a `with` block, for many passes in a row.

        Every pass compares all weights with those that it was planned for; in here none does, and short passes too run
        in one kernel where Numba is installed, which takes half a second to start.

        Raises:
            InputError: a weight has changed meanwhile, so that passes since then ran with the old one; or one wants
                a gradient.

        Example:
            >>> from ridgeformer import ConjugateGradients, DotProduct, compile
            >>> with compile(DotProduct(), ConjugateGradients(steps=1), features=1, ridge=1.0).frozen() as model:
            ...     float(model([[1.0]], [2.0], [[1.0]]))
            1.0
        """
        if any(weight.requires_grad for weight in self.parameters()):
            raise InputError("a weight wants a gradient, which a frozen model cannot give: run it without frozen.")
        self._plans.refresh(self)
        before, self._plans.frozen = self._plans.frozen, True
        try:
            yield self
        finally:
            self._plans.frozen = before
        if not self._plans.hold():
            raise InputError("a weight was changed while the model was frozen: run again what ran since.")

    @property
    def budget(self) -> Budget:
        """What it costs."""
        return count(self)

    def explain(self) -> str:
        """Return the channel map and the program, in words and formulas."""
        return explain(self)

    def save(self, directory: str | Path) -> Path:
        """Write `config.json` and `model.safetensors`; `ridgeformer.load_model` reads them."""
        from ridgeformer.compiler.saving import save  # saving knows this class

        return save(self, directory)

    # -- running -----------------------------------------------------------------------------------

    def _check(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> TokenInput:
        held = self.embed[SUPPORT.value].dtype
        if held != self.spec.torch_dtype:
            raise DtypeError(
                f"the weights are {held} and the model was compiled for {self.spec.dtype}, which its sink "
                "and its guards are made for: compile it with dtype= instead of moving it."
            )
        written = isinstance(self.spec.algorithm, WrittenAlgorithm)
        return check_task(self.spec, X, y, Xq, None if written else self.carried)

    def _columns_beyond(self, X: ArrayLike, y: ArrayLike) -> int:
        """Return how many columns of targets are given to a program that takes one; 1 where that is not so."""
        algorithm = self.spec.algorithm
        if not isinstance(algorithm, WrittenAlgorithm) or not algorithm.program.one_output:
            return 1
        try:
            shape, rows = np.shape(y), np.shape(X)
        except ValueError:  # not rectangular, which the check says
            return 1
        return shape[-1] if 2 <= len(shape) == len(rows) else 1

    def _each_target(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, outputs: int) -> Tensor:
        """Return the predictions for several columns of targets, each a task of its own: (q, outputs)."""
        rows, targets, queries = as_tensor(X, "X"), as_tensor(y, "y"), as_tensor(Xq, "Xq")
        several = [part.unsqueeze(-3).expand(*part.shape[:-2], outputs, *part.shape[-2:]) for part in (rows, queries)]
        given = several[0], targets.mT.unsqueeze(-1), several[1]
        flat = [part.reshape(-1, *part.shape[-2:]) for part in given]
        found: Tensor = self(*flat)
        return found[..., 0].unflatten(0, given[0].shape[:-2]).mT

    @property
    def carried(self) -> Tensor:
        """What the embedding multiplies the features of a support by, (features, carried)."""
        name = next(name for name, channel in self.program.channels.items() if channel.source == "features")
        return self.embed[SUPPORT.value][: self.spec.features, list(self.layout.columns[name])]

    def readings(self, X: Tensor, y: Tensor, Xq: Tensor, wanted: frozenset[int] | None = None) -> Iterator[Reading]:
        """Run fast, or literally where torch follows the run; on checked input, and what overflows is not refused here.

        It does to find gradients, by either mode, for its function transforms and to compile.
        """
        tokens, grad = self.tokens(X.shape[-2], Xq.shape[-2]), torch.is_grad_enabled()
        followed = torch.compiler.is_compiling() or _in_forward_mode() or peek_interpreter_stack() is not None
        fast = not (followed or (grad and any(tensor.requires_grad for tensor in (X, y, Xq))))
        if not (fast and (self._plans.frozen or self._plans.refresh(self, differentiable=grad))):
            return run_literally(self, self.stream(X, y, Xq), tokens, wanted=wanted)
        tasks = X.shape[0] if X.ndim == 3 else 1
        table = self._plans.table(self, tokens, wanted, tasks) if X.device.type == "cpu" else None
        if table is not None:
            return table.run(self, X, y, Xq)
        return run_fast(self, self.stream(X, y, Xq).detach(), tokens, self._plans, wanted)

    def answer(self, X: Tensor, y: Tensor, Xq: Tensor) -> Iterator[Reading]:
        """Run as `readings` does, for the last prediction alone."""
        return self.readings(X, y, Xq, self._last)

    @cached_property
    def _last(self) -> frozenset[int]:
        """The place of the last prediction in the schedule."""
        return frozenset({max(place for place, (_, record, _) in enumerate(self.schedule) if record.name == "f")})

    def _refusing_overflow(self, readings: Iterator[Reading]) -> Iterator[Reading]:
        from ridgeformer.compiler.primitives.ranges import refuse_overflow  # ranges knows this class

        return refuse_overflow(readings, self.spec)

    def tokens(self, supports: int, queries: int) -> Tokens:
        """Return the token sequence for these numbers of supports and queries."""
        counts = {SUPPORT: supports, ANCHOR: supports, AGGREGATOR: 1, NULL: 1, QUERY: queries}
        return Tokens({role: counts[role] for role in self.program.roles})

    def stream(self, X: Tensor, y: Tensor, Xq: Tensor, embed: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return the stream before the first sublayer: every token through the embedding of its role.

        Args:
            X: Supports, checked.
            y: Targets.
            Xq: Queries.
            embed: Embeddings by role to use instead of the model's, such as some columns of them.
        """
        batch = X.shape[:-2]

        def given(rows: Tensor, targets: Tensor | None) -> Tensor:
            targets = rows.new_zeros(*rows.shape[:-1], self.spec.outputs) if targets is None else targets
            squares = [(rows @ self.carried).square().sum(-1, keepdim=True) / 2] if self.program.takes_squares else []
            return torch.cat([rows, targets, *squares, rows.new_ones(*rows.shape[:-1], 1)], dim=-1)

        inputs = {SUPPORT: (X, y), ANCHOR: (X, y), QUERY: (Xq, None)}
        parts = []
        for role in self.program.roles:
            W = self.embed[role.value] if embed is None else embed[role.value]
            alone = role not in inputs  # a token without features or targets
            parts.append(W[-1].expand(*batch, 1, -1) if alone else given(*inputs[role]) @ W)
        return torch.cat(parts, dim=-2)

    @property
    def schedule(self) -> tuple[tuple[str, Instruction, AttentionSublayer | GatedMLP | None], ...]:
        """(section, instruction, sublayer) in the order of execution; records have no sublayer.

        Sublayers are looked up every time: one may have been replaced by another.
        """
        current, found = "", []
        modules: Iterator[nn.Module] = iter(())
        for section, instruction in self._unrolled:
            if section != current:
                current, modules = section, iter(self._section(section))
            sublayer = None if isinstance(instruction, Record) else next(modules)
            assert sublayer is None or isinstance(sublayer, AttentionSublayer | GatedMLP)
            found.append((section, instruction, sublayer))
        return tuple(found)

    @cached_property
    def _unrolled(self) -> tuple[tuple[str, Instruction], ...]:
        return tuple(unroll(self.program, self.spec.steps))

    @property
    def sublayers(self) -> tuple[tuple[str, Attend | Gate, AttentionSublayer | GatedMLP], ...]:
        """(section, instruction, sublayer) of everything a token passes through, in order."""
        return tuple(
            (section, instruction, sublayer)
            for section, instruction, sublayer in self.schedule
            if sublayer is not None and isinstance(instruction, Attend | Gate)
        )

    @cached_property
    def records(self) -> tuple[tuple[str, Record, int], ...]:
        """(section, record, n): what the trace reads, and the number of sublayers after which it reads it.

        Example:
            >>> from ridgeformer import Exponential, NadarayaWatson, compile
            >>> [(r.name, n) for _, r, n in compile(Exponential(1.0), NadarayaWatson(), features=2, ridge=1.0).records]
            [('f', 1)]
        """
        passed, found = 0, []
        for section, instruction, sublayer in self.schedule:
            passed += sublayer is not None
            if isinstance(instruction, Record):
                found.append((section, instruction, passed))
        return tuple(found)

    def life(self, channel: str) -> tuple[range, ...]:
        """Return after which numbers of sublayers the stream holds a channel: 0 is the embedding.

        Between these its columns hold zero, or another channel that shares them.

        Raises:
            UnknownNameError: no such channel.
        """
        if channel not in self.program.channels:
            raise unknown_name("channel", channel, self.program.channels)
        born = None if self.program.channels[channel].source is None else 0
        found = []
        for number, (_, instruction, _) in enumerate(self.sublayers, start=1):
            if channel in instruction.writes:
                born = number if born is None else born
            elif channel in instruction.clear and born is not None:
                found.append(range(born, number))
                born = None
        return tuple(found if born is None else [*found, range(born, len(self.sublayers) + 1)])

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


def _in_forward_mode() -> bool:
    """Whether dual numbers may be about, which fast runs would lose silently."""
    return forward_ad._current_level >= 0


def _own(matrix: Tensor) -> Tensor:
    """Return a copy in float64."""
    return matrix.to(torch.float64).clone(memory_format=torch.contiguous_format)
