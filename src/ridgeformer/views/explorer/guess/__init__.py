"""Guess the algorithm: a compiled transformer with hidden settings, to be identified as `rf.identify` would.

Every number of the game is evidence of one identification: the symmetries it tests, the errors of its fitted candidates
and its verdict. A guess is right if that verdict names it, so that the game never asks for more than predictions say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ridgeformer.algorithms import Compilable, ConjugateGradients, NadarayaWatson, Richardson, resolve
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.seeds import numpy_generator, torch_generator
from ridgeformer.core.words import count, percent
from ridgeformer.identification import FAMILIES, Candidate, Identification, TaskGroup, Tasks, identify
from ridgeformer.identification.adapters import Adapter
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.signatures import HOLDS
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, Kernel
from ridgeformer.views.explorer.data import lift

__all__ = [
    "FEATURES",
    "KINDS",
    "NONE",
    "SUSPECTS",
    "SYMMETRIES",
    "GuessResult",
    "HiddenModel",
    "RoundEvidence",
    "SuspectFit",
    "answer",
    "at_least_a_trace",
    "draw_curve",
    "examine",
    "first_points",
    "hide",
    "titles",
]  # fmt: skip

HARMONICS = 2
FEATURES = 2 * HARMONICS + 1
POINTS, GRID, MOST = 12, 81, 10
MOST_ROUNDS = 10_000
NOISE = 1.2  # standard deviation of the noise of a noisy model, in units of its own predictions

SUSPECTS = ("nadaraya_watson", "knn", "gd", "heavy_ball", "chebyshev", "cg", "jacobi_pcg", "ridge")
"""Families of candidates that a visitor can accuse."""

NONE = "none"
"""The guess that no suspect did it."""

SYMMETRIES: dict[str, tuple[str, str, str]] = {
    "additivity": ("Add two sets of targets", "predictions add up: linear in the targets", "not linear in the targets"),
    "homogeneity": ("Double the targets", "predictions double", "predictions do not double"),
    "linearity": ("Ask half-way between queries", "linear in the query: a weight vector", "not linear in the query"),
    "rotation": ("Rotate all rows", "no direction is special", "some directions are special to it"),
    "scale": ("Double all rows", "it adapts to the scale", "it has a scale of its own"),
    "duplicates": ("Give every point twice", "copies do not count", "copies count"),
    "order": ("Shuffle the points", "their order does not matter", "their order matters"),
}
"""Test by name: what is done, and what it means if the symmetry holds and if it fails."""

KINDS = ("nadaraya_watson", "cg", "gd", "converged", "unlisted", "heavy_ball", "jacobi_pcg", "noisy", "chebyshev")
"""What may be hidden, in the order of the first rounds; later ones have orders of their own."""


@dataclass(frozen=True, eq=False)
class NoisyTransformer(Adapter):
    """A compiled transformer whose predictions have output noise, drawn afresh in every call."""

    generator: torch.Generator | None = None

    def __call__(self, X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        """Return the predictions of all tasks, with noise in units of their root mean square."""
        found: Tensor = self.module(X, y, Xq)
        size = NOISE * found.square().mean().sqrt()
        return found + size * torch.randn(found.shape, generator=self.generator, dtype=found.dtype)

    def run(self, X: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Return one prediction a sequence."""
        return self(X, y, x[:, None])[:, 0]


@dataclass(frozen=True, eq=False)
class HiddenModel:
    """One round: a model, and what it is.

    Attributes:
        kind: One of `KINDS`.
        model: The transformer, with noise where the kind is "noisy".
        network: The same without noise.
        title: Its algorithm, in words.
    """

    number: int
    kind: str
    model: CompiledTransformer | NoisyTransformer
    network: CompiledTransformer
    title: str

    def predict(self, X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        """Return its predictions on one task."""
        with torch.no_grad():
            found: Tensor = self.model(X[None], y[None], Xq[None])
        return found[0]


@dataclass(frozen=True)
class SuspectFit:
    """What the evidence says of one family: its best fitted member.

    Attributes:
        title: The member, with its depth.
        error: Fraction of the model's mean square that it leaves unexplained on held-out tasks.
    """

    name: str
    title: str
    error: float


@dataclass(frozen=True, eq=False)
class RoundEvidence:
    """Everything a visitor can ask for in a round, from one identification."""

    hidden: HiddenModel
    found: Identification
    fitted: dict[str, tuple[Candidate, float]]
    """Best fitted member of every suspect, with its error."""

    def symmetry(self, name: str) -> tuple[float | None, str]:
        """Return the violation of a symmetry, None where it could not be tested, and what that means."""
        if name not in SYMMETRIES:
            raise unknown_name("test", name, SYMMETRIES)
        value = getattr(self.found.signatures, name)
        _, holds, fails = SYMMETRIES[name]
        if value is None:
            return None, "the model could not be run on the changed task"
        return value, f"{holds if value <= HOLDS else fails} (changed by {at_least_a_trace(value)})"

    def suspect(self, name: str) -> SuspectFit:
        """Return the best member of a family and what it leaves unexplained."""
        if name not in SUSPECTS:
            raise unknown_name("suspect", name, SUSPECTS)
        candidate, error = self.fitted[name]
        return SuspectFit(name, candidate.title, error)


@dataclass(frozen=True)
class GuessResult:
    """What a guess was worth, and what the round teaches.

    Attributes:
        right: Whether the identification names the guess, or abstains where none was accused.
        headline: The same in a sentence.
        hidden: What the model is.
        verdict: What `identify` says.
        lesson: What identification could and could not do here.
    """

    right: bool
    headline: str
    hidden: str
    verdict: str
    lesson: str


@lru_cache(maxsize=32)
def hide(round_: int) -> HiddenModel:
    """Return the model of a round; every kind comes once in each nine rounds.

    Example:
        >>> hide(1).model.spec.features, len({hide(n).kind for n in range(1, 10)})
        (5, 9)
    """
    if not 1 <= round_ <= MOST_ROUNDS:
        raise InputError(f"round is {round_}; a number from 1 to {MOST_ROUNDS:,} was expected.")
    block, place = divmod(round_ - 1, len(KINDS))
    order = numpy_generator(block, "order of the rounds").permutation(len(KINDS)) if block else range(len(KINDS))
    kind = KINDS[int(order[place])]
    draw = numpy_generator(round_, "hidden settings")
    ridge = float(draw.uniform(0.2, 0.8))
    steps = int(draw.integers(2, 4))
    kernel: Kernel = DotProduct()
    algorithm: Compilable = ConjugateGradients(steps=steps)
    title = f"{count(steps, 'step')} of conjugate gradients"
    if kind == "nadaraya_watson":
        kernel, algorithm = Exponential(float(draw.uniform(2.0, 6.0))), NadarayaWatson()
        title = "one softmax head, a Nadaraya-Watson average"
    elif kind == "gd":
        steps = steps + 3
        algorithm, title = Richardson(steps=steps), f"{count(steps, 'step')} of gradient descent"
    elif kind == "jacobi_pcg":
        algorithm = ConjugateGradients(steps=steps, preconditioner="jacobi")
        title += " with Jacobi's preconditioner"
    elif kind in ("heavy_ball", "chebyshev"):
        steps = steps + 2
        algorithm = resolve(kind, steps=steps, spectrum=(2.0, float(draw.uniform(120, 180))))  # type: ignore[assignment]
        title = f"{count(steps, 'step')} of {FAMILIES[kind].title}"
    elif kind == "converged":
        algorithm, title = ConjugateGradients(steps=12), "12 steps of conjugate gradients, more than it needs"
    elif kind == "unlisted":
        kernel = Gaussian(float(draw.uniform(3.0, 6.0)))
        title += " with a Gaussian kernel, which is none of the suspects"
    elif kind == "noisy":
        title += ", with noise larger than its predictions"
    network = compile(kernel, algorithm, features=FEATURES, ridge=ridge)
    noise = torch_generator(round_, "noise of the model")
    return HiddenModel(
        round_, kind, NoisyTransformer(network, generator=noise) if kind == "noisy" else network, network, title
    )


@lru_cache(maxsize=32)
def examine(round_: int) -> RoundEvidence:
    """Return the evidence of a round: one identification among the suspects, a second or two."""
    hidden = hide(round_)
    found = identify(hidden.model, candidates=list(SUSPECTS), controls=False, layers=[], features=FEATURES)
    verdict = found.verdict
    assert verdict.best is not None
    fitted: dict[str, tuple[Candidate, float]] = {verdict.best.family.name: (verdict.best, verdict.unexplained)}
    for one in verdict.coordinates:
        name = one.candidate.family.name
        if name not in fitted or (fitted[name][0] is not verdict.best and one.error < fitted[name][1]):
            fitted[name] = one.candidate, one.error
    return RoundEvidence(hidden, found, fitted)


def first_points(round_: int) -> tuple[list[float], list[float]]:
    """Return the points that a round opens with."""
    draw = numpy_generator(hide(round_).number, "points of the game")
    x = np.linspace(-0.92, 0.92, POINTS) + draw.uniform(-0.05, 0.05, POINTS)
    y = np.sin(draw.uniform(2.0, 3.5) * x + draw.uniform(0, 3)) + 0.25 * draw.standard_normal(POINTS)
    return x.round(3).tolist(), y.round(3).tolist()


def draw_curve(
    round_: int, x: Sequence[float], y: Sequence[float], suspect: str | None = None
) -> dict[str, list[float]]:
    """Return the model's predictions along the line, and those of a fitted suspect.

    A position is encoded as sines and cosines whose squared length is the number of features, the mean of the tasks
    that the evidence comes from.
    """
    if len(x) != len(y) or not 2 <= len(x) <= POINTS or not all(abs(value) <= MOST for value in (*x, *y)):
        raise InputError(f"2 to {POINTS} points within {-MOST} to {MOST} were expected.")
    given = np.asarray([x, y], dtype=np.float64)
    grid = np.linspace(-1, 1, GRID)
    X, Xq = (lift(at, HARMONICS) * FEATURES**0.5 for at in (given[0], grid))
    targets = torch.from_numpy(given[1])
    found = {"grid": grid.tolist(), "model": hide(round_).predict(X, targets, Xq).tolist()}
    if suspect is not None:
        evidence = examine(round_)
        evidence.suspect(suspect)
        group = TaskGroup("the points", X[None], targets[None], Xq[None])
        fitted = Problems(evidence.found.tasks.halves()[0])
        problems = Problems(Tasks.unchecked(evidence.found.tasks, (group,)), fitted)
        found["suspect"] = evidence.fitted[suspect][0].predict(problems)[0].tolist()
    return found


def answer(round_: int, guess: str) -> GuessResult:
    """Return what a guess is worth: a suspect's name, or "none"."""
    if guess not in (*SUSPECTS, NONE):
        raise unknown_name("guess", guess, (*SUSPECTS, NONE))
    evidence = examine(round_)
    verdict, hidden = evidence.found.verdict, evidence.hidden
    abstains = verdict.reason is not None
    right = guess == NONE if abstains else guess in verdict.families
    accused = "none of them" if guess == NONE else FAMILIES[guess].title
    if right:
        headline = f"Right: {accused}."
    elif guess == NONE:
        headline = "Wrong: the predictions do single out a suspect."
    elif abstains:
        headline = f"Not shown: these predictions are not enough to name {accused}, or any other suspect."
    else:
        headline = (
            f"Wrong: {accused} leaves {at_least_a_trace(evidence.fitted[guess][1])} of the predictions unexplained."
        )
    budget = hidden.network.budget
    what = f"{hidden.title}; {count(budget.sublayers, 'sublayer')}, {budget.nonzeros:,} weights that are not zero."
    return GuessResult(right, headline, what[0].upper() + what[1:], evidence.found.sentences[0], _lesson(evidence))


def _lesson(evidence: RoundEvidence) -> str:
    verdict, kind = evidence.found.verdict, evidence.hidden.kind
    if kind == "noisy" and verdict.reason is not None:
        return (
            "Identification can tell noise from a difference only by calling the model often. Here the noise of eight "
            "calls hides what is left, so the honest answer names nobody, although the truth was among the suspects."
        )
    if verdict.reason is not None:
        return (
            "Some suspect always comes nearest. Identification must also be able to say that the nearest is not near "
            "enough; a score that only ranks would have named it."
        )
    if len(verdict.families) > 1:
        return (
            "A solver that has converged gives the same predictions as any other that has. Nobody can tell them apart "
            "from outside; only layers show which one runs."
        )
    others = [
        (error, candidate) for name, (candidate, error) in evidence.fitted.items() if name not in verdict.families
    ]
    error, nearest = min(others, key=lambda one: one[0])
    return (
        f"Predictions on {evidence.found.tasks.count} small tasks suffice: the next suspect, {nearest.title}, leaves "
        f"{at_least_a_trace(error)} unexplained. The answer holds for these tasks and among these suspects."
    )


def at_least_a_trace(fraction: float) -> str:
    """Return a fraction as a percentage that stays on one line; rounding errors are less than a trace."""
    return percent(fraction).replace(" ", "\u00a0") if fraction > 1e-6 else "less than 0.0001\u00a0%"


def titles() -> dict[str, str]:
    """Return the names of the suspects, as a visitor reads them."""
    return {name: FAMILIES[name].title for name in SUSPECTS}
