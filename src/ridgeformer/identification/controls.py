"""Controls: null models that must not get the answer, a compiled model that must, and the power of the test."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ridgeformer.algorithms import (
    Chebyshev,
    Compilable,
    ConjugateGradients,
    HeavyBall,
    NadarayaWatson,
    Nesterov,
    Richardson,
)
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.errors import RidgeformerError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.identification.adapters import Adapter
from ridgeformer.identification.candidates import Candidate, Family
from ridgeformer.identification.fitting import fit, group_rms
from ridgeformer.identification.learner import Learner, ModelLike
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.tasks import Tasks
from ridgeformer.identification.verdict import THRESHOLDS, BehaviourVerdict, Thresholds, judge
from ridgeformer.kernels import DotProduct, Exponential

__all__ = [
    "Control",
    "PowerPoint",
    "check",
    "compiled_control",
    "noisy",
    "null_models",
    "power",
    "reinitialised",
    "untrained",
]

Answer = Callable[[Tasks], tuple[Tensor, Tensor]]
"""Predictions on a design, (T, q), and their variances over calls, (T,)."""

CALLS = 8
"""Simulated calls over which the noise of a control is averaged and measured."""


def noisy(exact: Tensor, noise: float, problems: Problems, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return predictions with output noise, relative to their size in each group, and its variance by task.

    The noise is that of the mean of several simulated calls, and its variance is estimated from them, as it is for a
    model that is not deterministic.
    """
    size = noise * group_rms(problems, exact)[:, None] * CALLS**0.5
    calls = size * torch.randn(CALLS, *exact.shape, generator=generator, dtype=torch.float64)
    return exact + calls.mean(0), calls.var(0).mean(1) / CALLS


@dataclass(frozen=True)
class Control:
    """A model whose right answer is known.

    Attributes:
        kind: What it is.
        answer: What the protocol said about it.
        same: Whether that is the answer given for the model under test.
        passed: Whether the answer is right: for a null, an abstention or another answer; for a compiled control, an
            answer that contains its algorithm.
    """

    kind: str
    answer: str
    same: bool
    passed: bool


def null_models(
    learner: Learner, best: Candidate, unexplained: float, fitted: Problems, copies: int, seed: int
) -> list[tuple[str, Answer]]:
    """Return nulls: label-shuffled calls, ridge regression with matched noise, scaled ridge, untrained twins."""
    found: list[tuple[str, Answer]] = []
    for copy_ in range(copies):
        found.append(("shuffled labels", _shuffled(learner, seed, copy_)))
        found.append(
            ("ridge regression with matched noise", _noisy_ridge(max(unexplained, 1e-4) ** 0.5, fitted, seed, copy_))
        )
        found.append(("ridge regression times 0.8", _scaled_ridge(fitted, 0.05 * 4.0**copy_)))
        twin = untrained(learner.model, seed + copy_)
        if twin is not None:
            found.append(("untrained twin", _answers(Learner(twin, learner.repeats))))
    return found


def _answers(learner: Learner) -> Answer:
    return lambda tasks: _joined([learner.measured(group.X, group.y, group.Xq) for group in tasks.groups])


def _joined(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _shuffled(learner: Learner, seed: int, copy_: int) -> Answer:
    def answer(tasks: Tasks) -> tuple[Tensor, Tensor]:
        generator = torch_generator(seed, "shuffled labels", copy_)
        parts = []
        for group in tasks.groups:
            order = torch.rand(group.y.shape, generator=generator).argsort(1)
            parts.append(learner.measured(group.X, group.y.gather(1, order), group.Xq))
        return _joined(parts)

    return answer


def _ridge_predictions(problems: Problems, level: float) -> Tensor:
    ridge = level * problems.scale(torch.tensor(False))
    return problems.predict((problems.moments / (problems.eigenvalues + ridge))[:, None])[0]


def _noisy_ridge(noise: float, fitted: Problems, seed: int, copy_: int) -> Answer:
    def answer(tasks: Tasks) -> tuple[Tensor, Tensor]:
        problems = Problems(tasks, fitted)
        exact = _ridge_predictions(problems, 0.01 * 3.0**copy_)
        return noisy(exact, noise, problems, torch_generator(seed, "noise of a null", copy_, tasks.count))

    return answer


def _scaled_ridge(fitted: Problems, level: float) -> Answer:
    def answer(tasks: Tasks) -> tuple[Tensor, Tensor]:
        exact = 0.8 * _ridge_predictions(Problems(tasks, fitted), level)
        return exact, torch.zeros(len(exact), dtype=torch.float64)

    return answer


def untrained(model: object, seed: int) -> ModelLike | None:
    """Return the model with re-initialised weights, or None where there are none to re-initialise."""
    if isinstance(model, Adapter):
        return model.with_module(reinitialised(model.module, seed))
    if isinstance(model, nn.Module) and not isinstance(model, CompiledTransformer):
        return reinitialised(model, seed)
    return None


def reinitialised(module: nn.Module, seed: int) -> nn.Module:
    """Return a copy of a module whose matrices are normal with the spread each had; vectors stay as they are."""
    twin = copy.deepcopy(module)
    generator = torch_generator(seed, "untrained twin")
    with torch.no_grad():
        for weight in twin.parameters():
            if weight.ndim >= 2:
                drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                weight.copy_((drawn * float(weight.double().square().mean().sqrt())).to(weight))
    return twin


def compiled_control(best: Candidate, features: int, fitted: Problems) -> tuple[CompiledTransformer, frozenset[str]]:
    """Return a compiled model of the same algorithm and depth, and the families that are right for it.

    Where the algorithm cannot be compiled, conjugate gradients of three steps stand in.
    """
    values, steps = best.values, best.member.steps or 3
    kernel: DotProduct | Exponential = DotProduct()
    algorithm: Compilable = ConjugateGradients(steps=steps)
    ridge, name = values.get("ridge", 0.1), best.family.name
    if name == "gd" and not best.member.mean:
        algorithm = Richardson(steps=steps, step_size=None if best.member.adaptive else values["step"])
    elif name == "chebyshev" and not best.member.mean:
        algorithm = Chebyshev(steps=steps, spectrum=(values["low"], values["high"]))
    elif name in ("heavy_ball", "nesterov") and not best.member.mean:
        eta, momentum = values["step"], values["momentum"]
        if name == "heavy_ball":
            ends = ((1 - momentum**0.5) ** 2 / eta, (1 + momentum**0.5) ** 2 / eta)
            algorithm = HeavyBall(steps=steps, spectrum=ends)
        else:
            high = 1 / eta
            algorithm = Nesterov(steps=steps, spectrum=(high * ((1 - momentum) / (1 + momentum)) ** 2, high))
    elif name == "jacobi_pcg":
        algorithm = ConjugateGradients(steps=steps, preconditioner="jacobi")
    elif name in ("nadaraya_watson", "kernel_cg_exponential"):
        kernel = Exponential(values["temperature over mean squared length"] * float(fitted.mean_square))
        algorithm = NadarayaWatson() if name == "nadaraya_watson" else algorithm
    else:
        name = "cg"
    if name == "cg" and best.member.mean:
        ridge = ridge * float(fitted.supports.mean())
    model = compile(kernel, algorithm, features=features, ridge=max(ridge, 1e-6))
    return model, frozenset({name})


@dataclass(frozen=True)
class PowerPoint:
    """How often the same set comes out again.

    Attributes:
        tasks: Tasks in the held-out half.
        noise: Output noise, as a fraction of the predictions; None is the residual as it was found.
        replays: Repetitions.
        same: In how many the identified set was contained in the one found.
    """

    tasks: int
    noise: float | None
    replays: int
    same: int

    @property
    def power(self) -> float:
        """Fraction of replays with the same answer."""
        return self.same / self.replays


def power(
    families: Sequence[Family],
    candidates: Sequence[Candidate],
    verdict: BehaviourVerdict,
    halves: tuple[Problems, Problems],
    f: tuple[Tensor, Tensor],
    *,
    replays: int,
    noise: float | None,
    variance: Tensor,
    seed: int,
    thresholds: Thresholds = THRESHOLDS,
    fraction: float = 1.0,
) -> PowerPoint:
    """Replay the best candidate with resampled residuals, refit every near candidate from where it was, judge again.

    Args:
        families: All families.
        candidates: Fitted to the model's predictions.
        verdict: The answer that may come out again.
        halves: The tasks that candidates are fitted and judged on.
        f: The model's predictions on both.
        replays: How often.
        noise: Relative size of normal noise that stands in for the residuals; None for the residuals as they are.
        variance: Of the model's predictions over calls, (T,), on held-out tasks.
        seed: Of the replays.
        thresholds: Where the lines are.
        fraction: Of the tasks to use.
    """
    best = verdict.best
    assert best is not None
    generator = torch_generator(seed, "replays", round(1e6 * (noise or 0.0)), round(100 * fraction))
    near = [one for one in candidates if one.loss < 0.3 or one.key in verdict.keys]
    residuals = [
        (part - best.predict(problems)) / group_rms(problems, part)[:, None]
        for part, problems in zip(f, halves, strict=True)
    ]
    some = tuple(Problems(_part(problems, fraction), halves[0]) for problems in halves)
    same = 0
    for replay in range(replays):
        replayed: list[Tensor] = []
        spread = torch.zeros(0, dtype=torch.float64)
        for problems, residual in zip(some, residuals, strict=True):
            exact = best.predict(problems)
            if noise is None:
                picks = torch.randint(len(residual), (len(exact),), generator=generator)
                replayed.append(exact + group_rms(problems, exact)[:, None] * residual[picks])
                spread = variance.mean().expand(len(exact))
            else:
                made, spread = noisy(exact, noise, problems, generator)
                replayed.append(made)
        again = fit(families, some[0], replayed[0], warm=near)
        found = judge(again, some[1], replayed[1], seed=seed + replay, thresholds=thresholds, noise=spread)
        same += found.reason is None and bool(found.keys) and found.families <= verdict.families
    return PowerPoint(len(some[1].supports), noise, replays, same)


def _part(problems: Problems, fraction: float) -> Tasks:
    groups = tuple(group.take(slice(0, max(2, round(fraction * len(group.X))))) for group in problems.groups)
    return Tasks.unchecked(problems.tasks, groups)


def check(
    families: Sequence[Family],
    answer: Answer,
    tasks: Tasks,
    fitted: Problems,
    held_out: Problems,
    *,
    seed: int,
    thresholds: Thresholds,
) -> BehaviourVerdict | str:
    """Return the verdict on a control, or the error that it ended with."""
    try:
        (f, _), (held, noise) = answer(fitted.tasks), answer(held_out.tasks)
    except RidgeformerError as error:
        return f"not measured: {error}"
    if not bool(torch.isfinite(f).all() and torch.isfinite(held).all()):
        return "not measured: its predictions are not finite"
    return judge(fit(families, fitted, f), held_out, held, seed=seed, thresholds=thresholds, noise=noise)
