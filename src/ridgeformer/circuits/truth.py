"""Ground truth of a known circuit: which parts, and which edges between parts, carry data to the prediction.

It is derived from the program, one role and one channel at a time, and never from a run. Going forward, every channel
on the tokens of every role is zero, constant or varies with the data. Going backward, a channel is needed if a part
that leads to the prediction is sensitive to it there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from ridgeformer.circuits.flows import CONSTANT, VARIES, ZERO, Flow, Key, attention_flows, gated_flows, term_flows
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.export.lowering import Lowered
from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Attend, Gate
from ridgeformer.language.roles import QUERY, SUPPORT, Role

__all__ = ["INPUT", "OUTPUT", "Question", "Truth", "derive"]

INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True)
class Question:
    """A variable that probes and patches are asked for: a channel, on the tokens of a role, in a hidden state."""

    channel: str
    role: str
    state: int


@dataclass(frozen=True, eq=False)
class Truth:
    """What is known of a circuit.

    Attributes:
        nodes: Every head and gated sublayer with nonzero weights, in the order of execution. True: replacing its output
            by its output on other data changes predictions. False: it does not. None: its output is the same on all
            data, so that such a test says nothing; it is not scored.
        edges: (source, target) of all pairs in which the target comes later, the input and the output included. True:
            replacing the output of the source in what the target reads, and there alone, changes predictions. False and
            None as for nodes.

    Also None are parts of a Newton iteration that lead to the prediction, and edges from and to any such part along
    which data flow: later sweeps repair what is changed in earlier ones, or diverge if it was changed too much, so that
    a test by changing them says nothing.
        question: What probes and patches are asked for; None where there is no variable between input and output.
    """

    nodes: Mapping[str, bool | None]
    edges: Mapping[tuple[str, str], bool | None]
    question: Question | None


@dataclass(frozen=True, eq=False)
class _Part:
    """A node: the flows that its weights make, those that its instruction means, and whether it is a Newton sweep."""

    name: str
    sublayer: int
    flows: tuple[Flow, ...]
    meant: tuple[Flow, ...]
    repaired: bool

    def written(self) -> dict[Key, int]:
        """Return what it adds to, and of which kind that is."""
        found: dict[Key, int] = {}
        for flow in self.flows:
            found[flow.write] = max(found.get(flow.write, ZERO), flow.kind)
        return found


def derive(lowered: Lowered) -> Truth:
    """Return the ground truth of a lowered model with one output."""
    model = lowered.model
    parts, kinds, erased = _forward(lowered)
    answer = next(record for _, record, _ in reversed(model.records) if record.name == "f")
    goal = (answer.channel, QUERY)
    after, alive, nodes = {goal}, dict[int, frozenset[Key]](), dict[str, bool | None]()
    needed, reads = {goal}, {OUTPUT: frozenset({goal})}
    for number, group in groupby(reversed(parts), key=lambda part: part.sublayer):
        together, asked, used = list(group), set[Key](), set[Key]()
        alive[number] = frozenset(after)
        for part in together:
            verdict = _verdict(kind for key, kind in part.written().items() if key in after)
            nodes[part.name] = None if verdict and part.repaired else verdict
            reads[part.name] = frozenset(key for flow in part.flows if flow.write in needed for key in flow.reads)
            asked |= reads[part.name]
            used |= {key for flow in part.meant if flow.write in after for key in flow.reads}
        needed |= asked
        after = (after - erased[number]) | used
    given = [(INPUT, 0, kinds[0])] + [(part.name, part.sublayer, part.written()) for part in parts]
    edges = dict[tuple[str, str], bool | None]()
    touched = {part.name: {key for flow in part.flows for key in flow.reads} for part in parts if part.repaired}
    for target, place in [*((part.name, part.sublayer) for part in parts), (OUTPUT, len(kinds))]:
        for source, earlier, written in given:
            if earlier < place:
                verdict = _verdict(kind for key, kind in written.items() if key in touched.get(target, reads[target]))
                unclear = verdict and (target in touched or source in touched)
                edges[source, target] = None if unclear else verdict
    ordered = {part.name: nodes[part.name] for part in parts}
    return Truth(ordered, edges, _question(lowered, kinds, alive))


def _verdict(kinds: Iterable[int]) -> bool | None:
    largest = max(kinds, default=ZERO)
    return None if largest == CONSTANT else largest == VARIES


def _forward(lowered: Lowered) -> tuple[list[_Part], list[dict[Key, int]], dict[int, set[Key]]]:
    """Return all parts, the kind of every channel after 0, 1, ... sublayers, and what each sublayer erases."""
    model, parts, erased = lowered.model, list[_Part](), dict[int, set[Key]]()
    roles = model.program.roles
    kinds = [_embedded(model)]
    for number, (_, instruction, sublayer) in enumerate(model.sublayers, start=1):
        layer, now = bisect_left(lowered.ends, number) - 1, kinds[-1]
        found: list[tuple[str, tuple[Flow, ...], tuple[Flow, ...]]] = []
        if isinstance(instruction, Attend):
            assert isinstance(sublayer, AttentionSublayer)
            for index, flows in enumerate(attention_flows(instruction, roles, now)):
                found.append((f"L{layer}.H{index}", flows, () if index >= len(instruction.heads) else flows))
            assert len(found) == len(sublayer.heads), "one head an output"
            gone = set(instruction.clear)
        else:
            assert isinstance(sublayer, GatedMLP)
            flows, meant = gated_flows(sublayer, model.layout, roles, now), term_flows(instruction, roles, now)
            found.append((f"L{layer}.MLP", flows, meant))
            taken = {flow.write[0] for flow in flows if flow.write in flow.reads}
            gone = {name for name in taken if not _adds(instruction, name)}
        repaired = any(name.startswith(("inverse_", "missing_")) for name in instruction.writes)
        parts += [_Part(name, number, flows, meant, repaired) for name, flows, meant in found]
        erased[number] = {(name, role) for name in gone for role in roles}
        then = {key: ZERO if key in erased[number] else kind for key, kind in now.items()}
        for _, _, meant in found:
            for flow in meant:
                then[flow.write] = max(then[flow.write], flow.kind)
        kinds.append(then)
    return parts, kinds, erased


def _embedded(model: CompiledTransformer) -> dict[Key, int]:
    """Return the kind of every channel before the first layer."""
    found = dict[Key, int]()
    for name, channel in model.program.channels.items():
        for role in model.program.roles:
            kind = ZERO
            if role in channel.on and channel.source:
                kind = CONSTANT if isinstance(channel.source, float) else VARIES
            found[name, role] = kind
    return found


def _adds(instruction: Gate, channel: str) -> bool:
    """Return whether a gate keeps what the channel held and adds to it."""
    return Term(1.0, (channel,)) in dict(instruction.assignments).get(channel, ())


def _question(lowered: Lowered, kinds: list[dict[Key, int]], alive: dict[int, frozenset[Key]]) -> Question | None:
    """Return the latest hidden state that holds a variable of the algorithm on its way to the prediction."""
    wanted: tuple[tuple[str, Role], ...] = (("alpha", SUPPORT), ("gamma", QUERY))
    for key in wanted:
        for state in range(len(lowered.ends) - 2, 0, -1):
            passed = lowered.ends[state]
            if kinds[passed].get(key) == VARIES and key in alive[passed]:
                return Question(key[0], key[1].value, state)
    return None
