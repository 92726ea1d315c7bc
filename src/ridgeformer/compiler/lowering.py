"""From a program with its layout to weights: every matrix entry of a compiled transformer is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.compiler.layout import Layout, lives
from ridgeformer.compiler.primitives import Operand, Primitives, Unit
from ridgeformer.compiler.primitives.units import Entry
from ridgeformer.compiler.specification import Specification
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP, HeadWeights
from ridgeformer.core.errors import InputError
from ridgeformer.language.expressions import Expression, Term
from ridgeformer.language.program import Attend, Gate, Head, Instruction, Program, Record
from ridgeformer.language.roles import Mask, Role, own

__all__ = ["Weights", "count_pairs", "count_units", "lower", "lower_attend", "lower_gate"]


@dataclass(frozen=True, eq=False)
class Weights:
    """All weights of a transformer.

    Attributes:
        embed: For each role the matrix that turns a token into its stream: features, outputs, half the
            squared length where a program takes it, and the constant 1, by width.
        prelude, steps, readout: Sublayers; tied steps are there once. Where the steps of a program differ, sublayers
            that do not are the same module in all of them.
    """

    embed: nn.ParameterDict
    prelude: nn.ModuleList
    steps: nn.ModuleList
    readout: nn.ModuleList


def lower(
    program: Program, layout: Layout, spec: Specification, embedding: Tensor, most_units: int | None = None
) -> Weights:
    """Return the weights of a program.

    Args:
        program: What to do.
        layout: Where its channels stand.
        spec: Sizes, units and precision.
        embedding: What the features are multiplied by, (features, carried).
        most_units: Units that a gated sublayer may have, where a file says so.

    Raises:
        InputError: a gated sublayer needs more units than that.
    """
    matrices = {role.value: _embedding(program, layout, spec, role, embedding) for role in program.roles}
    embed = nn.ParameterDict({name: nn.Parameter(W, requires_grad=False) for name, W in matrices.items()})
    alive, everyone, dtype = lives(program), own(*program.roles), spec.torch_dtype

    shared = isinstance(spec.algorithm, WrittenAlgorithm) and not program.uniform
    built: dict[tuple[Instruction, frozenset[str]], nn.Module] = {}  # of programs whose steps differ: what does not

    def build(section: list[Instruction], position: int) -> nn.ModuleList:
        modules = nn.ModuleList()
        cleared: set[str] = set()  # in this section, and not written since
        for instruction in section:
            if isinstance(instruction, Record):
                continue
            born = {name for name, life in alive.items() if life is not None and position + len(modules) in life.births}
            empty = frozenset(born | cleared)
            if shared and (instruction, empty) in built:
                modules.append(built[instruction, empty])
            elif isinstance(instruction, Attend):
                modules.append(lower_attend(instruction, layout, everyone, program.attention, dtype))
            else:
                assert isinstance(instruction, Gate), "functions are expanded before lowering"
                modules.append(lower_gate(instruction, layout, empty, spec.units, dtype, most_units))
            built[instruction, empty] = modules[-1]
            cleared = (cleared | set(instruction.clear)) - instruction.writes
        return modules

    prelude = build(program.prelude, 0)
    position, steps = len(prelude), nn.ModuleList()
    for number in range(1 if spec.tied else spec.steps):
        steps.append(build(program.steps[0 if program.uniform else number], position))
        position += 0 if program.uniform else len(steps[-1])  # type: ignore[arg-type]
    position += len(steps[0]) if program.uniform else 0  # type: ignore[arg-type]
    return Weights(embed, prelude, steps, build(program.readout, position))


def _embedding(program: Program, layout: Layout, spec: Specification, role: Role, features: Tensor) -> Tensor:
    inputs = spec.features + spec.outputs
    W = torch.zeros(inputs + 1 + program.takes_squares, layout.width, dtype=spec.torch_dtype)
    for name, channel in program.channels.items():
        columns = list(layout.columns[name])
        if role not in channel.on:
            continue
        if channel.source == "features":
            W[: spec.features, columns] = features.to(W.dtype)
        elif channel.source == "targets":
            W[spec.features : inputs, columns] = torch.eye(spec.outputs, dtype=W.dtype)
        elif channel.source == "half squares":
            W[inputs, columns] = 1.0
        else:
            W[-1, columns] = float(channel.source or 0.0)
    return W


def lower_attend(
    instruction: Attend, layout: Layout, everyone: Mask, kind: str, dtype: torch.dtype
) -> AttentionSublayer:
    """Return the attention sublayer of an instruction; clearing costs one head that reads its own token."""
    heads = []
    for head in instruction.heads:
        heads += _lower_head(head, layout, dtype)
    if instruction.clear:
        values = tuple((name, name, -1.0) for name in instruction.clear)
        scores = (("one", "one", 1.0),) if kind == "linear" else ()
        heads += _lower_head(Head("clear", scores, values, everyone, kind), layout, dtype)  # type: ignore[arg-type]
    return AttentionSublayer(instruction.name, instruction.caption, heads)


def _lower_head(head: Head, layout: Layout, dtype: torch.dtype) -> list[HeadWeights]:
    """Return one head, or one per output where the scores themselves are per output."""
    multiplied = [name for left, right, _ in head.scores for name in (left, right) if name in layout.per_output]
    outputs = max((len(layout.columns[name]) for name in multiplied), default=1)
    if outputs == 1:
        return [_weights(head, head.name, layout, None, dtype)]
    return [_weights(head, f"{head.name} {output + 1}", layout, output, dtype) for output in range(outputs)]


def _weights(head: Head, name: str, layout: Layout, output: int | None, dtype: torch.dtype) -> HeadWeights:
    def pick(channel: str) -> tuple[int, ...]:
        found = layout.columns[channel]
        return found if output is None or len(found) == 1 else (found[output],)

    queries: list[Entry] = []
    keys: list[Entry] = []
    for left, right, scale in head.scores:
        for reader, source in _pairs(pick(left), pick(right)):
            queries.append((reader, scale))
            keys.append((source, 1.0))
    moved = [(to, of, scale) for target, source, scale in head.values for to, of in _pairs(pick(target), pick(source))]
    width, key, value = layout.width, max(len(queries), 1), len(moved)
    W_Q, W_K = torch.zeros(width, key, dtype=dtype), torch.zeros(width, key, dtype=dtype)
    W_V, W_O = torch.zeros(width, value, dtype=dtype), torch.zeros(value, width, dtype=dtype)
    _check_held([scale for _, scale in queries] + [scale for _, _, scale in moved], dtype)
    for column, ((reader, scale), (source, _)) in enumerate(zip(queries, keys, strict=True)):
        W_Q[reader, column], W_K[source, column] = scale, 1.0
    for column, (to, of, scale) in enumerate(moved):
        W_V[of, column], W_O[column, to] = scale, 1.0
    return HeadWeights(name, W_Q, W_K, W_V, W_O, head.mask, head.kind)


def _check_held(values: Sequence[float], dtype: torch.dtype) -> None:
    """Refuse weights that the precision cannot hold: the ridge, the step sizes or the sink are too large for it."""
    largest = max(map(abs, values), default=0.0)
    if not largest <= torch.finfo(dtype).max:
        name = str(dtype).removeprefix("torch.")
        raise InputError(
            f"a weight would be {largest:.3g}, which {name} does not hold: compile with a ridge, a spectrum or a sink "
            "of less extreme size, or in float64."
        )


def _pairs(left: tuple[int, ...], right: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pair columns one to one; a single column goes with all of the other's."""
    size = max(len(left), len(right))
    if len(left) not in (1, size) or len(right) not in (1, size):
        raise InputError(f"channels of {len(left)} and {len(right)} columns cannot be combined.")
    return [(left[i if len(left) > 1 else 0], right[i if len(right) > 1 else 0]) for i in range(size)]


def lower_gate(
    instruction: Gate,
    layout: Layout,
    empty: frozenset[str],
    primitives: Primitives,
    dtype: torch.dtype,
    most_units: int | None = None,
) -> GatedMLP:
    """Return the gated sublayer of an instruction.

    What is written is the difference to the old value, which the residual connection carries along; a
    channel in `empty` holds an exact zero and needs no difference.

    Raises:
        InputError: it needs more than `most_units` units; none of its matrices was made.
    """
    units = _units(instruction, layout, empty, primitives, dtype, most_units)
    return GatedMLP(instruction.name, instruction.caption, *units.matrices(), units.gates)


def count_units(
    instruction: Gate, layout: Layout, empty: frozenset[str], primitives: Primitives, dtype: torch.dtype
) -> int:
    """Return how many units a gated sublayer will have, without making its matrices."""
    return len(_units(instruction, layout, empty, primitives, dtype, None).units)


def count_pairs(head: Head, layout: Layout) -> list[int]:
    """Return the columns of W_Q, W_K, W_V and W_O together, for each of the heads that this one becomes."""
    many = [len(layout.columns[name]) for left, right, _ in head.scores for name in (left, right)
            if name in layout.per_output]  # fmt: skip
    outputs = max(many, default=1)

    def size(*names: str) -> int:
        split = outputs > 1
        return max(1 if split and name in layout.per_output else len(layout.columns[name]) for name in names)

    keys = max(1, sum(size(left, right) for left, right, _ in head.scores))
    values = sum(size(target, source) for target, source, _ in head.values)
    return [2 * keys + 2 * values] * outputs


def _units(
    instruction: Gate,
    layout: Layout,
    empty: frozenset[str],
    primitives: Primitives,
    dtype: torch.dtype,
    most_units: int | None,
) -> _Units:
    units = _Units(layout, primitives, dtype, most_units)
    for target, terms in instruction.assignments:
        units.assign(target, _difference(target, terms, target in empty))
    for name in instruction.clear:
        units.assign(name, (Term(-1.0, (name,)),))
    return units


def _difference(target: str, terms: Expression, empty: bool) -> Expression:
    carried = Term(1.0, (target,))
    if carried in terms:
        index = terms.index(carried)
        return terms[:index] + terms[index + 1 :]
    return terms if empty else (*terms, Term(-1.0, (target,)))


class _Units:
    """The gated units of a sublayer: a sparse list that becomes three matrices."""

    def __init__(self, layout: Layout, primitives: Primitives, dtype: torch.dtype, most: int | None) -> None:
        self.layout, self.primitives, self.dtype, self.most = layout, primitives, dtype, most
        self.units: list[tuple[Unit, int]] = []  # each with the column it adds to

    def assign(self, target: str, terms: Expression) -> None:
        """Add to a channel, column by column: units for its linear part, then for every other term."""
        one, columns = self.layout.columns["one"][0], self.layout.columns[target]
        for place, column in enumerate(columns):
            widths = {len(self.layout.columns[name]) for term in terms for name in term.channels} | {1}
            positions = range(max(widths)) if len(columns) == 1 else (place,)  # one column gets the sum over others
            straight = [
                (self._column(term.factors[0], position), term.coefficient)
                for term in terms
                if term.linear
                for position in positions[: len(self.layout.columns[term.factors[0]])]
            ]
            found = self.primitives.move(straight, one) if straight else []
            for term in terms:
                if term.rectified:
                    inside = [(self._column(part.factors[0], place), part.coefficient) for part in term.rectified]
                    found += self.primitives.rectify(term.coefficient, inside, one)
                elif not term.linear:
                    make = self.primitives.divide if term.divisor else self.primitives.multiply
                    summed = max(len(self.layout.columns[name]) for name in term.channels)
                    for position in positions[:summed]:
                        x, y = (self._operand(name, position) for name in term.channels)
                        found += make(term.coefficient, x, y, one)
            self.units += [(unit, column) for unit in found]
            if self.most is not None and len(self.units) > self.most:
                raise InputError(f"a gated sublayer needs more than {self.most:,} units")

    @property
    def gates(self) -> list[str]:
        """The gate of every unit."""
        return [unit.gate for unit, _ in self.units]

    def _operand(self, name: str, position: int) -> Operand:
        return Operand(self._column(name, position), self.layout.constants.get(name))

    def _column(self, name: str, position: int) -> int:
        columns = self.layout.columns[name]
        return columns[position if len(columns) > 1 else 0]

    def matrices(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return W_a, W_b (width x units) and W_d (units x width)."""
        reads = ([unit.a for unit, _ in self.units], [unit.b for unit, _ in self.units])
        writes = [((target, unit.d),) for unit, target in self.units]
        W_a, W_b, W_d = (self._matrix(entries) for entries in (*reads, writes))
        return W_a, W_b, W_d.T.contiguous()

    def _matrix(self, entries: Sequence[Sequence[Entry]]) -> Tensor:
        """Return the (width, units) matrix with these entries in each unit's column; those that meet add up."""
        where = [(row, unit) for unit, column in enumerate(entries) for row, _ in column]
        values = [value for column in entries for _, value in column]
        W = torch.zeros(self.layout.width, len(entries), dtype=self.dtype)
        _check_held(values, self.dtype)
        places = torch.tensor(where, dtype=torch.long).reshape(-1, 2)
        return W.index_put_(tuple(places.T), torch.tensor(values, dtype=self.dtype), accumulate=True)
