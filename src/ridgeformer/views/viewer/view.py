"""From a compiled transformer and a task to everything a page shows: stream, weights, words, certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler import Certificate, CompiledTransformer, certify
from ridgeformer.compiler.certificate.problem import Problem, carried_features, pose
from ridgeformer.compiler.layout import lives
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.core.checks import as_tensor, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.language.expressions import SMALLEST_DIVISOR
from ridgeformer.language.program import Channel, Record
from ridgeformer.language.roles import QUERY, SUPPORT, Tokens
from ridgeformer.views.viewer.formulas import formulas
from ridgeformer.views.viewer.records import Array, Group, ShownChannel, ShownSublayer, ShownToken, TraceView
from ridgeformer.views.viewer.weights import sparse_sublayer
from ridgeformer.views.viewer.words import sentence, title

__all__ = ["few_rows", "trace_view"]

MOST_SUPPORTS = 64
"""More rows than this nobody can watch."""


def trace_view(
    model: CompiledTransformer,
    X: Any,
    y: Any,
    Xq: Any,
    *,
    at: Any = None,
    name: str = "",
    labels: Sequence[str] | None = None,
    shown: Any = 5,
    certificate: Certificate | None = None,
) -> TraceView:
    """Run a compiled transformer on one task and keep everything a page shows of it.

    Args:
        model: Of any attention.
        X: Supports, (k, features), at most 64: `few_rows` takes a sample.
        y: Targets, (k,) or (k, outputs).
        Xq: Queries, (q, features).
        at: Where supports and queries stand on a line, ((k,), (q,)): the prediction is then drawn as a curve. With
            one feature it is that feature.
        name: What the data are called.
        labels: Names of the supports.
        shown: Queries with a row in the grid; the others are part of the curve only.
        certificate: Of the same model and task; made here by default.

    Raises:
        InputError: more supports than one can watch, several tasks at once, labels or positions that do not fit,
            or anything the model itself refuses.

    Example:
        >>> from ridgeformer.algorithms import ConjugateGradients
        >>> from ridgeformer.compiler.compile import compile
        >>> from ridgeformer.kernels import Exponential
        >>> X = torch.eye(3, dtype=torch.float64)
        >>> model = compile(Exponential(1.0), ConjugateGradients(steps=2), features=3, ridge=0.1)
        >>> view = trace_view(model, X, torch.arange(3.0), X)
        >>> view.sublayers[4].title, view.stream.shape[0] == len(view.sublayers) + 1
        ('CG step 1 of 2: undo normalisation', True)
    """
    X, y, Xq = model._check(X, y, Xq).given
    if X.ndim != 2:
        raise ShapeError(f"X has shape {tuple(X.shape)}; a viewer shows one task: give one of them.")
    if len(X) > MOST_SUPPORTS:
        raise InputError(f"{len(X)} supports are too many to watch; at most {MOST_SUPPORTS}: take a sample (few_rows).")
    tokens = model.tokens(len(X), len(Xq))
    problem = pose(model.spec, carried_features(model), *(given.detach().double() for given in (X, y, Xq)))
    certificate = certify(model, X, y, Xq) if certificate is None else certificate
    stream, predictions = _run(model, X, y, Xq)
    modules = list(dict.fromkeys(sublayer for _, _, sublayer in model.schedule if sublayer is not None))
    return TraceView(
        name=name,
        program=model.program.name,
        subject=certificate.subject,
        tokens=_tokens(tokens, labels, whole(shown, "shown", 1)),
        channels=_channels(model),
        born=tuple(name for name, channel in model.program.channels.items() if channel.source is not None),
        sublayers=_sublayers(model, modules),
        modules=tuple(sparse_sublayer(module) for module in modules),
        stream=stream,
        reading=_reading(model),
        targets=_array(y),
        predictions=predictions,
        exact=_array(problem.f),
        smoother=_array(torch.linalg.solve(problem.A, problem.cross.T).T),
        averager=_averager(model, problem),
        bound=_bound(certificate),
        smallest=SMALLEST_DIVISOR[model.spec.torch_dtype],
        verdict=certificate.verdict,
        holds=certificate.holds,
        at=_positions(at, X, Xq),
    )


def few_rows(
    X: Tensor, y: Tensor, Xq: Tensor, *, supports: Any = 16, queries: Any = 5, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a sample of the supports, with their targets, and the first queries: few enough to watch.

    Example:
        >>> X = torch.arange(100.0)[:, None]
        >>> [len(rows) for rows in few_rows(X, X[:, 0], X)]
        [16, 16, 5]
    """
    kept = torch.randperm(len(X), generator=torch_generator(seed, "rows to watch"))[: whole(supports, "supports", 1)]
    kept = kept.sort().values
    return X[kept], y[kept], Xq[: whole(queries, "queries", 1)]


def _run(model: CompiledTransformer, X: Tensor, y: Tensor, Xq: Tensor) -> tuple[Array, Array]:
    """Return the stream after the embedding and every sublayer, and the predictions after every step."""
    states = [model.stream(X, y, Xq)]

    def keep(place: str, sublayer: AttentionSublayer | GatedMLP, before: Tensor, after: Tensor) -> None:
        states.append(after)

    with torch.no_grad():
        trace = model.run_with_hook(keep, X, y, Xq)
    return _array(torch.stack(states)), _array(trace.f)


def _tokens(tokens: Tokens, labels: Sequence[str] | None, shown: int) -> tuple[ShownToken, ...]:
    supports = tokens.counts[SUPPORT]
    if labels is not None and len(labels) != supports:
        raise InputError(f"there are {len(labels)} labels for {supports} supports: give one for each.")
    queries = tokens.counts[QUERY]
    spread = {round(i * (queries - 1) / max(shown - 1, 1)) for i in range(min(shown, queries))}
    found = []
    for role, count in tokens.counts.items():
        for number in range(count):
            called = role.value if role not in (SUPPORT, QUERY) and count == 1 else f"{role.value} {number + 1}"
            label = str(labels[number]) if labels is not None and role == SUPPORT else called
            found.append(ShownToken(role.value, label, role != QUERY or number in spread))
    return tuple(found)


def _channels(model: CompiledTransformer) -> tuple[ShownChannel, ...]:
    alive = lives(model.program)
    found = []
    for name, channel in model.program.channels.items():
        given = tuple(role.value for role in channel.on) if channel.source == "targets" else ()
        group = _group(channel, momentary=alive[name] is not None)
        found.append(ShownChannel(name, channel.meaning, group, channel.size, model.layout.columns[name], given))
    return tuple(found)


def _group(channel: Channel, *, momentary: bool) -> Group:
    if channel.source == "features":
        return "features"
    if isinstance(channel.source, float):
        return "constants"
    return "scratch" if momentary else "state"


def _sublayers(model: CompiledTransformer, modules: list[AttentionSublayer | GatedMLP]) -> tuple[ShownSublayer, ...]:
    """Return every sublayer in order; a channel lives from its first writing to its clearing."""
    program = model.program
    alive = {name for name, channel in program.channels.items() if channel.source is not None}
    found: list[ShownSublayer] = []
    answered = _answered(model)
    for section, instruction, sublayer in model.schedule:
        if isinstance(instruction, Record):
            continue
        assert sublayer is not None
        fresh = frozenset(instruction.writes - alive | set(instruction.clear))
        alive = (alive - set(instruction.clear)) | instruction.writes
        found.append(
            ShownSublayer(
                place=f"{section}.{instruction.name}",
                kind="attention" if isinstance(sublayer, AttentionSublayer) else "gated",
                title=title(model.spec, section, instruction),
                sentence=sentence(program, instruction),
                formulas=tuple(formulas(program, instruction, fresh)),
                writes=tuple(name for name in program.channels if name in instruction.writes),
                module=modules.index(sublayer),
                alive=tuple(name for name in program.channels if name in alive),
                answered=answered[len(found)],
            )
        )
    return tuple(found)


def _answered(model: CompiledTransformer) -> list[int]:
    """Return, for every sublayer, the last step whose prediction stands in the stream once it has run."""
    found: list[int] = []
    step = 0
    for section, instruction, _ in model.schedule:
        if not isinstance(instruction, Record):
            found.append(step)
        elif instruction.name == "f":
            number = model.spec.steps if section == "readout" else int(section.split()[1])
            step = found[-1] = number - instruction.lag
    return found


def _reading(model: CompiledTransformer) -> tuple[tuple[int, ...], float]:
    record = next(i for _, i in model.program.timeline() if isinstance(i, Record) and i.name == "f")
    return model.layout.columns[record.channel], record.scale


def _averager(model: CompiledTransformer, problem: Problem) -> Array:
    return _array(model.spec.attention.weights(problem.queries, problem.system.X))


def _bound(certificate: Certificate) -> Array | None:
    curve = certificate.curves.get("prediction per step")
    return None if curve is None else np.asarray(curve.bound[0], dtype=np.float64)


def _positions(at: Any, X: Tensor, Xq: Tensor) -> tuple[Array, Array] | None:
    if at is None:
        return (_array(X[:, 0]), _array(Xq[:, 0])) if X.shape[1] == 1 else None
    found = tuple(_array(as_tensor(places, "at")) for places in at)
    if len(found) != 2 or found[0].shape != (len(X),) or found[1].shape != (len(Xq),):
        shapes = ", ".join(str(places.shape) for places in found)
        raise ShapeError(f"at has shapes {shapes}; ({len(X)},) for the supports and ({len(Xq)},) for the queries.")
    return found[0], found[1]


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().cpu(), dtype=np.float64)
