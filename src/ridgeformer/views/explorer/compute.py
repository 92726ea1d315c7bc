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

from ridgeformer.compiler import Budget, Certificate, CompiledTransformer, certify
from ridgeformer.compiler.certificate.certification import promise_of
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.layout import lives
from ridgeformer.compiler.specification import choose_attention
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.influence import influence
from ridgeformer.intervals import rows_needed
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, Kernel, LogitKernel
from ridgeformer.language.program import Attend, Record
from ridgeformer.language.roles import SUPPORT
from ridgeformer.regime.spectra import Spectra, examine_spectra
from ridgeformer.solving import solve
from ridgeformer.solving.uncertainty import fit_interval
from ridgeformer.studies.compiled_problem import compilable
from ridgeformer.views.explorer.data import Regression, load_regression
from ridgeformer.views.explorer.state import State

__all__ = [
    "BAND", "ModelRun", "SublayerView", "certify_run", "compiled", "leave_one_out", "look", "run", "spectrum", "walk",
]  # fmt: skip

Array = NDArray[np.float64]
Result = TypeVar("Result")

BAND = 0.9  # nominal coverage of the band around the curve
QUERIES = 5  # queries shown in the stream: supports never read them, so their number changes the picture only


def shared(*unused: str, most: int = 16) -> Callable[[Callable[[State], Result]], Callable[[State], Result]]:
    """Return a decorator: states of one problem, whatever their `unused` settings, share the last results."""
    fixed = {name: getattr(State, name) for name in unused}

    def decorate(function: Callable[[State], Result]) -> Callable[[State], Result]:
        cached = lru_cache(maxsize=most)(function)
        return wraps(function)(lambda state: cached(replace(state.problem, **fixed)))

    return decorate


@dataclass(frozen=True, eq=False)
class ModelRun:
    """Predictions for the queries of a regression, the mean of the targets added, and the convergence to them.

    Attributes:
        predicted, steps: The compiled transformer's, in the end and after every step, (steps, queries).
        exact: Exact kernel ridge regression with all features, by a direct solve.
        limit: The same for the features the stream carries: `exact` unless the width is too small for them.
        average: Nadaraya-Watson's, one softmax head at this temperature.
        errors, bound: Relative error of the coefficients after every step and what theory allows, in the norm in which
            the method contracts; empty for an algorithm without steps.
        promise, holds: The bound in words with its condition, and whether that condition is met.
        kappa: Condition number of the system.
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
class LeaveOneOut:
    """Exact predictions f(x), the mean added, and their changes when one training point is left out.

    `change` is f(x) - f without point i, (points, queries); `leverage` the fraction of its own target that the fit
    copies at each point; `band` the lower and upper ends of jackknife+ intervals, None where points are too few.
    """

    task: Regression
    change: Array
    exact: Array
    leverage: Array
    band: tuple[Array, Array] | None


def exact_problem(state: State, task: Regression) -> tuple[Kernel, Tensor, Tensor]:
    """Return kernel, rows and queries, centred where the attention centres them, of the regression to be solved."""
    kernel = _kernel(state.kernel, state.temperature)
    return kernel, *choose_attention(kernel, state.ridge, state.attention).centre(task.X, task.Xq)


def _kernel(name: str, temperature: float) -> Kernel:
    of_logits = {"exponential": Exponential, "gaussian": Gaussian}
    return of_logits[name](temperature) if name in of_logits else DotProduct()


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
    algorithm = compilable(state.algorithm, state.steps, (state.ridge, state.ridge + largest))
    return compile(kernel, algorithm, attention=state.attention, features=task.X.shape[1], ridge=state.ridge, **options)


@shared()
def run(state: State) -> ModelRun:
    """Compile, run and compare with the theoretical bound; what the library refuses is raised in its own words."""
    task, model = load_regression(state), compiled(state)
    (evidence,) = gather(model, task.X, task.y[:, None], task.Xq)
    kernel = _kernel(state.kernel, state.temperature)
    averaged = kernel if isinstance(kernel, LogitKernel) else Exponential(state.temperature)
    weights = choose_attention(averaged, state.ridge).weights(task.Xq, task.X)
    promise = promise_of(evidence) if "alpha" in evidence.values else None

    def shown(values: Tensor) -> Array:
        return np.asarray(values[..., 0].numpy() + task.mean)

    return ModelRun(
        task=task,
        predicted=shown(evidence.predictions),
        exact=shown(evidence.true.f),
        limit=shown(evidence.problem.f),
        average=shown(weights @ task.y[:, None]),
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
def leave_one_out(state: State) -> LeaveOneOut:
    """Return the leave-one-out influence of every training point on every query, with all features."""
    task = load_regression(state)
    kernel, rows, queries = exact_problem(state, task)
    fit = solve(kernel, rows, task.y, state.ridge, algorithm="direct")
    found, band = influence(fit, queries), None
    if len(rows) >= rows_needed(BAND):
        ends = fit_interval(fit, queries, BAND, centred=True)
        band = ends.low.numpy() + task.mean, ends.high.numpy() + task.mean
    exact = found.predictions[:, 0].numpy() + task.mean
    return LeaveOneOut(task, found.leave_one_out.numpy(), exact, found.leverage.numpy(), band)


def width_range(state: State) -> tuple[int, int]:
    """Return the smallest width the program fits in, and the one that carries every feature."""
    return _width_range(state.kernel, state.attention, state.algorithm, load_regression(state).X.shape[1])


@lru_cache(maxsize=32)
def _width_range(kernel: str, attention: str, algorithm: str, features: int) -> tuple[int, int]:
    values = _kernel(kernel, 1.0), compilable(algorithm, 1, (1.0, 2.0))
    model = compile(*values, attention=attention, features=features, ridge=1.0)
    blocks = sum(channel.size == "features" for channel in model.program.channels.values())
    return model.layout.overhead + blocks, model.layout.used


def certify_run(state: State) -> Certificate:
    """Return the full certificate of a run: up to a second, where the panels take milliseconds."""
    task = load_regression(state)
    return certify(compiled(state), task.X, task.y, task.Xq)


class Walk:
    """A forward pass, as far as it is needed: `after(0)` is the embedding, `after(i)` the stream after sublayer i."""

    def __init__(self, model: CompiledTransformer, X: Tensor, y: Tensor, queries: Tensor) -> None:
        self.model = model
        self.tokens = model.tokens(len(X), len(queries))
        self.passed = [
            (section, instruction, sublayer)
            for section, instruction, sublayer in model.schedule
            if sublayer is not None and not isinstance(instruction, Record)
        ]
        self._streams = [model.stream(X, y, queries)]
        self._lock = Lock()

    def after(self, number: int) -> Tensor:
        """Return the stream after this number of sublayers."""
        with self._lock, torch.no_grad():
            while len(self._streams) <= number:
                sublayer = self.passed[len(self._streams) - 1][2]
                self._streams.append(sublayer(self._streams[-1], self.tokens))
        return self._streams[number]


@dataclass(frozen=True, eq=False)
class SublayerView:
    """The stream after one sublayer, and the attention pattern of one of its heads.

    Attributes:
        values: The stream, (tokens, columns).
        columns: What each column holds now; "" where nothing lives.
        title, formula: Section and sublayer, and what it does.
        kind: "embedding", "attention" or "gated".
        written: Channels it wrote.
        number, last: Which sublayer of how many.
        weights: `weights[i, j]` is the weight with which token i reads token j; None without attention.
        head, softmax: The head's name, and whether its weights are a softmax.
        supports: Number of support tokens, which come first.
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
    supports: int
    weights: Array | None = None
    head: str = ""
    softmax: bool = False

    @property
    def channels(self) -> list[tuple[str, list[int]]]:
        """Channels alive now, in the order of their columns."""
        grouped = groupby(range(len(self.columns)), key=lambda column: self.columns[column])
        return [(name, list(columns)) for name, columns in grouped if name]


@shared(most=4)
def walk(state: State) -> Walk:
    """Return the run of a state, to be looked at sublayer by sublayer."""
    run(state)  # raises what the library refuses
    task = load_regression(state)
    chosen = np.unique(np.linspace(0, len(task.Xq) - 1, QUERIES).round().astype(int))
    return Walk(compiled(state), task.X, task.y[:, None], task.Xq[torch.from_numpy(chosen)])


def look(state: State) -> SublayerView:
    """Return the stream after the state's sublayer, and its head's pattern; a number beyond the last is the last."""
    found = walk(state)
    program, layout, counts = found.model.program, found.model.layout, found.tokens.counts
    number = min(state.sublayer, len(found.passed))
    view = SublayerView(
        values=found.after(number).numpy(),
        tokens=tuple(f"{role} {i}" if n > 1 else str(role) for role, n in counts.items() for i in range(n)),
        columns=(),
        title="the embedding",
        formula="features, targets and constants, as the tokens bring them",
        kind="embedding",
        written=frozenset(),
        number=number,
        last=len(found.passed),
        supports=counts[SUPPORT],
    )
    position, cleared = None, set()
    if number:
        section, instruction, sublayer = found.passed[number - 1]
        timeline = [i for _, i in program.timeline() if not isinstance(i, Record)]
        position = next(place for place, other in enumerate(timeline) if other is instruction)
        cleared = set(instruction.clear) - instruction.writes
        view = replace(
            view,
            title=f"{section}: {instruction.name}",
            formula=instruction.caption,
            kind="attention" if isinstance(instruction, Attend) else "gated",
            written=instruction.writes,
        )
        if isinstance(sublayer, AttentionSublayer):
            head = min(state.head, len(sublayer.heads) - 1)
            with torch.no_grad():
                weights = sublayer.pattern(head, found.after(number - 1), found.tokens).numpy()
            softmax = sublayer.kinds[head] == "softmax"
            view = replace(view, weights=weights, head=sublayer.heads[head], softmax=softmax)
    columns = [""] * layout.width  # channels with disjoint lives share columns
    for name, life in lives(program).items():
        if name not in cleared and (life is None or (position is not None and position in life.held)):
            for column in layout.columns[name]:
                columns[column] = name
    return replace(view, columns=tuple(columns))
