"""From a compiled transformer and a task to everything the viewer shows: stream, weights, sentences, certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import pi
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.compiler import Certificate, CompiledTransformer, certify
from ridgeformer.compiler.certificate.problem import carried_features, pose
from ridgeformer.compiler.compile import assemble
from ridgeformer.compiler.layout import lives
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.core.checks import ArrayLike, as_tensor, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.export import Export
from ridgeformer.language.expressions import SMALLEST_DIVISOR
from ridgeformer.language.program import Attend, Gate, Record
from ridgeformer.language.roles import QUERY, SUPPORT, Tokens
from ridgeformer.views.viewer.descriptions import formulas, sentence, title

__all__ = ["CurveTask", "TraceView", "curve_task", "few_rows", "sparse_entries", "sparse_sublayer", "trace_view"]

Array = NDArray[np.float64]
Group = Literal["features", "state", "scratch", "constants"]

MOST_SUPPORTS = 64  # most rows that can be watched
ARC = 0.8 * pi  # the line from -1 to 1 becomes this angle of a circle to either side


@dataclass(frozen=True)
class ShownToken:
    """A token: its role, its label, and whether it has a row in the grid."""

    role: str
    label: str
    visible: bool


@dataclass(frozen=True)
class ShownChannel:
    """A channel: its meaning, its group, its columns, and the roles whose targets it is given."""

    name: str
    meaning: str
    group: Group
    size: str
    columns: tuple[int, ...]
    targets_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownSublayer:
    """A sublayer of the run.

    Attributes:
        place: Its name in caches, such as "step 3.kernel product".
        kind: "attention" or "gated".
        title: Which step of the algorithm it is part of.
        sentence, formulas: What it does, in words and in LaTeX.
        module: Which of the view's modules holds its weights; tied steps share one.
        alive: Channels that hold something after it.
        answered: The last step whose prediction can be read after it; 0 before the first.
    """

    place: str
    kind: str
    title: str
    sentence: str
    formulas: tuple[str, ...]
    writes: tuple[str, ...]
    module: int
    alive: tuple[str, ...]
    answered: int


@dataclass(frozen=True, eq=False)
class TraceView:
    """One forward pass, ready to be shown.

    Attributes:
        name, subject: Name of the data, and the run in one line.
        born: Channels that the embedding fills.
        modules: Weights of the sublayers, entries that are not zero.
        stream: After the embedding and after every sublayer, (sublayers + 1, tokens, width), float64.
        reading: Columns of the predictions, and the factor they are multiplied by.
        targets: (supports, outputs).
        predictions: After every step, (steps, queries, outputs).
        exact: The direct solve of the problem the stream carries, (queries, outputs); for a program of one's own, where
            its interpreter ends.
        smoother: exact = smoother @ targets, (queries, supports); None for a program of one's own.
        averager: The weights of one softmax head (Nadaraya-Watson), (queries, supports); None likewise.
        bound: The certificate's bound on abs(prediction - exact) after every step, or None.
        smallest: Divisors below this count as zero.
        verdict: The certificate's verdict, with the proved distance from exact ridge regression.
        holds: Whether it is proved within the tolerance and every other check holds; red if not.
        at: Positions of supports and queries on a line, if they have them.
    """

    name: str
    program: str
    subject: str
    tokens: tuple[ShownToken, ...]
    channels: tuple[ShownChannel, ...]
    born: tuple[str, ...]
    sublayers: tuple[ShownSublayer, ...]
    modules: tuple[dict[str, Any], ...]
    stream: Array
    reading: tuple[tuple[int, ...], float]
    targets: Array
    predictions: Array
    exact: Array
    smoother: Array | None
    averager: Array | None
    bound: Array | None
    smallest: float
    verdict: str
    holds: bool
    at: tuple[Array, Array] | None

    @property
    def errors(self) -> Array:
        """Largest distance of a prediction from the exact one after every step, (steps, outputs)."""
        return np.abs(self.predictions - self.exact).max(axis=1)

    @property
    def steps(self) -> int:
        """Steps of the algorithm."""
        return len(self.predictions)


def trace_view(
    model: CompiledTransformer | Export,
    X: ArrayLike,
    y: ArrayLike,
    Xq: ArrayLike,
    *,
    at: Sequence[ArrayLike] | None = None,
    name: str = "",
    labels: Sequence[str] | None = None,
    shown: int = 5,
    certificate: Certificate | None = None,
) -> TraceView:
    """Run a compiled or an exported transformer on one task and keep everything a page shows of it.

    Of an export, what stands after a layer is read from the hidden states of its stock class, and what stands within a
    layer, which these do not show, comes from the compiled weights; predictions and certificate are the class's own.

    Args:
        model: A compiled model, or one in a stock class.
        X: Supports, (k, features), at most 64: `few_rows` takes a sample.
        y: Targets, (k,) or (k, outputs).
        Xq: Queries, (q, features).
        at: Positions of supports and queries on a line, ((k,), (q,)), to draw the prediction as a curve; a single
            feature is used as it is.
        name: Name of the data.
        labels: Names of the supports.
        shown: Queries with a row in the grid; the others are part of the curve only.
        certificate: Of the same model and task; made here by default.

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
    exported = model if isinstance(model, Export) else None
    if isinstance(model, Export):
        model = assemble(model.io.spec, model.io.carried, model.io.unsketched)
    X, y, Xq = model._check(X, y, Xq).given
    if X.ndim != 2:
        raise ShapeError(f"X has shape {tuple(X.shape)}; a viewer shows one task: give one of them.")
    if len(X) > MOST_SUPPORTS:
        raise InputError(f"{len(X)} supports are too many to watch; at most {MOST_SUPPORTS}: take a sample (few_rows).")
    tokens = model.tokens(len(X), len(Xq))
    exact, smoother, averager = _compared(model, X, y, Xq)
    if certificate is None:
        certificate = certify(model, X, y, Xq) if exported is None else exported.certify(X, y, Xq)
    states = [model.stream(X, y, Xq)]
    with torch.no_grad():
        trace = model.run_with_hook(lambda place, sublayer, before, after: states.append(after), X, y, Xq)
    predictions, sublayers, subject = trace.f, _sublayers(model, modules := _modules(model)), certificate.subject
    if exported is not None:
        predictions, states = _read_class(exported, model, (X, y, Xq), states)
        sublayers = tuple(
            replace(one, title=f"{one.title} (layer {exported.io.layers[one.place][0]})") for one in sublayers
        )
        subject = f"{type(exported.model).__name__}, read from its hidden states after every layer: {subject}"
    bound = certificate.curves.get("prediction per step")
    record = next(i for _, i in model.program.timeline() if isinstance(i, Record) and i.name == "f")
    return TraceView(
        name=name,
        program=model.program.name,
        subject=subject,
        tokens=_tokens(tokens, labels, whole(shown, "shown", 1)),
        channels=_channels(model),
        born=tuple(name for name, channel in model.program.channels.items() if channel.source is not None),
        sublayers=sublayers,
        modules=tuple(sparse_sublayer(module) for module in modules),
        stream=_array(torch.stack(states)),
        reading=(model.layout.columns[record.channel], record.scale),
        targets=_array(y),
        predictions=_array(predictions),
        exact=exact,
        smoother=smoother,
        averager=averager,
        bound=None if bound is None else np.asarray(bound.bound[0], dtype=np.float64),
        smallest=SMALLEST_DIVISOR[model.spec.torch_dtype],
        verdict=certificate.verdict,
        holds=certificate.holds,
        at=_positions(at, X, Xq),
    )


def _modules(model: CompiledTransformer) -> list[AttentionSublayer | GatedMLP]:
    """Return the sublayers with weights of their own; tied steps share one."""
    return list(dict.fromkeys(sublayer for _, _, sublayer in model.schedule if sublayer is not None))


def _read_class(
    exported: Export, model: CompiledTransformer, task: tuple[Tensor, Tensor, Tensor], states: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Return predictions after every step and the stream, both from the hidden states of a stock class.

    Hidden state s is the stream after the sublayers of the first s layers; `states` fills what lies within a layer.
    """
    io, hidden = exported.io, exported.hidden_states(*task)
    layers = [io.layers[f"{section}.{instruction.name}"][0] for section, instruction, _ in model.sublayers]
    found = [state.clone() for state in states]
    for s, state in enumerate(hidden):
        passed = sum(layer < s for layer in layers)
        for name in model.program.channels:
            if any(s in life for life in io.directions[name].life):
                found[passed][:, list(model.layout.columns[name])] = io.channel(name, state)[0].to(found[passed].dtype)
    return io.trace(hidden).values["f"][:, 0], found


def _compared(model: CompiledTransformer, X: Tensor, y: Tensor, Xq: Tensor) -> tuple[Array, Array | None, Array | None]:
    """Return what predictions are compared with: the exact ones, and how those and an average follow from targets."""
    if model.spec.written:
        return _array(model.interpret(X, y, Xq).f[-1]), None, None
    problem = pose(model.spec, carried_features(model), *(given.detach().double() for given in (X, y, Xq)))
    smoother = torch.linalg.solve(problem.A, problem.cross.T).T
    weights = model.spec.attention.weights(problem.queries, problem.system.X)
    return _array(problem.f), _array(smoother), _array(weights)


def few_rows(
    X: Tensor, y: Tensor, Xq: Tensor, *, supports: int = 16, queries: int = 5, seed: int = 0
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
        group: Group = "state" if alive[name] is None else "scratch"
        if channel.source == "features" or isinstance(channel.source, float):
            group = "features" if channel.source == "features" else "constants"
        found.append(ShownChannel(name, channel.meaning, group, channel.size, model.layout.columns[name], given))
    return tuple(found)


def _sublayers(model: CompiledTransformer, modules: list[AttentionSublayer | GatedMLP]) -> tuple[ShownSublayer, ...]:
    """Return every sublayer in order; a channel lives from its first writing to its clearing."""
    program = model.program
    alive = {name for name, channel in program.channels.items() if channel.source is not None}
    found: list[ShownSublayer] = []
    answered = 0
    for section, instruction, sublayer in model.schedule:
        if isinstance(instruction, Record):
            if instruction.name == "f":
                step = model.spec.steps if section == "readout" else int(section.split()[1])
                answered = step - instruction.lag
                found[-1] = replace(found[-1], answered=answered)
            continue
        assert sublayer is not None
        assert isinstance(instruction, Attend | Gate)
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
                answered=answered,
            )
        )
    return tuple(found)


def _positions(at: Sequence[ArrayLike] | None, X: Tensor, Xq: Tensor) -> tuple[Array, Array] | None:
    if at is None:
        return (_array(X[:, 0]), _array(Xq[:, 0])) if X.shape[1] == 1 else None
    found = tuple(_array(as_tensor(places, "at")) for places in at)
    if len(found) != 2 or found[0].shape != (len(X),) or found[1].shape != (len(Xq),):
        shapes = ", ".join(str(places.shape) for places in found)
        raise ShapeError(f"at has shapes {shapes}; ({len(X)},) for the supports and ({len(Xq)},) for the queries.")
    return found[0], found[1]


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().cpu(), dtype=np.float64)


def sparse_sublayer(sublayer: AttentionSublayer | GatedMLP) -> dict[str, Any]:
    """Return a sublayer as plain values, every weight read from its matrices.

    A head is its score pairs [reader column, source column, weight], from W_Q W_K', and its moves [source column,
    target column, weight], from W_V W_O. A unit is its two sides and its outputs, each [column, weight].
    """
    if isinstance(sublayer, GatedMLP):
        sides = {"a": sublayer.W_a.T, "b": sublayer.W_b.T, "d": sublayer.W_d}
        units = [
            {"gate": gate, **{side: sparse_entries(W[unit]) for side, W in sides.items()}}
            for unit, gate in enumerate(sublayer.gates)
        ]
        return {"units": units}
    heads = []
    for head, name in enumerate(sublayer.heads):
        W_Q, W_K, W_V, W_O = (W[head].double() for W in (sublayer.W_Q, sublayer.W_K, sublayer.W_V, sublayer.W_O))
        mask = [[rule.reader.value, rule.source.value, rule.relation] for rule in sublayer.masks[head].rules]
        weights = {"scores": sparse_entries(W_Q @ W_K.T), "moves": sparse_entries(W_V @ W_O)}
        heads.append({"name": name, "kind": sublayer.kinds[head], "mask": mask, **weights})
    return {"heads": heads}


def sparse_entries(weights: Tensor) -> list[list[float | int]]:
    """Return the entries that are not zero, each after its indices."""
    return [[*place, float(weights[tuple(place)])] for place in weights.nonzero().tolist()]


class CurveTask(NamedTuple):
    """A task of two features, and the positions of its rows on a line."""

    X: Tensor
    y: Tensor
    Xq: Tensor
    at: tuple[Tensor, Tensor]


def curve_task(supports: int = 14, queries: int = 41, seed: int = 0) -> CurveTask:
    """Return noisy points of a smooth curve, and queries along it.

    A position x is the row (cos, sin)(ARC x): rows have unit length, and exp(x'z / temperature) depends on the
    distance alone.

    Example:
        >>> task = curve_task(supports=10)
        >>> task.X.shape, task.Xq.shape
        (torch.Size([10, 2]), torch.Size([41, 2]))
    """
    generator = torch_generator(seed, "curve to watch")
    count = whole(supports, "supports", 2)
    jitter, noise = (torch.rand(2, count, generator=generator, dtype=torch.float64) - 0.5).unbind()
    places = torch.linspace(-0.95, 0.95, count, dtype=torch.float64) + jitter / count
    grid = torch.linspace(-1, 1, whole(queries, "queries", 1), dtype=torch.float64)
    y = torch.sin(3.5 * places) + 0.4 * torch.cos(8 * places) + 0.3 * noise
    X, Xq = (torch.stack([torch.cos(ARC * at), torch.sin(ARC * at)], dim=1) for at in (places, grid))
    return CurveTask(X, y, Xq, (places, grid))
