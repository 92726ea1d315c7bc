"""The network itself: its weights bit by bit, what its supports see of the queries, the range of its units."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.certificate.certificate import TaskCheck
from ridgeformer.compiler.certificate.problem import as_specified
from ridgeformer.compiler.primitives.ranges import operand_ranges
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.core.checks import ArrayLike
from ridgeformer.core.seeds import torch_generator
from ridgeformer.language.roles import QUERY, Tokens

__all__ = ["check_leakage", "check_ranges", "check_weights"]

BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def check_weights(model: CompiledTransformer) -> TaskCheck:
    """Return the finding that every weight, mask and gate is, bit by bit, the one the specification compiles to."""
    sound = as_specified(model)
    compiled, held = sound.state_dict(), model.state_dict()
    differing = {name: _differing(weight, held.get(name)) for name, weight in compiled.items()}
    differing |= {name: weight.numel() for name, weight in held.items() if name not in compiled}
    layers = dict(model.named_modules())
    for name, layer in sound.named_modules():
        if _wiring(layer) != _wiring(layers.get(name)):
            differing[f"{name} (masks or gates)"] = 1
    differing = {name: count for name, count in differing.items() if count}
    entries = sum(differing.values())
    what = (
        f"all {sum(weight.numel() for weight in compiled.values()):,} weights are, bit by bit, those of the "
        "specification compiled again"
    )
    if differing:
        first, count = next(iter(differing.items()))
        what = (
            f"the weights are NOT those of the specification compiled again: {first} differs first, in {count:,} "
            f"of its entries; {entries:,} entries of {len(differing):,} tensors or masks differ in all"
        )
    return TaskCheck("weights", what, "none", float(entries), 0.0, kind="observed")


def _differing(compiled: Tensor, held: Tensor | None) -> int:
    """Return how many entries differ in any bit; all of them where the tensors cannot be compared."""
    if held is None or held.shape != compiled.shape or held.dtype != compiled.dtype:
        return max(1, compiled.numel())
    bits = BITS[compiled.dtype]
    return int((compiled.contiguous().view(bits) != held.detach().cpu().contiguous().view(bits)).sum())


def _wiring(layer: object) -> tuple[object, ...]:
    """Return the masks and kinds of head, or the gates, of a sublayer."""
    if isinstance(layer, AttentionSublayer):
        return layer.masks, layer.kinds
    return (layer.gates,) if isinstance(layer, GatedMLP) else ()


SUPPORTS, QUERIES, TOKENS = 256, 64, 1024
"""The budget: supports and queries of one task, and of all tasks together, that are probed at most."""


def check_leakage(model: CompiledTransformer, given: list[tuple[Tensor, Tensor, Tensor]]) -> TaskCheck:
    """Return the finding that in no sublayer a row of another role changes with anything a query holds.

    Gated sublayers act on one row at a time. Each attention sublayer is differentiated once, in a random direction that
    moves every column of every query row, at a stream whose features, constants and targets are those of the task and
    whose state is random: a derivative that is not zero for all states vanishes at a random one with probability zero.
    If no other row moves in any sublayer, then by the chain rule no other row depends on the query inputs. That the
    queries' own rows do move is checked as well: a derivative that is zero because nothing was differentiated shows
    nothing.

    All outputs are probed; supports, queries and tasks, each (X, y, Xq), up to the budget.
    """
    rows, query_rows = len(given[0][0]), len(given[0][2])
    supports, queries = min(SUPPORTS, rows), min(QUERIES, query_rows)
    tasks = max(1, min(len(given), TOKENS // (supports + queries)))
    some = [(X[:supports], y[:supports], Xq[:queries]) for X, y, Xq in given[:tasks]]
    X, y, Xq = (torch.stack(parts).to(model.spec.torch_dtype) for parts in zip(*some, strict=True))
    tokens, generator = model.tokens(supports, queries), torch_generator(0, "leakage")
    stream = model.stream(X, y, Xq)
    state = torch.ones(stream.shape[-1], dtype=torch.bool)  # the columns in which the embedding puts nothing
    for name, columns in model.layout.columns.items():
        if model.program.channels[name].source is not None:
            state[list(columns)] = False
    stream = torch.where(state, 0.5 + torch.rand(stream.shape, generator=generator, dtype=stream.dtype), stream)
    places = [
        (f"{section}.{i.name}", layer) for section, i, layer in model.schedule if isinstance(layer, AttentionSublayer)
    ]
    with torch.no_grad():
        moved = {layer: _derivative(layer, stream, tokens, generator) for layer in {layer: 0 for _, layer in places}}
    probed = (
        f"{supports} of {rows} supports and {queries} of {query_rows} queries of {tasks} of {len(given)} tasks, "
        f"{100 * tasks * (supports + queries) / len(given) / (rows + query_rows):.3g} % of the tokens; every output of "
        f"{model.spec.outputs}"
    )
    alive = all(own > 0 for _, own in moved.values())
    return _finding([(place, moved[layer][0]) for place, layer in places], alive, probed)


def _derivative(
    sublayer: AttentionSublayer, stream: Tensor, tokens: Tokens, generator: torch.Generator
) -> tuple[float, float]:
    """Return the largest derivative of other rows, and of query rows, when the query rows move; NaN if one is."""
    queries = tokens.rows(QUERY)
    direction = torch.zeros_like(stream)
    moving = direction[..., queries, :]
    moving.copy_(torch.randn(moving.shape, generator=generator, dtype=stream.dtype))
    moved: Tensor = torch.func.jvp(lambda at: sublayer(at, tokens), (stream,), (direction,))[1].abs()
    others = [float(moved[..., tokens.rows(role), :].max()) for role in tokens.counts if role != QUERY]
    return max(others), float(moved[..., queries, :].max())


def _finding(leaks: list[tuple[str, float]], alive: bool, probed: str) -> TaskCheck:
    leaky = [place for place, leak in leaks if leak != 0.0]
    what = "no support, anchor or aggregator depends on any query, in any sublayer"
    if leaky:
        what = f"a support, anchor or aggregator depends on a query from sublayer {leaky[0]!r} on"
    return TaskCheck(
        "leakage",
        what,
        f"the Jacobian with respect to the query rows is exactly 0.0 in every attention sublayer, in a random "
        f"direction at a random state; probed: {probed}",
        np.array([leak for _, leak in leaks]),
        0.0,
        ("sublayer",),
        met=alive and not leaky,
        kind="observed",
    )


def check_ranges(model: CompiledTransformer, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> TaskCheck:
    """Return the finding that no factor or divisor of the program leaves the range of the model's units.

    Divisors below the range only make a converged network idle, so they do not count; above it Newton's sweeps
    diverge, and beyond `relu_bound` a piecewise-linear product is flat.
    """
    met, options = operand_ranges(model, X, y, Xq), model.spec.units.options
    divisor, factor = (options["reciprocal_range"] or (0.0, np.inf))[1], options["relu_bound"] or np.inf
    return TaskCheck(
        "operand range",
        "largest divisor and factor of the program, as a fraction of what its units were compiled for",
        f"divisors up to {divisor:g} ({met.largest_divisor:.3g} met), factors up to {factor:g} "
        f"({met.largest_factor:.3g} met); compile with a wider range otherwise",
        max(met.largest_divisor / divisor, met.largest_factor / factor),
        1.0,
        kind="observed",
    )
