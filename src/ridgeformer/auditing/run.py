"""The audit: one dataset in, one frozen record of everything measured out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from ridgeformer.auditing.advice import advise
from ridgeformer.auditing.answer import answer
from ridgeformer.auditing.certified import Certified
from ridgeformer.auditing.compiled import Compiled, Watched, choose_watched, examine_compiled
from ridgeformer.auditing.convergence import Convergence, examine_convergence
from ridgeformer.auditing.coverage import HeldOutCoverage, examine_coverage
from ridgeformer.auditing.drivers import Drivers, examine_drivers
from ridgeformer.auditing.field import Field, Scored, run_field
from ridgeformer.auditing.kernel_regime import KernelRegime, examine_regime
from ridgeformer.auditing.malleability import Malleable, examine_malleability
from ridgeformer.auditing.metrics import Metrics, measure
from ridgeformer.auditing.reproduce import write_snippet
from ridgeformer.auditing.settings import Settings, Skipped, attempt
from ridgeformer.claims.on_data import Applied, examine_claims
from ridgeformer.datasets import REGISTRY, Dataset, Split
from ridgeformer.influence.answer import START, Answer, explain
from ridgeformer.influence.suspects import Suspects, find_suspects
from ridgeformer.regime.spectra import Spectra, examine_spectra

__all__ = ["Audit", "audit", "examine_attribution", "hardest_row", "make_splits"]

STAGES = (
    "preparing the data",
    "tuning and comparing methods",
    "measuring what drives predictions",
    "measuring spectra",
    "watching convergence",
    "compiling transformers",
    "training networks",
    "tracing one prediction",
    "attacking training rows",
    "applying the claims",
)

SPLITS = 5
"""Splits where rows are few."""

LIBRARIES = ("ridgeformer", "torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything an audit found; `sentences` is the short version.

    Attributes:
        data: Training and held-out rows, with the dataset as given and notes on what was done to it.
        splits: All splits: with few rows every row is held out once; `data` is the first.
        wide: The split with all its training rows, where `data` has a sample of them.
        field: Every method on the held-out rows; the certified fit is one of them.
        metrics: Of the certified fit and of the best method, by key.
        certified: The certified fit.
        coverage: Whether prediction intervals keep their promise on the held-out rows.
        drivers: Which columns matter.
        suspects: Training rows whose target the others contradict.
        snippet: Python that reproduces the score of the certified fit.
        spectra: Of the data and of the kernel.
        convergence: Steps needed.
        compiled: Transformers compiled for these data, linear and softmax attention.
        watched: One small enough to watch.
        regime: Whether networks are kernel machines here.
        attribution: Which training points made one prediction.
        malleability: How easily influences change sign.
        claims: The theorems evaluated here.
        sentences: The answer in plain words.
        settings: Every choice made.
        versions: Of the libraries used.
        seconds: Time of each stage.
    """

    data: Split
    splits: tuple[Split, ...]
    wide: Split | None
    field: Field
    metrics: dict[str, Metrics]
    certified: Certified
    coverage: HeldOutCoverage | Skipped
    drivers: Drivers | Skipped
    suspects: Suspects | Skipped
    snippet: str
    spectra: Spectra
    convergence: Convergence
    compiled: tuple[Compiled, ...]
    watched: Watched | Skipped
    regime: KernelRegime | Skipped
    attribution: Answer | Skipped
    malleability: Malleable | Skipped
    claims: Applied
    sentences: tuple[str, ...]
    settings: Settings
    versions: dict[str, str]
    seconds: dict[str, float]

    @property
    def fits(self) -> tuple[Scored, ...]:
        """The certified fit and the other methods."""
        return self.field.scored

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain numbers, lists and text, for JSON."""
        dataset, certified, spectra = self.data.dataset, self.certified, self.spectra
        return {
            "answer": list(self.sentences),
            "data": {
                "name": dataset.name, "rows": len(self.data.rows) + len(self.data.rows_t), "features": dataset.d,
                "task": dataset.task,
                "classes": list(dataset.classes), "source": dataset.source, "notes": list(self.data.notes),
            },
            "fits": [fit.as_dict() for fit in self.fits],
            "metrics": {key: found.as_dict() for key, found in self.metrics.items()},
            "best": self.field.best.key,
            "unbeaten": [one.key for one in self.field.unbeaten],
            "learnt": [one.key for one in self.field.learnt],
            "splits": self.field.splits,
            "coverage": self.coverage.as_dict(),
            "drivers": self.drivers.as_dict(),
            "suspects": self.suspects.as_dict(),
            "reproduce": self.snippet,
            "certificate": {
                "status": certified.fit.status.value,
                "relative_residual": certified.fit.relative_residual,
                "worst_bound": certified.worst_bound,
                "typical_output": certified.typical_output,
                "safe_decisions": certified.safe_decisions,
            },
            "spectra": {
                key: value.tolist() if hasattr(value, "tolist") else value for key, value in vars(spectra).items()
            },
            "convergence": {
                "bound": self.convergence.bound.tolist(),
                "bound_holds": self.convergence.bound_holds,
                "errors": {curve.method: curve.errors.tolist() for curve in self.convergence.curves},
                "steps_to_1e-3": {curve.method: curve.steps_to_target for curve in self.convergence.curves},
            },
            "compiled": [model.as_dict() for model in self.compiled],
            "regime": self.regime.as_dict(),
            "influence": self.attribution.as_dict(),
            "malleability": self.malleability.as_dict(),
            "claims": self.claims.as_dict(),
            "settings": asdict(self.settings),
            "versions": self.versions,
            "seconds": self.seconds,
        }  # fmt: skip


def audit(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    load: str = "",
    progress: Callable[[int, int, str], object] | None = None,
) -> Audit:
    """Examine a dataset: a certified fit against the field, what it takes, and how far it can be trusted.

    Args:
        dataset: Any dataset of `ridgeformer.datasets`, or your own.
        settings: The choices; the defaults are `Settings()`.
        load: The Python expression that loads the dataset, for the snippet that reproduces the score; by default a
            dataset's name, or the variable `mine`.
        progress: Called as `progress(done, total, what)` before each stage and once at the end.

    Raises:
        InputError: too few rows, or rows the preprocessing cannot take.

    Example:
        >>> from ridgeformer import datasets
        >>> from ridgeformer.auditing import preset
        >>> result = audit(datasets.load("wine"), preset("quick"))
        >>> result.field.own.test_score > 0.9, result.convergence.bound_holds
        (True, True)
    """
    settings = settings or Settings()
    clock = _Clock(progress or (lambda done, total, what: None))
    with clock:
        splits, wide = make_splits(dataset, settings)
        data = splits[0]
        clock.next()
        field, certified = run_field(splits, settings, wide)
        clock.next()
        drivers = attempt(lambda: examine_drivers(data, certified, settings))
        clock.next()
        spectra = examine_spectra(data.X, certified.fit.eigenvalues, certified.fit.ridge)
        clock.next()
        convergence = examine_convergence(certified.fit, settings)
        clock.next()
        compiled = examine_compiled(data, certified, settings)
        watched = attempt(lambda: choose_watched(data, certified, settings))
        clock.next()
        regime = attempt(lambda: examine_regime(data, settings))
        clock.next()
        attribution = attempt(lambda: examine_attribution(data, certified, settings))
        suspects = attempt(lambda: find_suspects(data, certified.fit))
        clock.next()
        malleability = attempt(lambda: examine_malleability(data, certified, settings))
        clock.next()
        claims = examine_claims(data, certified.fit, spectra)
    metrics = {one.key: measure(field, one, dataset.classes) for one in dict.fromkeys((field.own, field.best))}
    advice = advise(data, field, suspects)
    return Audit(
        data=data,
        splits=splits,
        wide=wide,
        field=field,
        metrics=metrics,
        certified=certified,
        coverage=attempt(lambda: examine_coverage(data, certified)),
        drivers=drivers,
        suspects=suspects,
        snippet=write_snippet(splits, field, settings, load or _loads(dataset), wide=wide is not None),
        spectra=spectra,
        convergence=convergence,
        compiled=compiled,
        watched=watched,
        regime=regime,
        attribution=attribution,
        malleability=malleability,
        claims=claims,
        sentences=answer(data, field, metrics, certified, spectra, convergence, compiled, regime, malleability, advice),
        settings=settings,
        versions={"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        seconds=clock.seconds,
    )


def make_splits(dataset: Dataset, settings: Settings) -> tuple[tuple[Split, ...], Split | None]:
    """Hold rows out: a fraction once, or with few rows every row once, in up to five splits.

    Where there are more rows than a direct solution takes, the second value has all training rows of the one split.
    """
    given: dict[str, Any] = {"preprocessing": settings.preprocessing, "seed": settings.seed}
    most = settings.max_rows
    if min(dataset.n, most) >= settings.few_rows or dataset.times is not None:
        fraction = settings.fraction_held_out(dataset.n)
        split = Split.of(dataset, test_fraction=fraction, max_rows=max(most, settings.all_rows), **given)
        if len(split.rows) + len(split.rows_t) <= most:
            return (split,), None
        fewer = split.with_training_rows(settings.direct_rows, seed=settings.seed)
        note = (
            f"Direct solutions, what they explain and what is compiled from them use {len(fewer.X):,} of the training "
            "rows, drawn at random with classes in proportion (--max-rows takes more); other methods use all."
        )
        return (replace(fewer, notes=(*fewer.notes, note)),), split
    folds = SPLITS if dataset.groups is None else max(2, min(SPLITS, len(set(dataset.groups.tolist()))))
    return tuple(Split.of(dataset, max_rows=most, fold=(k, folds), **given) for k in range(folds)), None


def _loads(dataset: Dataset) -> str:
    return f'rf.datasets.load("{dataset.name}")' if dataset.name in REGISTRY else "mine  # the dataset audited"


def examine_attribution(data: Split, certified: Certified, settings: Settings) -> Answer:
    """Say which training rows made the prediction of the certified fit at the hardest held-out row.

    Raises:
        InputError: training rows of one class only, ...
    """
    place = hardest_row(data, certified.outputs)
    temperature = getattr(certified.fit.kernel, "temperature", None)
    return explain(data, certified.fit, place, settings.points, temperature=temperature, attack=settings.attack(START))


def hardest_row(data: Split, outputs: Tensor) -> int:
    """Return the held-out row with the smallest margin of its own class, or the largest error.

    Rows of a class that no training row has are passed over.
    """
    if data.labels is None or data.labels_t is None:
        return int((outputs - data.yt).norm(dim=1).argmax())
    own = data.labels_t[:, None]
    outputs = outputs + data.mean
    lead = outputs.gather(1, own)[:, 0] - outputs.scatter(1, own, -torch.inf).max(1).values
    lead[~torch.isin(data.labels_t, data.labels)] = torch.inf
    return int(lead.argmin())


class _Clock:
    """Times the stages and tells `progress` about them."""

    def __init__(self, progress: Callable[[int, int, str], object]) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.begin = 0.0

    def __enter__(self) -> None:
        self.begin = time.perf_counter()
        self.progress(0, len(STAGES), STAGES[0])

    def next(self) -> None:
        now = time.perf_counter()
        self.seconds[STAGES[len(self.seconds)]] = now - self.begin
        self.begin = now
        done = len(self.seconds)
        self.progress(done, len(STAGES), STAGES[done] if done < len(STAGES) else "done")

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.next()
