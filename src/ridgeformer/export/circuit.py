"""The ground truth of an export: every head and unit, with the channels it reads and writes, as a graph."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from torch import Tensor

from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.export.lowering import Lowered
from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Attend, Gate

__all__ = ["Circuit", "CircuitEdge", "CircuitNode", "draw_circuit"]

INPUT, OUTPUT = "input", "output"

MOST_EDGES = 1_000_000


@dataclass(frozen=True)
class CircuitNode:
    """A head or a gated sublayer.

    Attributes:
        name: "L3.H0" is head 0 of layer 3, "L3.MLP" its gated sublayer; "input" and "output" are the two ends.
        layer: Number of the layer, -1 for the input; the output has the number of layers.
        role: The sublayer and head it stands for, such as "step 1.kernel product: kernel product".
        meaning: What it computes.
        reads: Channels it reads.
        writes: Channels it adds to.
        replaces: Channels whose earlier content is gone after its sublayer.
        units: For a gated sublayer, (channels read, channels written) of every unit.
    """

    name: str
    layer: int
    role: str
    meaning: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    units: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()

    @property
    def sublayer(self) -> tuple[int, bool]:
        """What nodes of one sublayer have in common."""
        return self.layer, ".H" in self.name


@dataclass(frozen=True)
class CircuitEdge:
    """A channel that one node writes and another reads while it holds that."""

    source: str
    target: str
    channel: str


@dataclass(frozen=True)
class Circuit:
    """A known circuit: its nodes in the order of execution, and the edges that follow from them."""

    nodes: tuple[CircuitNode, ...]

    @cached_property
    def edges(self) -> tuple[CircuitEdge, ...]:
        """Every edge: what a node wrote reaches all that read the channel until its content is replaced."""
        found, holders = list[CircuitEdge](), dict[str, list[str]]()
        for _, group in groupby(self.nodes, key=lambda node: node.sublayer):
            nodes = list(group)
            found += [CircuitEdge(s, node.name, c) for node in nodes for c in node.reads for s in holders.get(c, [])]
            for channel in {channel for node in nodes for channel in node.replaces}:
                holders.pop(channel, None)
            for node in nodes:
                for channel in node.writes:
                    holders.setdefault(channel, []).append(node.name)
        return tuple(found)

    def node(self, name: str) -> CircuitNode:
        """Return the node of this name."""
        return next(node for node in self.nodes if node.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values; edges are left out where there are more than a million."""
        edges = [asdict(edge) for edge in self.edges] if len(self.edges) <= MOST_EDGES else None
        return {"nodes": [asdict(node) for node in self.nodes], "edges": edges}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Circuit:
        """Return the circuit that `as_dict` described."""

        def node(found: dict[str, Any]) -> CircuitNode:
            names = {key: tuple(found[key]) for key in ("reads", "writes", "replaces")}
            units = tuple((tuple(read), tuple(written)) for read, written in found["units"])
            return CircuitNode(**{**found, **names, "units": units})

        return cls(tuple(map(node, values["nodes"])))


def draw_circuit(lowered: Lowered) -> Circuit:
    """Return the circuit of a lowered model, from its program; units from the nonzero entries of its weights."""
    model = lowered.model
    named = {column: name for name, columns in model.layout.columns.items() for column in columns}
    given = tuple(name for name, channel in model.program.channels.items() if channel.source is not None)
    nodes = [CircuitNode(INPUT, -1, "embedding", "the embedding of every role", (), given)]
    known = dict[int, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]()
    for number, (section, instruction, sublayer) in enumerate(model.sublayers, start=1):
        layer, place = bisect_left(lowered.ends, number) - 1, f"{section}.{instruction.name}"
        written = instruction.writes
        gone = [name for name in (*written, *instruction.clear) if name not in written or not _adds(instruction, name)]
        replaced = tuple(sorted(set(gone)))
        if isinstance(instruction, Attend):
            assert isinstance(sublayer, AttentionSublayer)
            for index, head in enumerate(sublayer.heads):
                spoken = next((h for h in instruction.heads if head.startswith(h.name)), None)
                reads, meaning = instruction.clear, f"clears {', '.join(instruction.clear)}"
                writes: tuple[str, ...] = ()
                if spoken is not None:
                    reads, meaning = tuple(sorted(spoken.reads)), instruction.caption
                    writes = tuple(sorted({to for to, _, _ in spoken.values}))
                role = f"{place}: {head}"
                nodes.append(CircuitNode(f"L{layer}.H{index}", layer, role, meaning, reads, writes, replaced))
        else:
            assert isinstance(sublayer, GatedMLP)
            if id(sublayer) not in known:
                known[id(sublayer)] = _units(sublayer, named)
            units, caption = known[id(sublayer)], instruction.caption
            reads = tuple(sorted({name for unit in units for name in unit[0]}))
            written_here = tuple(sorted(written))
            nodes.append(CircuitNode(f"L{layer}.MLP", layer, place, caption, reads, written_here, replaced, units))
    answer = next(record for _, record, _ in reversed(model.records) if record.name == "f")
    nodes.append(CircuitNode(OUTPUT, len(lowered.blocks), "readout", "predictions, on queries", (answer.channel,), ()))
    return Circuit(tuple(nodes))


def _adds(instruction: Attend | Gate, channel: str) -> bool:
    """Return whether what the channel held before stays a part of what it holds after."""
    if isinstance(instruction, Attend):
        return channel not in instruction.clear
    terms = dict(instruction.assignments).get(channel, ())
    return any(term == Term(1.0, (channel,)) for term in terms)


def _units(sublayer: GatedMLP, named: dict[int, str]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Return the channels that every unit reads and writes."""

    def names(matrix: Tensor) -> tuple[str, ...]:
        return tuple(sorted({named[column] for column in matrix.nonzero().flatten().tolist()}))

    read = (sublayer.W_a.detach() != 0) | (sublayer.W_b.detach() != 0)
    return tuple((names(read[:, unit]), names(sublayer.W_d[unit].detach())) for unit in range(read.shape[1]))
