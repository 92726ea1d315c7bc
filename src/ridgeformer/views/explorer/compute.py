"""From a state to numbers: every one of them comes from a call of the library, and equal states share their results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.algorithms import ALGORITHMS, Accelerated, Algorithm, ConjugateGradients, NadarayaWatson, resolve
from ridgeformer.compiler import Budget, Certificate, CompiledTransformer, certify
from ridgeformer.compiler.certificate.certify import promise_of
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.compile import compile
from ridgeformer.estimators import NadarayaWatson as HeadEstimator
from ridgeformer.influence import influence
from ridgeformer.kernels import DotProduct, Exponential, Kernel
from ridgeformer.regime.spectra import Spectra, examine_spectra
from ridgeformer.views.explorer.cache import remember
from ridgeformer.views.explorer.data import Task, pose
from ridgeformer.views.explorer.state import State

__all__ = [
    "Influenced",
    "Run",
    "certify_run",
    "compiled",
    "exact_problem",
    "influenced",
    "run",
    "spectrum",
    "width_range",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """What the transformer answered, beside what it should have answered and what one head alone answers.

    Predictions are for the task's queries, the mean of the targets added.

    Attributes:
        task: The regression.
        predicted: The compiled transformer's.
        exact: Exact kernel ridge regression with all features, by a direct solve.
        limit: The same for the features the stream carries: `exact` unless the width is too small for them.
        average: Nadaraya-Watson's, one softmax head at this temperature.
        steps: Predictions after every step, (steps, queries).
        errors, bound: Relative error of the coefficients after every step and what theory allows, in the norm in which
            the method contracts; empty for a algorithm without steps.
        promise: The bound in words, and its condition.
        holds: Whether that condition is met.
        kappa: Condition number of the system.
        budget: What the transformer costs.
        features: Features before and after the sketch.
    """

    task: Task
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
        """A typical size of the exact predictions about the mean: what distances are compared with."""
        return float(np.sqrt(np.square(self.exact - self.task.mean).mean())) or 1.0

    def distance(self, other: Array) -> float:
        """Return the largest distance of predictions from the exact ones."""
        return float(np.abs(other - self.exact).max())


@dataclass(frozen=True, eq=False)
class Influenced:
    """What leaving training points out does to exact predictions, from one factorisation (exact, no refit).

    Attributes:
        task: The regression.
        change: f(x) - f without point i, (points, queries).
        exact: f(x), the mean added.
        leverage: How much of its own target each point's fit copies.
    """

    task: Task
    change: Array
    exact: Array
    leverage: Array

    def without(self, point: int) -> Array:
        """Return the predictions of the fit without a training point."""
        return np.asarray(self.exact - self.change[point])


def compiled(state: State) -> CompiledTransformer:
    """Return the transformer of a state: its weights know the settings, and nothing of the data but their number.

    Some algorithms need bounds on the spectrum, and "pca" needs directions: both are taken from the
    training rows, as a person would who compiles a model for data at hand.
    """
    return _compiled(state.problem)


@remember(most=16)
def _compiled(state: State) -> CompiledTransformer:
    task = pose(state)
    options: dict[str, Any] = {}
    if state.width is not None:
        options = {"width": state.width, "sketch": state.sketch, "reference": task.X}
    kernel, rows, _ = exact_problem(state, task)
    ends = (state.ridge, state.ridge + float(kernel(rows, rows).abs().sum(1).max()))
    algorithm = algorithm_of(state.algorithm, state.steps, ends)
    return compile(kernel, algorithm, attention=state.attention, features=task.X.shape[1], ridge=state.ridge, **options)


def algorithm_of(name: str, steps: int, ends: tuple[float, float]) -> Algorithm:
    """Return the algorithm of a name in `RUNS`, with the bounds on the spectrum that it may need."""
    if name == "pcg":
        return ConjugateGradients(steps=steps, preconditioner="jacobi")
    options: dict[str, object] = {"spectrum": ends} if issubclass(ALGORITHMS[name], Accelerated) else {}
    return resolve(name, steps=None if issubclass(ALGORITHMS[name], NadarayaWatson) else steps, **options)


def exact_problem(state: State, task: Task) -> tuple[Kernel, Tensor, Tensor]:
    """Return kernel, rows and queries of the ridge regression that a state's transformer is to solve.

    The imitation of linear attention centres its features over the supports, and its queries by the same mean.
    """
    if state.attention == "imitation":
        mean = task.X.mean(0)
        return DotProduct(), task.X - mean, task.Xq - mean
    kernel = DotProduct() if state.attention == "linear" else Exponential(state.temperature)
    return kernel, task.X, task.Xq


def run(state: State) -> Run:
    """Compile, run and hold against theory.

    Raises:
        InputError: what the library refuses, in its own words.
    """
    return _run(state.problem)


@remember(most=16)
def _run(state: State) -> Run:
    task, model = pose(state), compiled(state)
    (evidence,) = gather(model, task.X, task.y[:, None], task.Xq)
    average = HeadEstimator(state.temperature).fit(task.X.numpy(), task.y.numpy()).predict(task.Xq.numpy())
    iterative = "alpha" in evidence.values
    promise = promise_of(evidence) if iterative else None
    return Run(
        task=task,
        predicted=_shown(evidence.predictions, task),
        exact=_shown(evidence.true.f, task),
        limit=_shown(evidence.problem.f, task),
        average=np.asarray(average + task.mean),
        steps=_shown(evidence.f, task),
        errors=_flat(promise.measured) if promise else np.zeros(0),
        bound=_flat(promise.bound) if promise else np.zeros(0),
        promise=promise.what if promise else "one softmax head averages and takes no steps",
        holds=promise is None or promise.met,
        kappa=evidence.problem.kappa,
        budget=model.budget,
        features=(model.spec.projected, model.spec.carried),
    )


def _shown(values: Tensor, task: Task) -> Array:
    return np.asarray(values[..., 0].numpy() + task.mean)


def _flat(values: Tensor) -> Array:
    return np.asarray(values[:, 0].numpy())


@remember(most=16)
def _spectrum(state: State) -> Spectra:
    kernel, rows, _ = exact_problem(state, pose(state))
    return examine_spectra(rows, kernel(rows, rows), state.ridge)


def spectrum(state: State) -> Spectra:
    """Return the eigenvalues of the kernel matrix and what they say about dimension and width."""
    return _spectrum(replace(state.problem, steps=State.steps, width=None, sketch=State.sketch))


@remember(most=16)
def _influenced(state: State) -> Influenced:
    task = pose(state)
    kernel, rows, queries = exact_problem(state, task)
    found = influence(kernel, rows, task.y, queries, state.ridge)
    return Influenced(
        task=task,
        change=found.leave_one_out.numpy(),
        exact=found.predictions[:, 0].numpy() + task.mean,
        leverage=found.leverage.numpy(),
    )


def influenced(state: State) -> Influenced:
    """Return the leave-one-out influences of every training point on every query, for all features."""
    return _influenced(replace(state.problem, steps=State.steps, width=None, sketch=State.sketch))


@remember(most=32)
def _width_range(attention: str, algorithm: str, features: int) -> tuple[int, int]:
    kernel = Exponential(1.0) if attention in ("softmax", "vanilla") else DotProduct()
    model = compile(kernel, algorithm_of(algorithm, 1, (1.0, 2.0)), attention=attention, features=features, ridge=1.0)
    blocks = sum(channel.size == "features" for channel in model.program.channels.values())
    return model.layout.overhead + blocks, model.layout.used


def width_range(state: State) -> tuple[int, int]:
    """Return the smallest width the program fits in, and the one that carries every feature."""
    return _width_range(state.attention, state.algorithm, pose(state).X.shape[1])


def certify_run(state: State) -> Certificate:
    """Return the full certificate of a run: up to a second, where the panels take milliseconds."""
    task = pose(state)
    return certify(compiled(state), task.X, task.y, task.Xq)
