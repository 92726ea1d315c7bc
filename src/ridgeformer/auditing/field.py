"""The field: the certified fit and the methods it has to beat, tuned by one rule, judged on the same held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.auditing.certified import Certified
from ridgeformer.auditing.rivals import CENTRES, fit_quietly, make_rivals, out_of_fold
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.statistics import (
    LEVEL,
    Paired,
    compare_by_class,
    compare_paired,
    mean_interval,
    proportion_interval,
)
from ridgeformer.datasets import Split
from ridgeformer.kernels import Gaussian, Kernel, mean_square_length
from ridgeformer.solving import Fit, solve
from ridgeformer.solving.tuning import (
    Axis,
    Tuned,
    attention_kernel,
    class_odds,
    make_folds,
    probabilities,
    tune,
    tune_kernel,
)

__all__ = ["METHODS", "OWN", "Field", "Scored", "run_field"]

OWN = "attention"
"""The method whose fit is certified, compiled and explained."""

METHODS = {
    OWN: ("Regression with the kernel of attention", "exponential kernel: the fixed point of a deep transformer"),
    "constant": ("Constant", "the mean of the target, or the frequencies of the classes"),
    "linear": ("A linear model", "ridge regression, or logistic regression: linear attention's reach"),
    "smoother": ("Nadaraya-Watson", "one softmax attention head: a kernel average"),
    "neighbours": ("Nearest neighbours", "the mean of the nearest training rows"),
    "gaussian": ("Regression with a Gaussian kernel", "the usual kernel of distances"),
    "centres": (
        "Regression with the kernel of attention on all rows",
        f"coefficients on {CENTRES:,} centres only (Nystrom)",
    ),
    "forest": ("A random forest", "an average of deep trees"),
    "boosting": ("Gradient-boosted trees", "a sum of shallow trees, fitted one after another"),
}
"""Name and description of every method, the simplest of the others first."""

FEW_ROWS = 50
"""Held-out rows below which every comparison is too coarse to act on."""

SAMPLED = (OWN, "gaussian")
"""Methods that are solved directly, so on a sample of the rows where there are many."""

TUNED_ROWS, SCORED_ROWS, TILE = 6000, 2000, 256
"""Training rows on which settings are chosen at most, training rows scored at most, and rows predicted at once."""


@dataclass(frozen=True, eq=False)
class Scored:
    """One method: what was chosen for it and how well it does on held-out rows.

    Attributes:
        key, name, what: Of the method.
        choices: The settings chosen, one dictionary a split; held-out rows had no say.
        rows: Training rows it was fitted to, in the first split.
        tried: Settings tried in the first split.
        on_edge: Whether a choice still lies on the edge of its grid.
        outputs: Predictions at the held-out rows: class probabilities, or numbers in the target's unit.
        decided: The class codes that are decided for, or None.
        row_scores: What each held-out row adds to the score, which is their mean.
        train_score: The score on the training rows of the first split, or on 2,000 of them.
        seconds: Tuning, fitting and predicting.
        models: The fitted estimator of every split; None for the certified fit, which is no estimator.
    """

    key: str
    name: str
    what: str
    choices: tuple[dict[str, float], ...]
    rows: int
    tried: int
    on_edge: bool
    outputs: NDArray[np.float64] = field(repr=False)
    decided: NDArray[np.int64] | None = field(repr=False)
    row_scores: NDArray[np.float64] = field(repr=False)
    train_score: float
    seconds: float
    models: tuple[Any, ...] = field(repr=False)

    @property
    def spoken(self) -> str:
        """The name inside a sentence."""
        proper = self.name.startswith("Nadaraya")
        return self.name if proper else self.name[0].lower() + self.name[1:]

    @property
    def reaches(self) -> str:
        """The verb that goes with the name: trees and neighbours are several."""
        return "reach" if self.key in ("neighbours", "boosting") else "reaches"

    @property
    def test_score(self) -> float:
        """Accuracy (balanced for imbalanced classes), or R^2."""
        return float(self.row_scores.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the test score over draws of as many test rows: exact for classes, else Student's t."""
        if np.isin(self.row_scores, (0, 1)).all():
            return proportion_interval(int(self.row_scores.sum()), len(self.row_scores))
        low, high = mean_interval(self.row_scores)
        return (self.test_score, self.test_score) if low is None or high is None else (low, high)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        kept = ("key", "name", "what", "rows", "tried", "on_edge", "train_score", "seconds")
        facts = {name: getattr(self, name) for name in kept}
        return {**facts, "choices": list(self.choices), "test_score": self.test_score, "interval": list(self.interval)}


@dataclass(frozen=True, eq=False)
class Field:
    """All methods on the same held-out rows.

    Attributes:
        scored: The certified fit first, then the others from simple to complex.
        rows: The number of every held-out row in the dataset.
        truth: Its class code, or its targets.
        task: Classification or regression.
        balanced: Whether classes are imbalanced, so that each counts alike in decisions and scores.
        splits: Number of splits: with few rows, every row is held out once.
    """

    scored: tuple[Scored, ...]
    rows: NDArray[np.int64]
    truth: NDArray[Any]
    task: str
    balanced: bool
    splits: int

    @property
    def own(self) -> Scored:
        """The certified fit."""
        return self.of(OWN)

    @property
    def others(self) -> tuple[Scored, ...]:
        """Every method but the certified fit and the constant."""
        return tuple(one for one in self.scored if one.key not in (OWN, "constant"))

    @property
    def best(self) -> Scored:
        """The method of the highest score; the certified fit among equals."""
        return max(self.scored, key=lambda one: one.test_score)

    def of(self, key: str) -> Scored:
        """Return the method of this key."""
        return next(one for one in self.scored if one.key == key)

    def compare(self, one: Scored, other: Scored) -> Paired:
        """Compare two methods row by row, at a level that holds for all comparisons of one method at once.

        Where classes count alike, so do they in the comparison; see `compare_by_class`.
        """
        level = 1 - (1 - LEVEL) / max(1, len(self.scored) - 1)
        if not self.balanced or one.decided is None or other.decided is None:
            return compare_paired(one.row_scores, other.row_scores, level=level)
        return compare_by_class(one.decided == self.truth, other.decided == self.truth, self.truth, level=level)

    @property
    def learnt(self) -> tuple[Scored, ...]:
        """The methods that predict better than the constant, beyond chance.

        They must have a higher score than the constant has. Classes that are about even are compared row by row. For
        numbers and rare classes either the difference or the ranks of the predictions must be beyond chance, each at
        half of the level: where a few rows decide the score, their number says little about the difference. Ranks are
        not misled by them, and without anything to learn predictions are independent of held-out targets.
        """
        constant = self.of("constant")
        found = []
        for one in self.scored:
            paired = self.compare(one, constant)
            if one is constant or not paired.lead > 0:
                continue
            few = self.task == "regression" or self.balanced
            p = 2 * min(paired.p, _no_association(self.truth, one)) if few else paired.p
            if p <= 1 - paired.level:
                found.append(one)
        return tuple(found)

    @property
    def unbeaten(self) -> tuple[Scored, ...]:
        """The methods that are not significantly worse than the best one."""
        best = self.best
        return tuple(one for one in self.scored if one is best or not self.compare(best, one).significant)


def _no_association(truth: NDArray[Any], one: Scored) -> float:
    """Return the one-sided p-value that predictions do not rise with the truth: Spearman's, or Mann and Whitney's.

    It holds for the best of several targets or classes.
    """
    from scipy.stats import mannwhitneyu, spearmanr

    if one.decided is not None:
        parts = [(one.outputs[truth == k, k], one.outputs[truth != k, k]) for k in np.unique(truth)]
        found = [float(mannwhitneyu(own, rest, alternative="greater").pvalue) for own, rest in parts if len(rest)]
        return min(1.0, len(found) * min(found, default=1.0))
    found = [
        float(spearmanr(outputs, column, alternative="greater").pvalue) if np.ptp(outputs) and np.ptp(column) else 1.0
        for outputs, column in zip(one.outputs.T, truth.T, strict=True)
    ]
    return min(1.0, len(found) * min(found))


def run_field(splits: Sequence[Split], settings: Settings, wide: Split | None = None) -> tuple[Field, Certified]:
    """Tune, fit and judge every method on each split; the fit of the first split is certified.

    Args:
        splits: What to hold out; one split, or several of few rows.
        settings: The methods and their budget.
        wide: The first split with all its training rows, where those are more than a direct solution takes. Methods
            that are not solved directly are fitted to them, with settings chosen on 6,000 of them at most.
    """
    first = splits[0]
    rows = np.concatenate([split.rows_t for split in splits])
    dataset = first.dataset
    truth = dataset.y[rows] if first.labels is not None else dataset.targets()[rows]
    balanced = first.labels is not None and bool((class_odds(first) != 1).any())
    weight = _row_weights(truth, balanced)
    fits: list[Fit] = []
    scored = []
    for key in METHODS:
        if key not in settings.methods or (key == "centres" and wide is None):
            continue
        begin = time.perf_counter()
        given = splits if wide is None or key in SAMPLED else (wide,)
        entered = [_enter(key, split, settings, balanced, fits) for split in given]
        outputs = np.concatenate([one.outputs for one in entered])
        parts = [one.decided for one in entered if one.decided is not None]
        decided = np.concatenate(parts) if parts else None
        name, what = METHODS[key]
        scored.append(
            Scored(
                key, name, what, tuple(one.tuned.chosen for one in entered), len(given[0].X), entered[0].tuned.tried,
                any(one.tuned.on_edge for one in entered), outputs, decided,
                _row_scores(truth, outputs, decided, weight),
                entered[0].train_score, time.perf_counter() - begin, tuple(one.model for one in entered),
            )
        )  # fmt: skip
    return Field(tuple(scored), rows, truth, first.task, balanced, len(splits)), Certified.of(first, fits[0])


def _row_weights(truth: NDArray[Any], balanced: bool) -> NDArray[np.float64]:
    """Return the weight of every row: such that each class counts alike where classes are imbalanced."""
    if not balanced:
        return np.ones(len(truth))
    counts = np.bincount(truth)
    return np.asarray(len(truth) / (counts[truth] * (counts > 0).sum()))


def _row_scores(
    truth: NDArray[Any], outputs: NDArray[np.float64], decided: NDArray[np.int64] | None, weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    if decided is not None:
        return np.asarray(weight * (decided == truth))
    spread = ((truth - truth.mean(0)) ** 2).mean(0)
    return np.asarray(1 - ((truth - outputs) ** 2 / np.where(spread > 0, spread, 1.0)).mean(1))


@dataclass(frozen=True, eq=False)
class _Entered:
    tuned: Tuned
    model: Any
    outputs: NDArray[np.float64]
    decided: NDArray[np.int64] | None
    train_score: float


def _enter(key: str, split: Split, settings: Settings, balanced: bool, fits: list[Fit]) -> _Entered:
    """Choose the settings of a method on the folds of the training rows, fit it to all of them, predict the rest."""
    some = np.linspace(0, len(split.X) - 1, min(len(split.X), SCORED_ROWS)).astype(int)
    X = torch.cat([split.Xt, split.X[some]])
    model = None
    if key in (*SAMPLED, "smoother"):
        tuned, predict = _tune_smoother(split, settings) if key == "smoother" else _direct(key, split, settings, fits)
        outputs = torch.cat([predict(part) for part in X.split(TILE)]) + split.mean
        found = outputs.numpy() if split.labels is None else probabilities(outputs.numpy())
    else:
        small = _tuning_part(split, settings)
        axes, make = make_rivals(small, settings, tuning=True)[key]
        folds = make_folds(small, settings.seed)
        tuned = Tuned({}, 1, False)
        if axes:
            tuned = tune(small, axes, lambda choices: out_of_fold(small, folds, make, choices), settings.tries)
        make = make_rivals(split, settings)[key][1]
        model, found = fit_quietly(make(**tuned.chosen), split, slice(None), X.numpy())
    decided = None if split.labels is None else (found * class_odds(split, balanced)).argmax(1)
    held = len(split.Xt)
    truth = (split.y + split.mean).numpy()[some] if split.labels is None else split.labels.numpy()[some]
    scores = _row_scores(
        truth, found[held:], None if decided is None else decided[held:], _row_weights(truth, balanced)
    )
    return _Entered(tuned, model, found[:held], None if decided is None else decided[:held], float(scores.mean()))


def _tuning_part(split: Split, settings: Settings) -> Split:
    return split if len(split.X) <= TUNED_ROWS else split.with_training_rows(TUNED_ROWS, seed=settings.seed)


def _direct(key: str, split: Split, settings: Settings, fits: list[Fit]) -> tuple[Tuned, Callable[[Tensor], Tensor]]:
    """Return kernel ridge regression with one of two kernels, solved directly; that of attention is kept."""

    def make(temperature: float) -> Kernel:
        return attention_kernel(split, temperature) if key == OWN else Gaussian(temperature)

    tuned = tune_kernel(
        split, make, seed=settings.seed, tries=settings.tries, temperatures=settings.temperatures,
        ridges=settings.ridges,
    )  # fmt: skip
    fit = solve(make(tuned.chosen["temperature"]), split.X, split.y, tuned.chosen["ridge"], algorithm="direct")
    if key == OWN:
        fits.append(fit)
    return tuned, lambda X: fit.predict(X).nan_to_num(nan=0.0)


def _tune_smoother(split: Split, settings: Settings) -> tuple[Tuned, Callable[[Tensor], Tensor]]:
    """Return one softmax attention head over all training rows; it wants lower temperatures than regression does."""
    small = _tuning_part(split, settings)
    length, folds = mean_square_length(small.X), torch.from_numpy(make_folds(small, settings.seed))
    targets, judges = small.y + small.mean, folds >= 0

    def predict(choices: list[Any]) -> list[Any]:
        found = [np.full(targets.shape, np.nan) for _ in choices]
        for rows in torch.nonzero(judges)[:, 0].split(TILE * 4):
            gram = small.X[rows] @ small.X.T
            gram = gram.masked_fill(folds[rows, None] == folds[None, :], -torch.inf)
            for one, choice in zip(found, choices, strict=True):
                outputs = ((gram / (choice["temperature"] * length)).softmax(dim=1) @ targets).numpy()
                one[rows.numpy()] = outputs if small.labels is None else probabilities(outputs)
        return found

    high, low = settings.temperatures[0], settings.temperatures[-1]
    tuned = tune(small, {"temperature": Axis(high, low if low == high else low / 64)}, predict, settings.tries)
    tuned = replace(tuned, chosen={"temperature": tuned.chosen["temperature"] * length})
    return tuned, lambda X: (X @ split.X.T / tuned.chosen["temperature"]).softmax(dim=1) @ split.y
