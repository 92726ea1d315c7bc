"""The reference interpreter: the same program on plain tensors with names, without any weight.

It knows nothing of columns, matrices or storage. Compiled and interpreted runs must agree.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ridgeformer.language.expressions import reciprocal
from ridgeformer.language.program import Apply, Attend, Gate, Head, Instruction, Program, Record
from ridgeformer.language.roles import AGGREGATOR, Tokens

__all__ = ["excess", "interpret", "run", "start"]

State = dict[str, Tensor]


def start(program: Program, tokens: Tokens, X: Tensor, y: Tensor, Xq: Tensor) -> State:
    """Return every channel as a (..., tokens, size) tensor, filled as the embedding fills it."""
    half, half_q = (rows.square().sum(-1, keepdim=True) / 2 for rows in (X, Xq))
    given = {
        "features": {"support": X, "anchor": X, "query": Xq},
        "half squares": {"support": half, "anchor": half, "query": half_q},
        "targets": {"support": y, "anchor": y},
    }
    sizes = {"features": X.shape[-1], "outputs": y.shape[-1], "one": 1}
    state = {}
    for name, channel in program.channels.items():
        state[name] = X.new_zeros(*X.shape[:-2], tokens.total, sizes[channel.size])
        for role in channel.on:
            value = given[channel.source][role] if isinstance(channel.source, str) else channel.source
            state[name][..., tokens.rows(role), :] = value  # type: ignore[assignment]
    return state


def interpret(
    program: Program, tokens: Tokens, X: Tensor, y: Tensor, Xq: Tensor, steps: int
) -> Iterator[tuple[str, Instruction, State]]:
    """Run a program; yield (section, instruction, state after it) for every instruction.

    Features X, (..., k, m), and Xq, (..., q, m), are as the stream carries them. A uniform program's step is repeated.
    """
    state = start(program, tokens, X, y, Xq)
    for section, instruction in unroll(program, steps):
        if isinstance(instruction, Attend):
            state = _attend(instruction, state, tokens, program)
        elif isinstance(instruction, Gate):
            state = _gate(instruction, state)
        elif isinstance(instruction, Apply):
            state = _apply(instruction, state, tokens)
        yield section, instruction, state


def run(program: Program, tokens: Tokens, X: Tensor, y: Tensor, Xq: Tensor, steps: int) -> dict[str, Tensor]:
    """Run a program and return what it records: name to (steps, ..., tokens, columns)."""
    found: dict[str, dict[int, Tensor]] = {}
    for section, instruction, state in interpret(program, tokens, X, y, Xq, steps):
        if isinstance(instruction, Record):
            step = (steps if section == "readout" else int(section.split()[1])) - instruction.lag
            if step >= 1:
                found.setdefault(instruction.name, {})[step] = read(instruction, state, tokens)
    return {name: torch.stack([by[s] for s in sorted(by)]) for name, by in found.items()}


def unroll(program: Program, steps: int) -> Iterator[tuple[str, Instruction]]:
    """Yield (section, instruction) in the order of execution; sections are "prelude", "step 1", ..., "readout"."""
    for instruction in program.prelude:
        yield "prelude", instruction
    for number in range(steps):
        for instruction in program.steps[0 if program.uniform else number]:
            yield f"step {number + 1}", instruction
    for instruction in program.readout:
        yield "readout", instruction


def read(record: Record, state: State, tokens: Tokens) -> Tensor:
    """Return what a record reads."""
    return record.scale * state[record.channel][..., tokens.rows(record.role), :]


def _attend(instruction: Attend, state: State, tokens: Tokens, program: Program) -> State:
    after = {**state, **{name: torch.zeros_like(state[name]) for name in instruction.clear}}
    for head in instruction.heads:
        for target, source, scale in head.values:
            after[target] = after[target] + scale * _head(head, source, state, tokens, program)
    return after


def _head(head: Head, source: str, state: State, tokens: Tokens, program: Program) -> Tensor:
    """Return what one head moves of one channel, without any matrix of weights."""
    allowed = head.mask.matrix(tokens)
    value = state[source]
    if head.kind == "linear":
        return _linear(head, value, state, allowed, program)
    scores = sum((scale * state[left] @ state[right].mT for left, right, scale in head.scores), value.new_zeros(()))
    weights = torch.where(allowed, torch.exp(scores - _largest(scores, allowed)), 0.0)
    total = weights.sum(-1, keepdim=True)
    return (weights / torch.where(total > 0, total, 1.0)) @ value


def excess(head: Head, state: State, tokens: Tokens) -> float:
    """Return how far the largest score that a reader may not read is above the largest that it may; 0 at least."""
    allowed = head.mask.matrix(tokens)
    if head.kind == "linear" or not head.scores:
        return 0.0
    scores = torch.stack([scale * state[left] @ state[right].mT for left, right, scale in head.scores]).sum(0)
    over = torch.where(allowed, -torch.inf, scores).amax(-1) - torch.where(allowed, scores, -torch.inf).amax(-1)
    return max(0.0, float(over.nan_to_num(0.0, posinf=0.0).max()))


def _largest(scores: Tensor, allowed: Tensor) -> Tensor:
    masked = torch.where(allowed, scores, -torch.inf)
    largest = masked.max(-1, keepdim=True).values
    return torch.where(torch.isfinite(largest), largest, 0.0)


def _linear(head: Head, value: Tensor, state: State, allowed: Tensor, program: Program) -> Tensor:
    """Masked product; channels over outputs multiply output by output, all others sum over their columns."""
    result: Tensor | float = 0.0
    mask = allowed.to(value.dtype)
    for left, right, scale in head.scores:
        a, b = state[left], state[right]
        if program.channels[left].size == "features":
            result = result + scale * ((a @ b.mT) * mask) @ value
        else:
            result = result + scale * a * (mask @ (b * value))
    assert isinstance(result, Tensor)
    return result


def _gate(instruction: Gate, state: State) -> State:
    after = {**state, **{name: torch.zeros_like(state[name]) for name in instruction.clear}}
    for target, terms in instruction.assignments:
        total = torch.zeros_like(state[target])
        for term in terms:
            if term.rectified:
                inside = sum((part.coefficient * state[part.factors[0]] for part in term.rectified), 0 * total)
                total = total + term.coefficient * inside.clamp_min(0)
                continue
            product = term.coefficient * state[term.factors[0]]
            if term.divisor is not None:
                product = product * reciprocal(state[term.divisor])
            elif len(term.factors) == 2:
                product = product * state[term.factors[1]]
            total = total + (product.sum(-1, keepdim=True) if total.shape[-1] == 1 else product)
        after[target] = total
    return after


def _apply(instruction: Apply, state: State, tokens: Tokens) -> State:
    """Apply a function; the aggregator, which has no other token to compare itself with, gets no sigmoid or exp."""
    after = {**state, **{name: torch.zeros_like(state[name]) for name in instruction.clear}}
    b, (low, _) = state[instruction.source], instruction.span
    if instruction.function in ("sqrt", "rsqrt"):
        after[instruction.target] = (
            b.clamp_min(0).sqrt() if instruction.function == "sqrt" else b.clamp_min(low).rsqrt()
        )
        return after
    value = torch.sigmoid(b) if instruction.function == "sigmoid" else torch.exp(b)
    value[..., tokens.rows(AGGREGATOR), :] = 0.0
    after[instruction.target] = value
    return after
