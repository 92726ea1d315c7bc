"""Baselines: how well random, weight-based, gradient-based and patching methods find a known circuit.

A method sees the TransformerLens model and its data, never the truth. The last two compare a clean task with another of
the same size, as usual: an edge carries what its source says on the other task into its target, and there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from ridgeformer.circuits.recipes import KnownCircuit
from ridgeformer.circuits.truth import INPUT, OUTPUT
from ridgeformer.core.seeds import numpy_generator, torch_generator

__all__ = ["METHODS", "CircuitAnswer", "PatchedRuns", "probe_directions"]

Edge = tuple[str, str]
PAIRS = 2
"""Pairs of tasks that gradients are averaged over; patching every edge is dear, and takes the first."""

BATCH = 128
"""Patches that are run at once."""

BROKEN = 1e30
"""The effect of a patch after which predictions are no longer finite."""

FIRST_TASK = 1000
"""The seed of the first task a baseline looks at; the scorer uses others."""


@dataclass(frozen=True, eq=False)
class CircuitAnswer:
    """What a method says of one circuit.

    Attributes:
        nodes: How strongly each node is believed to carry data to the prediction; missing ones score 0.
        edges: The same for (source, target).
        threshold: Scores above it are what the method would include; None leaves that open.
        probe: A direction in the hidden states that is believed to hold the variable in question.
        patch: A direction along which exchanging hidden states is believed to exchange that variable.
    """

    nodes: dict[str, float] = field(default_factory=dict)
    edges: dict[Edge, float] = field(default_factory=dict)
    threshold: float | None = None
    probe: tuple[float, ...] | None = None
    patch: tuple[float, ...] | None = None


class PatchedRuns:
    """A clean and another run of a known circuit, and what happens if parts of the second are put into the first."""

    def __init__(self, known: KnownCircuit, clean: int, other: int) -> None:
        self.known, self.lens = known, known.export.model
        self.embeds, self.other_embeds = known.embeds(clean), known.embeds(other)
        self.queries = known.tokens["query"]
        with torch.no_grad():
            logits, self.clean = self.lens.run_with_cache(self.embeds)
            changed, self.other = self.lens.run_with_cache(self.other_embeds)
        self.predictions, self.other_predictions = (part[0, self.queries, 0] for part in (logits, changed))

    # -- parts -------------------------------------------------------------------------------------

    @staticmethod
    def place(node: str) -> tuple[int, int | None]:
        """Return the layer of a node, and the number of the head; None for a gated sublayer."""
        layer, part = node[1:].split(".")
        return int(layer), int(part[1:]) if part.startswith("H") else None

    def weights(self, node: str) -> tuple[list[Tensor], Tensor]:
        """Return the matrices a node reads with, (d_model, ...), and the one it writes with, (..., d_model)."""
        layer, head = self.place(node)
        block, size = self.lens.original_model.layers[layer], self.lens.cfg.d_head
        if head is None:
            return [getattr(block.mlp, name).weight.T for name in ("in", "gate")], block.mlp.out.weight.T
        rows = slice(head * size, (head + 1) * size)
        return [getattr(block.attn, name).weight[rows].T for name in "qkv"], block.attn.o.weight[:, rows].T

    def output(self, node: str, cache: Mapping[str, Tensor]) -> Tensor:
        """Return what a node adds to the stream in one of the runs, (tokens, d_model)."""
        if node == INPUT:
            return (self.embeds if cache is self.clean else self.other_embeds)[0]
        layer, head = self.place(node)
        if head is None:
            return cache[f"blocks.{layer}.hook_mlp_out"][0]
        return cache[f"blocks.{layer}.attn.hook_z"][0, :, head] @ self.weights(node)[1]

    @cached_property
    def differences(self) -> dict[str, Tensor]:
        """What every node says otherwise in the other run."""
        nodes = (INPUT, *self.known.truth.nodes)
        return {node: self.output(node, self.other) - self.output(node, self.clean) for node in nodes}

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """Every target with the sources that come before it."""
        found: dict[str, list[str]] = {}
        for source, target in self.known.truth.edges:
            found.setdefault(target, []).append(source)
        return found

    # -- patching ----------------------------------------------------------------------------------

    @cached_property
    def _silent(self) -> frozenset[int]:
        """Layers none of whose heads writes anything: their attention adds exact zeros."""
        layers = enumerate(self.lens.original_model.layers)
        return frozenset(number for number, layer in layers if not bool(layer.attn.o.weight.any()))

    def run(self, hooks: list[tuple[str, Callable[..., Tensor]]], rows: int, start: int = 0) -> Tensor:
        """Return the predictions of `rows` copies of the clean run under hooks, (rows, queries).

        Layers before `start` are not run again: hooks are all in later ones, or in it.
        """
        first = self.embeds if start == 0 else self.clean[f"blocks.{start - 1}.hook_resid_post"]
        state = first.expand(rows, -1, -1)
        skipped = self._silent - {int(name.split(".")[1]) for name, _ in hooks}
        with torch.no_grad(), self.lens.hooks(fwd_hooks=hooks):
            for layer, block in enumerate(self.lens.blocks[start:], start=start):
                state = state + block.mlp(state) if layer in skipped else block(state)[0]
            return state[:, self.queries] @ self.lens.original_model.head.weight[0]

    def moved(self, predictions: Tensor) -> float:
        """Return the mean distance of predictions from those of the clean run.

        A patch may put a divisor out of the range of its Newton sweeps, and predictions become infinite: `BROKEN`.
        """
        return float((predictions - self.predictions).abs().nan_to_num(BROKEN, BROKEN).clamp(max=BROKEN).mean())

    def replaced(self, *, by_zero: bool = False) -> dict[str, Tensor]:
        """Return the predictions when one node says what it says in the other run, or nothing, for every node."""
        found: dict[str, Tensor] = {}
        everyone = list(self.known.truth.nodes)
        for at in range(0, len(everyone), BATCH):
            nodes, hooks = everyone[at : at + BATCH], []
            for row, node in enumerate(nodes):
                layer, head = self.place(node)
                name = f"blocks.{layer}.hook_mlp_out" if head is None else f"blocks.{layer}.attn.hook_z"

                def swap(value: Tensor, hook: Any, row: int = row, head: int | None = head, name: str = name) -> Tensor:
                    value = value.clone()
                    said = torch.zeros_like(value[0]) if by_zero else self.other[name][0]
                    if head is None:
                        value[row] = said
                    else:
                        value[row, :, head] = said[:, head]
                    return value

                hooks.append((name, swap))
            found |= zip(nodes, self.run(hooks, len(nodes), self.place(nodes[0])[0]), strict=True)
        return found

    def rerouted(self, target: str) -> dict[str, Tensor]:
        """Return the predictions when the target alone reads what a source says in the other run, for every source."""
        found: dict[str, Tensor] = {}
        for at in range(0, len(self.sources[target]), BATCH):
            sources = self.sources[target][at : at + BATCH]
            moved = torch.stack([self.differences[source] for source in sources])
            if target == OUTPUT:
                read = self.lens.original_model.head.weight[0]
                predictions = self.predictions + moved[:, self.queries] @ read
            else:
                hooks = self._added(target, moved)
                predictions = self.run(hooks, len(sources), self.place(target)[0])
            found |= zip(sources, predictions, strict=True)
        return found

    def _added(self, target: str, moved: Tensor) -> list[tuple[str, Callable[..., Tensor]]]:
        """Return the hooks that add something to what a target reads, and to nothing else."""
        layer, head = self.place(target)
        if head is None:
            return [(f"blocks.{layer}.mlp.hook_in", lambda value, hook: value + moved)]

        def add(value: Tensor, hook: Any, weight: Tensor) -> Tensor:
            value = value.clone()
            value[:, :, head] += moved @ weight
            return value

        reads = zip("qkv", self.weights(target)[0], strict=True)
        return [(f"blocks.{layer}.attn.hook_{letter}", partial(add, weight=weight)) for letter, weight in reads]

    # -- gradients ---------------------------------------------------------------------------------

    def attributions(self) -> tuple[dict[str, float], dict[Edge, float]]:
        """Return attribution patching for nodes and edges: first-order estimates of the two above.

        The measure is how far predictions move towards those of the other run.
        """
        layers, kept = range(self.lens.cfg.n_layers), dict[str, Tensor]()
        gated = not self.lens.cfg.attn_only
        names = [f"blocks.{layer}.attn.hook_{letter}" for layer in layers for letter in "qkvz"]
        names += [f"blocks.{layer}.{part}" for layer in layers for part in ("mlp.hook_in", "hook_mlp_out") if gated]

        def keep(value: Tensor, hook: Any, name: str) -> Tensor:
            value = value if value.requires_grad else value.detach().requires_grad_(True)
            value.retain_grad()
            kept[name] = value
            return value

        hooks = [(name, lambda value, hook, name=name: keep(value, hook, name)) for name in names]
        aim = self.other_predictions - self.predictions
        with torch.enable_grad():
            start = self.embeds.clone().requires_grad_(True)
            logits = self.lens.run_with_hooks(start, fwd_hooks=hooks)
            ((logits[0, self.queries, 0] @ aim) / aim.square().sum()).backward()
        slopes = {name: torch.zeros_like(v) if v.grad is None else v.grad for name, v in kept.items()}
        nodes, edges = {}, {}
        for node in self.known.truth.nodes:
            layer, head = self.place(node)
            name = f"blocks.{layer}.hook_mlp_out" if head is None else f"blocks.{layer}.attn.hook_z"
            moved = ((self.other[name] - self.clean[name]) * slopes[name])[0]
            nodes[node] = float((moved if head is None else moved[:, head]).sum().abs())
        for target in (*self.known.truth.nodes, OUTPUT):
            slope = self._slope(target, slopes, aim)
            for source in self.sources[target]:
                edges[source, target] = float((self.differences[source] * slope).sum().abs())
        return nodes, edges

    def _slope(self, target: str, slopes: dict[str, Tensor], aim: Tensor) -> Tensor:
        """Return the derivative of the measure with respect to what a target reads, (tokens, d_model)."""
        if target == OUTPUT:
            slope = torch.zeros_like(self.embeds[0])
            slope[self.queries] = torch.outer(aim, self.lens.original_model.head.weight[0]) / aim.square().sum()
            return slope
        layer, head = self.place(target)
        if head is None:
            return slopes[f"blocks.{layer}.mlp.hook_in"][0]
        reads = zip("qkv", self.weights(target)[0], strict=True)
        return torch.stack([slopes[f"blocks.{layer}.attn.hook_{x}"][0, :, head] @ weight.T for x, weight in reads]).sum(
            0
        )


# -- the baselines ------------------------------------------------------------------------------------


def _random(known: KnownCircuit) -> CircuitAnswer:
    generator = numpy_generator(known.recipe.seed, "random answer")
    nodes = {node: float(generator.random()) for node in known.truth.nodes}
    return CircuitAnswer(nodes, {edge: float(generator.random()) for edge in known.truth.edges})


def _activity(known: KnownCircuit) -> CircuitAnswer:
    """Nodes and edges by how much the source says otherwise on other data."""
    found = [PatchedRuns(known, *pair).differences for pair in _pairs()]
    moved = {node: sum(_norm(differences[node]) for differences in found) for node in found[0]}
    nodes = {node: moved[node] for node in known.truth.nodes}
    return CircuitAnswer(nodes, {(source, target): moved[source] for source, target in known.truth.edges})


def _weight_norms(known: KnownCircuit) -> CircuitAnswer:
    """Nodes by the norm of all their weights, edges by the product of what the source writes and the target reads."""
    weights = _weights(known)
    norms = {name: (_norm(*reads), _norm(write)) for name, (reads, write) in weights.items()}
    nodes = {node: _norm(*weights[node][0], weights[node][1]) for node in known.truth.nodes}
    return CircuitAnswer(nodes, {(s, t): norms[s][1] * norms[t][0] for s, t in known.truth.edges})


def _composition(known: KnownCircuit) -> CircuitAnswer:
    """Edges by the norm of what the source writes times what the target reads; nodes by the largest edge they send."""
    weights = _weights(known)
    edges = {(s, t): _norm(*(weights[s][1] @ read for read in weights[t][0])) for s, t in known.truth.edges}
    nodes = dict.fromkeys(known.truth.nodes, 0.0)
    for (source, _), value in edges.items():
        nodes[source] = max(nodes.get(source, 0.0), value)
    del nodes[INPUT]
    return CircuitAnswer(nodes, edges)


def _weights(known: KnownCircuit) -> dict[str, tuple[list[Tensor], Tensor]]:
    """Return what every part reads and writes with; the input writes with the embeddings of all roles."""
    io, lens = known.export.io, known.export.model
    shown = PatchedRuns(known, FIRST_TASK, FIRST_TASK + 1)
    found = {node: shown.weights(node) for node in known.truth.nodes}
    found[INPUT] = ([], torch.cat(list(io.embed.values())))
    found[OUTPUT] = ([lens.original_model.head.weight[:1].T], torch.zeros(1, lens.cfg.d_model))
    return found


def _norm(*matrices: Tensor) -> float:
    return float(sum(float(matrix.square().sum()) for matrix in matrices) ** 0.5)


def _attribution(known: KnownCircuit) -> CircuitAnswer:
    found = [PatchedRuns(known, *pair).attributions() for pair in _pairs()]
    return CircuitAnswer(
        {node: sum(nodes[node] for nodes, _ in found) for node in known.truth.nodes},
        {edge: sum(edges[edge] for _, edges in found) for edge in known.truth.edges},
    )


def _patching(known: KnownCircuit) -> CircuitAnswer:
    shown, edges = PatchedRuns(known, *_pairs()[0]), dict[Edge, float]()
    nodes = {node: shown.moved(predictions) for node, predictions in shown.replaced().items()}
    for target in (*known.truth.nodes, OUTPUT):
        for source, predictions in shown.rerouted(target).items():
            edges[source, target] = shown.moved(predictions)
    return CircuitAnswer(nodes, edges, threshold=1e-9)


def _pairs() -> list[tuple[int, int]]:
    return [(FIRST_TASK + 2 * pair, FIRST_TASK + 2 * pair + 1) for pair in range(PAIRS)]


METHODS: dict[str, Callable[[KnownCircuit], CircuitAnswer]] = {
    "random": _random,
    "weight norm": _weight_norms,
    "activity": _activity,
    "composition": _composition,
    "gradient attribution": _attribution,
    "activation patching": _patching,
}
"""The baselines, by name."""


# -- probes and patches ----------------------------------------------------------------------------


def probe_directions(known: KnownCircuit, tasks: int = 40) -> dict[str, tuple[float, ...]]:
    """Return baseline directions for the variable in question: random, and the least-squares probe of its values."""
    question, io = known.truth.question, known.export.io
    if question is None:
        return {}
    name = f"blocks.{question.state - 1}.hook_resid_post"
    seeds = range(FIRST_TASK, FIRST_TASK + tasks)
    with torch.no_grad():
        _, cache = known.export.model.run_with_cache(known.embeds(*seeds), names_filter=[name])
    states = cache[name][:, known.tokens[question.role]].flatten(0, 1)
    values = io.channel(question.channel, states)[:, 0]
    fitted = torch.linalg.lstsq(states - states.mean(0), (values - values.mean())[:, None], driver="gelsd").solution
    drawn = torch.randn(states.shape[1], generator=torch_generator(known.recipe.seed, "random direction"))
    return {"random": tuple(drawn.tolist()), "least squares": tuple(fitted[:, 0].tolist())}
