"""`identify`: which algorithm does this in-context learner run?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledTransformer
from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.seeds import torch_generator
from ridgeformer.export import Export
from ridgeformer.identification import controls as control
from ridgeformer.identification.answer import Identification
from ridgeformer.identification.candidates import Candidate, CandidateLike, Family, families_of
from ridgeformer.identification.controls import Control, PowerPoint
from ridgeformer.identification.fitting import fit
from ridgeformer.identification.learner import Learner, ModelLike
from ridgeformer.identification.mechanism import examine
from ridgeformer.identification.other_families import FAMILIES
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.signatures import measure_signatures, published_similarities
from ridgeformer.identification.tasks import POOL, Setting, Tasks, TaskSource, draw, separating, standard, tasks_from
from ridgeformer.identification.verdict import THRESHOLDS, BehaviourVerdict, Reason, Thresholds, judge

__all__ = ["identify"]

DESIGNS = ("separating", "standard", "optimised")
NULLS = 3
"""Copies of every kind of null."""

REPLAYS, CURVE_REPLAYS = 10, 4
NOISES, FRACTIONS = (0.05, 0.1, 0.2), (0.34, 1.0)


def identify(
    model: ModelLike,
    tasks: Tasks | TaskSource | str | None = None,
    candidates: str | Sequence[CandidateLike] = "default",
    layers: Sequence[str] | None = None,
    seed: int = 0,
    *,
    features: int | None = None,
    controls: bool = True,
    thresholds: Thresholds = THRESHOLDS,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> Identification:
    """Say which algorithm a model runs on in-context regression tasks, or why that cannot be said.

    Args:
        model: A function (X, y, Xq) of one task, (k, d), (k,), (q, d), that returns q predictions; a compiled or
            exported model; or a torch module in one of `ridgeformer.identification.adapters`.
        tasks: None or "separating" (tasks that keep algorithms apart), "standard" (x ~ N(0, I)), "optimised" (chosen
            to separate the candidates that the separating tasks leave), a `Tasks`, or your own distribution: a function
            of a generator that returns (X, y, Xq) or (X, y, Xq, yq). The answer holds for these tasks.
        candidates: "default", or a list of family names, `Family` values, algorithm values and functions; names with a
            minus leave a family out.
        layers: Names of the submodules whose outputs are read for the mechanism, for an adapter; compiled and
            exported models are read without it, and an empty list leaves the mechanism out.
        seed: Of tasks, bootstrap and controls.
        features: d; needed for a function where `tasks` does not say.
        controls: Whether to run nulls, the compiled control and the power analysis.
        thresholds: Where the protocol draws its lines.
        progress: Called with (done, total, what).

    Raises:
        InputError: a model without usable predictions, or a selection that cannot be.

    Example:
        >>> import ridgeformer as rf
        >>> model = rf.compile(rf.DotProduct(), rf.ConjugateGradients(steps=3), features=3, ridge=0.5)
        >>> found = identify(model, candidates=["cg", "cg_primal", "gd", "ridge"], controls=False, layers=[])
        >>> found.verdict.name
        '3 steps of conjugate gradients (ridge 0.5)'
    """
    begin = time.perf_counter()
    say = progress or (lambda done, total, what: None)
    families = families_of(candidates, FAMILIES)
    learner, design = Learner(model), _design(model, tasks, features, seed)
    say(0, None, "calling the model")
    run = _Run(learner, families, *learner.answer(design), seed, thresholds)
    say(1, None, "fitting candidates")
    candidates_, verdict = run.behaviour()
    if tasks == "optimised" and verdict.reason in (None, Reason.POWERLESS) and len(verdict.identified) != 1:
        chosen = separating(run.tasks.features, seed=seed, settings=_separate(verdict.remaining, run.fitted, seed))
        run = _Run(learner, families, *learner.answer(chosen), seed, thresholds)
        candidates_, verdict = run.behaviour()
    kept = run.tasks
    say(2, None, "symmetries")
    signatures = measure_signatures(learner, kept, seed=seed)
    similar = published_similarities(candidates_, run.held_out, run.f[1]) if candidates_ else ()
    nulls: tuple[Control, ...] = ()
    compiled: Control | None = None
    powers: tuple[PowerPoint, ...] = ()
    if controls and verdict.best is not None:
        say(3, None, "null models")
        nulls = run.nulls(verdict)
        say(4, None, "compiled control")
        compiled = run.compiled(verdict)
        say(5, None, "power")
        powers = run.powers(candidates_, verdict)
    say(6, None, "mechanism")
    readable = isinstance(model, CompiledTransformer | Export) if layers is None else bool(layers)
    mechanism = None
    if readable and candidates_:
        mechanism = examine(model, layers, kept, candidates_, float(run.fitted.mean_square), seed=seed)
    return Identification(
        verdict, signatures, similar, nulls, compiled, powers, mechanism, kept, len(candidates_),
        (*learner.notes, *_off_distribution(kept, run.f_all)), seed, time.perf_counter() - begin,
    )  # fmt: skip


def _design(model: object, tasks: Tasks | TaskSource | str | None, features: int | None, seed: int) -> Tasks:
    if isinstance(tasks, Tasks):
        return tasks
    if callable(tasks):
        return tasks_from(tasks, seed=seed)
    if tasks is not None and tasks not in DESIGNS:
        raise unknown_name("task design", tasks, DESIGNS)
    known = getattr(getattr(model, "spec", None) or getattr(getattr(model, "io", None), "spec", None), "features", None)
    d = known if features is None else whole(features, "features", 1)
    if d is None:
        raise InputError("the number of features is not known: give features=, or tasks= of your own.")
    return standard(d, seed=seed) if tasks == "standard" else separating(d, seed=seed)


class _Run:
    """One model on one design: predictions on both halves, and everything that is computed from them."""

    def __init__(
        self,
        learner: Learner,
        families: Sequence[Family],
        tasks: Tasks,
        answers: list[Tensor],
        noises: list[Tensor],
        seed: int,
        thresholds: Thresholds,
    ) -> None:
        self.learner, self.tasks, self.seed, self.thresholds = learner, tasks, seed, thresholds
        first, second = tasks.halves()
        self.fitted = Problems(first)
        self.held_out = Problems(second, self.fitted)
        self.families = [family for family in families if family.suits(self.fitted)]
        self.f = torch.cat([one[0::2] for one in answers]), torch.cat([one[1::2] for one in answers])
        self.f_all = answers
        self.noise = torch.cat([one[1::2] for one in noises])

    def behaviour(self) -> tuple[tuple[Candidate, ...], BehaviourVerdict]:
        """Return the fitted candidates and the verdict."""
        if self.learner.ignores_context(self.tasks, self.f_all, torch_generator(self.seed, "other contexts")):
            detail = (
                "Other supports and targets leave every prediction as it was: there is no in-context learning here."
            )
            return (), BehaviourVerdict(None, (), (), Reason.CONTEXT, detail, 1.0, 1.0, 1.0, 1.0, False, ())
        found = fit(self.families, self.fitted, self.f[0])
        return found, judge(
            found, self.held_out, self.f[1], seed=self.seed, thresholds=self.thresholds, noise=self.noise
        )

    def nulls(self, verdict: BehaviourVerdict) -> tuple[Control, ...]:
        """Return the verdicts on null models."""
        assert verdict.best is not None
        models = control.null_models(self.learner, verdict.best, verdict.unexplained, self.fitted, NULLS, self.seed)
        return tuple(self._control(kind, answer, verdict) for kind, answer in models)

    def _control(self, kind: str, answer: control.Answer, verdict: BehaviourVerdict) -> Control:
        found = control.check(
            self.families, answer, self.tasks, self.fitted, self.held_out, seed=self.seed, thresholds=self.thresholds
        )
        if isinstance(found, str):
            return Control(kind, found, False, True)
        same = found.reason is None and verdict.reason is None and found.keys <= verdict.keys
        honest = kind == "ridge regression with matched noise" and bool(found.families & {"ridge", "ols"})
        return Control(
            kind, found.name if found.reason is None else f"abstains: {found.name}", same, honest or not same
        )

    def compiled(self, verdict: BehaviourVerdict) -> Control | None:
        """Return the verdict on a compiled model of the same algorithm and depth, with the noise of the model."""
        assert verdict.best is not None
        try:
            model, right = control.compiled_control(verdict.best, self.tasks.features, self.fitted)
        except InputError as error:
            return Control("compiled control", f"not compiled: {error}", False, False)
        noise = verdict.unexplained**0.5 if verdict.unexplained < self.thresholds.unexplained else 0.05
        learner, generator = Learner(model), torch_generator(self.seed, "noise of the compiled control")

        def answer(tasks: Tasks) -> tuple[Tensor, Tensor]:
            exact = torch.cat([learner(group.X, group.y, group.Xq) for group in tasks.groups])
            return control.noisy(exact, noise, Problems(tasks), generator)

        found = self._control(f"compiled {model.program.name}", answer, verdict)
        verdict_ = control.check(
            self.families, answer, self.tasks, self.fitted, self.held_out, seed=self.seed, thresholds=self.thresholds
        )
        passed = not isinstance(verdict_, str) and verdict_.reason is None and bool(verdict_.families & right)
        return Control(found.kind, found.answer, found.same, passed)

    def powers(self, candidates: Sequence[Candidate], verdict: BehaviourVerdict) -> tuple[PowerPoint, ...]:
        """Return how often the answer comes out again: as it is, with more noise, and with fewer tasks."""
        if verdict.reason is not None or verdict.best is None:
            return ()

        def point(replays: int, noise: float | None, fraction: float = 1.0) -> PowerPoint:
            return control.power(
                self.families, candidates, verdict, (self.fitted, self.held_out), self.f, replays=replays, noise=noise,
                variance=self.noise, seed=self.seed, thresholds=self.thresholds, fraction=fraction,
            )  # fmt: skip

        curve = [point(CURVE_REPLAYS, noise, fraction) for noise in NOISES for fraction in FRACTIONS]
        return (point(REPLAYS, None), *curve)


def _separate(candidates: Sequence[Candidate], fitted: Problems, seed: int) -> list[Setting]:
    """Return the three settings of the pool that keep the two nearest candidates farthest apart."""
    d = fitted.tasks.features
    distances = []
    for place, setting in enumerate(settings := POOL(d)):
        group = draw(setting, d, 8, max(8, d + 2), torch_generator(seed, "pool", place))
        problems = Problems(Tasks("pool", (group,), fitted.tasks.covariance), fitted)
        g = torch.stack([one.predict(problems) for one in candidates]).flatten(1)
        unit = g[0].square().mean().clamp_min(1e-300)
        distances.append(torch.cdist(g, g).square() / g.shape[1] / unit)
    D = torch.nan_to_num(torch.stack(distances), nan=0.0, posinf=0.0).clamp_max(10.0)  # (settings, C, C)
    pairs = torch.triu_indices(len(candidates), len(candidates), 1)
    D = D[:, pairs[0], pairs[1]]
    D = D[:, D.amax(0) > 1e-12] if bool((D.amax(0) > 1e-12).any()) else D
    chosen: list[int] = []
    total = torch.zeros(D.shape[1], dtype=torch.float64)
    for _ in range(3):
        gains = (total + D).amin(1) if D.shape[1] else torch.zeros(len(D))
        gains[chosen] = -1.0
        chosen.append(int(gains.argmax()))
        total = total + D[chosen[-1]]
    return [settings[place] for place in chosen]


def _off_distribution(tasks: Tasks, answers: Sequence[Tensor]) -> list[str]:
    """Warn of groups on which the model predicts worse than zero would."""
    notes = []
    for group, f in zip(tasks.groups, answers, strict=True):
        if group.truth is not None:
            error, zero = float((f - group.truth).square().mean()), float(group.truth.square().mean())
            if error > zero:
                notes.append(
                    f"On tasks with {group.name} the model predicts worse than zero does: they are probably outside of "
                    "what it was made for. Give tasks= of its own distribution."
                )
    return notes
