"""Does anything the supports hold depend on the queries? The Jacobian, sublayer by sublayer, must be exactly zero."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.certificate.certificate import Finding
from ridgeformer.compiler.roles import QUERY, Tokens
from ridgeformer.compiler.sublayers import Attention, GatedMLP
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.seeds import torch_generator

__all__ = ["check_leakage"]

SUPPORTS, QUERIES = 16, 2
"""Masks know roles, not numbers of tokens: a few tokens of each role show every path there is."""

PROBES = 4
"""Random directions; a Jacobian that is not zero vanishes along a random direction with probability zero."""


def check_leakage(model: CompiledTransformer, X: Tensor, y: Tensor, Xq: Tensor) -> list[Finding]:
    """Return the finding that in no sublayer a row of another role changes with anything a query holds.

    Along a run, each sublayer is differentiated at the stream it sees, in directions that move every column of
    every query row. If that moves no other row in any sublayer, then by the chain rule no other row depends on
    the query inputs. Gated sublayers are differentiated at a generic stream instead: after convergence the slope
    of a reciprocal overflows. That the queries' own rows do move is checked as well: a derivative that is zero
    because nothing was differentiated proves nothing.

    Args:
        model: What is examined.
        X: Supports of one task, (k, features).
        y: Targets, (k, outputs).
        Xq: Queries, (q, features).
    """
    X, y, Xq = (t.to(model.spec.torch_dtype) for t in (X[:SUPPORTS], y[:SUPPORTS], Xq[:QUERIES]))
    tokens = model.tokens(len(X), len(Xq))
    generator = torch_generator(0, "leakage")
    leaks: list[tuple[str, float]] = []
    alive: list[float] = []

    def watch(place: str, sublayer: Attention | GatedMLP, before: Tensor, after: Tensor) -> None:
        if isinstance(sublayer, GatedMLP):
            before = 0.5 + torch.rand(before.shape, generator=generator, dtype=before.dtype)
        leak, moved = _derivative(sublayer, before, tokens, generator)
        leaks.append((place, leak))
        alive.append(moved)

    with torch.no_grad():
        model.run_with_hook(watch, X, y, Xq)
    return [_finding(leaks, bool(alive) and min(alive) > 0)]


def _derivative(
    sublayer: Attention | GatedMLP, stream: Tensor, tokens: Tokens, generator: torch.Generator
) -> tuple[float, float]:
    """Return the largest derivative of other rows, and of query rows, when the query rows move."""
    queries = tokens.rows(QUERY)
    probes = stream.new_zeros(PROBES, *stream.shape)
    probes[:, queries] = torch.randn(probes[:, queries].shape, generator=generator, dtype=stream.dtype)
    batch = stream.repeat(PROBES, 1, 1)
    moved: Tensor = torch.func.jvp(lambda at: sublayer(at, tokens), (batch,), (probes,))[1]
    others = [_largest(moved[:, tokens.rows(role)]) for role in tokens.counts if role != QUERY]
    return max(others), _largest(moved[:, queries])


def _largest(value: Tensor) -> float:
    """Return the largest absolute value, NaN if there is one."""
    return float(value.abs().max())


def _finding(leaks: list[tuple[str, float]], alive: bool) -> Finding:
    measured = np.array([leak for _, leak in leaks])
    leaky = [place for place, leak in leaks if leak != 0.0]
    what = "no support, anchor or aggregator depends on any query, in any sublayer"
    if leaky:
        what = f"a support, anchor or aggregator depends on a query from sublayer {leaky[0]!r} on"
    return Finding(
        "leakage",
        what,
        f"the Jacobian with respect to the query rows is exactly 0.0 in every sublayer, along {PROBES} random "
        f"directions, on at most {SUPPORTS} supports and {QUERIES} queries",
        measured,
        np.zeros_like(measured),
        ("sublayer",),
        met=alive and not leaky,
    )
