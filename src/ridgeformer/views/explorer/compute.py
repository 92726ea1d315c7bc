"""From a state to numbers: calls of the library, whose results equal states share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from itertools import groupby
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.algorithms import ALGORITHMS as VALUES
from ridgeformer.algorithms import Accelerated, Algorithm, resolve
from ridgeformer.compiler import Budget, Certificate, CompiledTransformer, certify
from ridgeformer.compiler.certificate.certification import promise_of
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.layout import lives
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.estimators import NadarayaWatsonRegressor
from ridgeformer.influence import influence
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, Kernel
from ridgeformer.language.program import Attend, Gate, Record
from ridgeformer.language.roles import SUPPORT, Tokens
from ridgeformer.regime.spectra import Spectra, examine_spectra
from ridgeformer.views.explorer.data import Regression, load_regression
from ridgeformer.views.explorer.state import State

__all__ = [
    "QUERIES",
    "AttentionPattern",
    "ModelRun",
    "PointInfluence",
    "StreamView",
    "Walk",
    "certify_run",
    "compiled",
    "exact_problem",
    "leave_one_out",
    "look",
    "pattern",
    "run",
    "spectrum",
    "walk",
    "width_range",
]

Array = NDArray[np.float64]

Result = TypeVar("Result")

QUERIES = 5
"""Queries shown in the stream: supports never read them, so their number changes the picture only."""


def shared(*unused: str, most: int = 16) -> Callable[[Callable[[State], Result]], Callable[[State], Result]]:
    """Return a decorator: states of one problem, whatever their `unused` settings, share the last results."""
    fixed = {name: getattr(State, name) for name in unused}

    def decorate(function: Callable[[State], Result]) -> Callable[[State], Result]:
        cached = lru_cache(maxsize=most)(function)
        return wraps(function)(lambda state: cached(replace(state.problem, **fixed)))

    return decorate


@dataclass(frozen=True, eq=False)
class ModelRun:
    """Predictions of the transformer, of exact kernel ridge regression and of one softmax head.

    All are for the queries of the regression, with the mean of the targets added.

    Attributes:
        task: The regression.
        predicted: The compiled transformer's.
        exact: Exact kernel ridge regression with all features, by a direct solve.
        limit: The same for the features the stream carries: `exact` unless the width is too small for them.
        average: Nadaraya-Watson's, one softmax head at this temperature.
        steps: Predictions after every step, (steps, queries).
        errors, bound: Relative error of the coefficients after every step and what theory allows, in the norm in which
            the method contracts; empty for an algorithm without steps.
        promise: The bound in words, and its condition.
        holds: Whether that condition is met.
        kappa: Condition number of the system.
        budget: Size of the transformer.
        features: Features before and after the sketch.
    """

    task: Regression
    predicted: Array
    exact: Array
    limit: Array
    average: Array
    steps: Array
    errors: Array
    bound: Array
    promise: str
    holds: bool
    kappa: float
    budget: Budget
    features: tuple[int, int]

    @property
    def scale(self) -> float:
        """Root mean square of the exact predictions about the mean."""
        return float(np.sqrt(np.square(self.exact - self.task.mean).mean())) or 1.0

    def distance(self, other: Array) -> float:
        """Return the largest distance of predictions from the exact ones."""
        return float(np.abs(other - self.exact).max())


@dataclass(frozen=True, eq=False)
class PointInfluence:
    """Exact changes of the predictions when one training point is left out, from one factorisation.

    Attributes:
        task: The regression.
        change: f(x) - f without point i, (points, queries).
        exact: f(x), the mean added.
        leverage: Fraction of its own target that the fit copies at each point.
    """

    task: Regression
    change: Array
    exact: Array
    leverage: Array

    def without(self, point: int) -> Array:
        """Return the predictions of the fit without a training point."""
        return np.asarray(self.exact - self.change[point])


def exact_problem(state: State, task: Regression) -> tuple[Kernel, Tensor, Tensor]:
    """Return kernel, rows and queries of the ridge regression that a state's transformer is to solve.

    The imitation of linear attention centres its features over the supports, and its queries by the same mean.
    """
    if state.attention == "imitation":
        mean = task.X.mean(0)
        return DotProduct(), task.X - mean, task.Xq - mean
    return _kernel(state.kernel, state.temperature), task.X, task.Xq


def _kernel(name: str, temperature: float) -> Kernel:
    if name == "dot_product":
        return DotProduct()
    return Gaussian(temperature) if name == "gaussian" else Exponential(temperature)


def _algorithm(name: str, steps: int, spectrum: tuple[float, float]) -> Algorithm:
    """Return an algorithm by name, with bounds on the spectrum where it needs them."""
    if name == "nadaraya_watson":
        return resolve(name)
    if name == "pcg":
        return resolve("cg", steps=steps, preconditioner="jacobi")
    return resolve(name, steps=steps, **({"spectrum": spectrum} if issubclass(VALUES[name], Accelerated) else {}))


@shared()
def compiled(state: State) -> CompiledTransformer:
    """Return the transformer of a state.

    Some algorithms need bounds on the spectrum and "pca" needs directions: both are taken from the training rows, as
    one would in practice. Nothing else of the data is in the weights.
    """
    task = load_regression(state)
    options: dict[str, Any] = {}
    if state.width is not None:
        options = {"width": state.width, "sketch": state.sketch, "reference": task.X}
    kernel, rows, _ = exact_problem(state, task)
    largest = float(kernel(rows, rows).abs().sum(1).max())
    algorithm = _algorithm(state.algorithm, state.steps, (state.ridge, state.ridge + largest))
    return compile(kernel, algorithm, attention=state.attention, features=task.X.shape[1], ridge=state.ridge, **options)


@shared()
def run(state: State) -> ModelRun:
    """Compile, run and compare with the theoretical bound.

    Raises:
        InputError: what the library refuses, in its own words.
    """
    task, model = load_regression(state), compiled(state)
    (evidence,) = gather(model, task.X, task.y[:, None], task.Xq)
    head = NadarayaWatsonRegressor(state.temperature)
    if state.kernel == "gaussian":
        average = (model.spec.attention.weights(task.Xq, task.X) @ task.y).numpy()
    else:
        average = head.fit(task.X.numpy(), task.y.numpy()).predict(task.Xq.numpy())
    promise = promise_of(evidence) if "alpha" in evidence.values else None

    def shown(values: Tensor) -> Array:
        return np.asarray(values[..., 0].numpy() + task.mean)

    return ModelRun(
        task=task,
        predicted=shown(evidence.predictions),
        exact=shown(evidence.true.f),
        limit=shown(evidence.problem.f),
        average=np.asarray(average + task.mean),
        steps=shown(evidence.f),
        errors=promise.measured[:, 0].numpy() if promise else np.zeros(0),
        bound=promise.bound[:, 0].numpy() if promise else np.zeros(0),
        promise=promise.what if promise else "one softmax head averages and takes no steps",
        holds=promise is None or promise.met,
        kappa=evidence.problem.kappa,
        budget=model.budget,
        features=(model.spec.projected, model.spec.carried),
    )


@shared("steps", "width", "sketch")
def spectrum(state: State) -> Spectra:
    """Return the eigenvalues of the kernel matrix and what they say about dimension and width."""
    kernel, rows, _ = exact_problem(state, load_regression(state))
    return examine_spectra(rows, torch.linalg.eigvalsh(kernel(rows)).flip(0), state.ridge)


@shared("steps", "width", "sketch")
def leave_one_out(state: State) -> PointInfluence:
    """Return the leave-one-out influence of every training point on every query, with all features."""
    task = load_regression(state)
    kernel, rows, queries = exact_problem(state, task)
    found = influence(kernel, rows, task.y, queries, state.ridge)
    exact = found.predictions[:, 0].numpy() + task.mean
    return PointInfluence(task, found.leave_one_out.numpy(), exact, found.leverage.numpy())


def width_range(state: State) -> tuple[int, int]:
    """Return the smallest width the program fits in, and the one that carries every feature."""
    return _width_range(state.kernel, state.attention, state.algorithm, load_regression(state).X.shape[1])


@lru_cache(maxsize=32)
def _width_range(kernel: str, attention: str, algorithm: str, features: int) -> tuple[int, int]:
    values = _kernel(kernel, 1.0), _algorithm(algorithm, 1, (1.0, 2.0))
    model = compile(*values, attention=attention, features=features, ridge=1.0)
    blocks = sum(channel.size == "features" for channel in model.program.channels.values())
    return model.layout.overhead + blocks, model.layout.used


def certify_run(state: State) -> Certificate:
    """Return the full certificate of a run: up to a second, where the panels take milliseconds."""
    task = load_regression(state)
    return certify(compiled(state), task.X, task.y, task.Xq)


# -- the residual stream ---------------------------------------------------------------------------


class Walk:
    """A forward pass, as far as it is needed: `after(0)` is the embedding, `after(i)` the stream after sublayer i."""

    def __init__(self, model: CompiledTransformer, X: Tensor, y: Tensor, queries: Tensor) -> None:
        self.model = model
        self.tokens = model.tokens(len(X), len(queries))
        passed = [(section, i, sublayer) for section, i, sublayer in model.schedule if not isinstance(i, Record)]
        self.sections = tuple(section for section, _, _ in passed)
        self.instructions = tuple(instruction for _, instruction, _ in passed)
        self._sublayers = tuple(sublayer for _, _, sublayer in passed)
        self._streams = [model.stream(X, y, queries)]
        self._lock = Lock()

    def after(self, number: int) -> Tensor:
        """Return the stream after this number of sublayers."""
        with self._lock, torch.no_grad():
            while len(self._streams) <= number:
                sublayer = self._sublayers[len(self._streams) - 1]
                assert sublayer is not None
                self._streams.append(sublayer(self._streams[-1], self.tokens))
        return self._streams[number]

    def attention(self, number: int) -> AttentionSublayer | None:
        """Return sublayer `number`, counted from 1, if it is attention."""
        sublayer = self._sublayers[number - 1] if number else None
        return sublayer if isinstance(sublayer, AttentionSublayer) else None


@dataclass(frozen=True, eq=False)
class StreamView:
    """The stream after one sublayer.

    Attributes:
        values: (tokens, columns).
        tokens: A name for each token.
        columns: What each column holds now; "" where nothing lives.
        title: Where one is: section and sublayer.
        formula: What the sublayer does.
        kind: "embedding", "attention" or "gated".
        written: Channels it wrote.
        number, last: Which sublayer of how many.
    """

    values: Array
    tokens: tuple[str, ...]
    columns: tuple[str, ...]
    title: str
    formula: str
    kind: str
    written: frozenset[str]
    number: int
    last: int

    @property
    def channels(self) -> list[tuple[str, list[int]]]:
        """Channels alive now, in the order of their columns."""
        grouped = groupby(range(len(self.columns)), key=lambda column: self.columns[column])
        return [(name, list(columns)) for name, columns in grouped if name]


@dataclass(frozen=True, eq=False)
class AttentionPattern:
    """The attention pattern of a head: `weights[i, j]` is the weight with which token i reads token j."""

    weights: Array
    tokens: tuple[str, ...]
    head: str
    softmax: bool
    supports: int


@shared(most=4)
def walk(state: State) -> Walk:
    """Return the run of a state, to be looked at sublayer by sublayer."""
    run(state)  # raises what the library refuses
    task = load_regression(state)
    chosen = np.unique(np.linspace(0, len(task.Xq) - 1, QUERIES).round().astype(int))
    return Walk(compiled(state), task.X, task.y[:, None], task.Xq[torch.from_numpy(chosen)])


def look(state: State) -> StreamView:
    """Return the stream after the state's sublayer; a number beyond the last is the last."""
    found = walk(state)
    last = len(found.instructions)
    number = min(state.sublayer, last)
    instruction = found.instructions[number - 1] if number else None
    kind = "attention" if isinstance(instruction, Attend) else "gated"
    return StreamView(
        values=found.after(number).numpy(),
        tokens=_token_names(found.tokens),
        columns=_holders(found.model, instruction),
        title=f"{found.sections[number - 1]}: {instruction.name}" if instruction else "the embedding",
        formula=instruction.caption if instruction else "features, targets and constants, as the tokens bring them",
        kind="embedding" if instruction is None else kind,
        written=instruction.writes if instruction else frozenset(),
        number=number,
        last=last,
    )


def pattern(state: State) -> AttentionPattern | None:
    """Return the attention pattern of the state's sublayer and head, None if it is not an attention sublayer."""
    found = walk(state)
    number = min(state.sublayer, len(found.instructions))
    sublayer = found.attention(number)
    if sublayer is None:
        return None
    head = min(state.head, len(sublayer.heads) - 1)
    with torch.no_grad():
        weights = sublayer.pattern(head, found.after(number - 1), found.tokens)
    return AttentionPattern(
        weights=weights.numpy(),
        tokens=_token_names(found.tokens),
        head=sublayer.heads[head],
        softmax=sublayer.kinds[head] == "softmax",
        supports=found.tokens.counts[SUPPORT],
    )


def _token_names(tokens: Tokens) -> tuple[str, ...]:
    names = []
    for role, count in tokens.counts.items():
        names += [f"{role} {i}" for i in range(count)] if count > 1 else [str(role)]
    return tuple(names)


def _holders(model: CompiledTransformer, instruction: Attend | Gate | None) -> tuple[str, ...]:
    """Return what every column holds after an instruction: channels with disjoint lives share columns."""
    timeline = [i for _, i in model.program.timeline() if isinstance(i, Attend | Gate)]
    position = next((p for p, i in enumerate(timeline) if i is instruction), None)
    cleared = set(instruction.clear) - instruction.writes if instruction else set()
    holders = [""] * model.layout.width
    for name, life in lives(model.program).items():
        alive = life is None or (position is not None and position in life.held)
        if alive and name not in cleared:
            for column in model.layout.columns[name]:
                holders[column] = name
    return tuple(holders)
