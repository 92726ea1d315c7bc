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
from ridgeformer.auditing.settings import Settings
from ridgeformer.auditing.tuning import (
    Axis,
    Tuned,
    class_odds,
    fit_quietly,
    kernel_out_of_fold,
    out_of_fold,
    probabilities,
    tune,
)
from ridgeformer.core.errors import LogitRangeError
from ridgeformer.core.statistics import LEVEL, Paired, compare_paired, mean_interval, proportion_interval
from ridgeformer.datasets import Split
from ridgeformer.datasets.split import number_folds
from ridgeformer.kernels import Exponential, Gaussian, Kernel, mean_square_length
from ridgeformer.solving import Fit, solve

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
    "forest": ("A random forest", "an average of deep trees"),
    "boosting": ("Gradient-boosted trees", "a sum of shallow trees, fitted one after another"),
}
"""Name and description of every method, the simplest of the others first."""

MANY_ROWS = 1000
"""Fewest training rows at which methods are tuned on one held-out third instead of five folds."""


@dataclass(frozen=True, eq=False)
class Scored:
    """One method: what was chosen for it and how well it does on held-out rows.

    Attributes:
        key, name, what: Of the method.
        choices: The settings chosen, one dictionary a split; held-out rows had no say.
        tried: Settings tried in the first split.
        on_edge: Whether a choice still lies on the edge of its grid.
        outputs: Predictions at the held-out rows: class probabilities, or numbers in the target's unit.
        decided: The class codes that are decided for, or None.
        row_scores: What each held-out row adds to the score, which is their mean.
        train_score: The score on the training rows of the first split.
        seconds: Tuning, fitting and predicting.
        models: The fitted estimator of every split; None for the certified fit, which is no estimator.
    """

    key: str
    name: str
    what: str
    choices: tuple[dict[str, float], ...]
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
        kept = ("key", "name", "what", "tried", "on_edge", "train_score", "seconds")
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

        Where classes count alike, the difference is the mean over classes of that within the class, and its variance
        adds up likewise, wins and losses of each class counted as Agresti and Min do (half of one added to both).
        """
        level = 1 - (1 - LEVEL) / max(1, len(self.scored) - 1)
        if not self.balanced or one.decided is None or other.decided is None:
            return compare_paired(one.row_scores, other.row_scores, level=level)
        from scipy.stats import norm

        difference = (one.decided == self.truth).astype(int) - (other.decided == self.truth)
        classes = [difference[self.truth == code] for code in np.unique(self.truth)]
        lead = float(np.mean([part.mean() for part in classes]))
        variance = 0.0
        for part in classes:
            n, won, lost = len(part) + 2, (part > 0).sum() + 0.5, (part < 0).sum() + 0.5
            variance += float(((won + lost) / n - ((won - lost) / n) ** 2) / n) / len(classes) ** 2
        half = float(norm.ppf((1 + level) / 2)) * variance**0.5
        p = 1.0 if not difference.any() else float(2 * norm.sf(abs(lead) / variance**0.5))
        return Paired(
            lead, lead - half, lead + half, int((difference > 0).sum()), int((difference < 0).sum()), p, level
        )

    @property
    def learnt(self) -> tuple[Scored, ...]:
        """The methods that are significantly better than the constant."""
        constant = self.of("constant")
        found = [(one, self.compare(one, constant)) for one in self.scored if one is not constant]
        return tuple(one for one, paired in found if paired.significant and paired.lead > 0)

    @property
    def unbeaten(self) -> tuple[Scored, ...]:
        """The methods that are not significantly worse than the best one."""
        best = self.best
        return tuple(one for one in self.scored if one is best or not self.compare(best, one).significant)


def run_field(splits: Sequence[Split], settings: Settings) -> tuple[Field, Certified]:
    """Tune, fit and judge every method on each split; the fit of the first split is certified."""
    first = splits[0]
    rows = np.concatenate([split.rows_t for split in splits])
    dataset = first.dataset
    truth = dataset.y[rows] if first.labels is not None else dataset.targets()[rows]
    weight = _row_weights(first, truth)
    fits: list[Fit] = []
    scored = []
    for key in METHODS:
        if key not in settings.methods:
            continue
        begin = time.perf_counter()
        entered = [_enter(key, split, settings, fits) for split in splits]
        outputs = np.concatenate([one.outputs for one in entered])
        parts = [one.decided for one in entered if one.decided is not None]
        decided = np.concatenate(parts) if parts else None
        name, what = METHODS[key]
        scored.append(
            Scored(
                key, name, what, tuple(one.tuned.chosen for one in entered), entered[0].tuned.tried,
                any(one.tuned.on_edge for one in entered), outputs, decided,
                _row_scores(truth, outputs, decided, weight),
                entered[0].train_score, time.perf_counter() - begin, tuple(one.model for one in entered),
            )
        )  # fmt: skip
    balanced = first.labels is not None and bool((class_odds(first) != 1).any())
    return Field(tuple(scored), rows, truth, first.task, balanced, len(splits)), Certified.of(first, fits[0])


def _row_weights(split: Split, truth: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weight of every held-out row: such that each class counts alike where classes are imbalanced."""
    if split.labels is None or not bool((class_odds(split) != 1).any()):
        return np.ones(len(truth))
    counts = np.bincount(truth, minlength=len(split.classes))
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


def _enter(key: str, split: Split, settings: Settings, fits: list[Fit]) -> _Entered:
    """Tune a method on the folds of the training rows, fit it to all of them, predict the held-out rows."""
    folds = _make_folds(split, settings)
    if key == OWN:
        tuned = _tune_kernel(split, folds, settings, lambda tau: _exponential(split, tau))
        kernel = _exponential(split, tuned.chosen["temperature"])
        fit = solve(kernel, split.X, split.y, tuned.chosen["ridge"], algorithm="direct")
        fits.append(fit)
        return _entered(split, tuned, None, lambda X: fit.predict(X).nan_to_num(nan=0.0))
    if key == "gaussian":
        tuned = _tune_kernel(split, folds, settings, Gaussian)
        fit = solve(Gaussian(tuned.chosen["temperature"]), split.X, split.y, tuned.chosen["ridge"], algorithm="direct")
        return _entered(split, tuned, None, fit.predict)
    if key == "smoother":
        tuned = _tune_smoother(split, folds, settings)

        def attend(X: Tensor) -> Tensor:
            return (X @ split.X.T / tuned.chosen["temperature"]).softmax(dim=1) @ split.y

        return _entered(split, tuned, None, attend)
    axes, make = _estimators(split, settings)[key]

    def predict(choices: list[Any]) -> list[Any]:
        return [out_of_fold(split, folds, make(**choice)) for choice in choices]

    tuned = tune(split, axes, predict, cross=False) if axes else Tuned({}, 1, False)
    model, outputs = fit_quietly(make(**tuned.chosen), split, slice(None), np.vstack([split.Xt, split.X]))
    return _judged(split, tuned, model, outputs[: len(split.Xt)], outputs[len(split.Xt) :])


def _make_folds(split: Split, settings: Settings) -> NDArray[np.int64]:
    """Return the fold of each training row: five, or with many rows one third that judges and a rest that does not."""
    count = 3 if len(split.X) >= MANY_ROWS else 5
    groups = split.dataset.groups
    if groups is not None:
        count = max(2, min(count, len(np.unique(groups[split.rows]))))
    folds = number_folds(split.dataset, split.rows, count, settings.seed)
    return np.where(folds == count - 1, 0, -1) if len(split.X) >= MANY_ROWS else folds


def _entered(split: Split, tuned: Tuned, model: Any, predict: Callable[[Tensor], Tensor]) -> _Entered:
    """Return predictions of centred outputs as probabilities, or as numbers in the target's unit."""

    def found(X: Tensor) -> NDArray[np.float64]:
        outputs = (predict(X) + split.mean).numpy()
        return outputs if split.labels is None else probabilities(outputs)

    return _judged(split, tuned, model, found(split.Xt), found(split.X))


def _judged(
    split: Split, tuned: Tuned, model: Any, outputs: NDArray[np.float64], training: NDArray[np.float64]
) -> _Entered:
    """Decide for classes, each counting alike where they are imbalanced, and score the training rows."""
    if split.labels is None:
        truth: NDArray[Any] = (split.y + split.mean).numpy()
        decided = decided_train = None
    else:
        odds, truth = class_odds(split), split.labels.numpy()
        decided, decided_train = (outputs * odds).argmax(1), (training * odds).argmax(1)
    score = float(_row_scores(truth, training, decided_train, _row_weights(split, truth)).mean())
    return _Entered(tuned, model, outputs, decided, score)


def _exponential(split: Split, temperature: float) -> Exponential:
    """Return the exponential kernel, scaled to a largest diagonal entry of one over the training rows."""
    kernel = Exponential(temperature)
    kernel.within_range(split.X)
    return replace(kernel, log_scale=kernel.largest_logit(split.X))


def _tune_kernel(split: Split, folds: NDArray[np.int64], settings: Settings, make: Callable[[float], Kernel]) -> Tuned:
    """Choose temperature and ridge, as multiples of the mean squared row length and of K's mean diagonal."""
    length = mean_square_length(split.X)
    scales: dict[float, float] = {}

    def predict(choices: list[Any]) -> list[Any]:
        found: dict[tuple[float, float], Any] = {}
        for tau in dict.fromkeys(choice["temperature"] for choice in choices):
            ridges = [choice["ridge"] for choice in choices if choice["temperature"] == tau]
            try:
                K = make(tau * length)(split.X)
                scales[tau] = float(K.diagonal().mean())
                predictions: list[Any] = kernel_out_of_fold(K, split, folds, [scales[tau] * ridge for ridge in ridges])
            except (LogitRangeError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
                predictions = [None] * len(ridges)
            found |= {(tau, ridge): one for ridge, one in zip(ridges, predictions, strict=True)}
        return [found[choice["temperature"], choice["ridge"]] for choice in choices]

    axes = {
        "temperature": Axis(tuple(sorted(settings.temperatures, reverse=True))),
        "ridge": Axis(
            tuple(sorted(settings.ridges, reverse=True)), least=1e-6, most=10.0 * len(split.X), smoothing=True
        ),
    }
    tuned = tune(split, axes, predict)
    tau, ridge = tuned.chosen["temperature"], tuned.chosen["ridge"]
    return replace(tuned, chosen={"temperature": tau * length, "ridge": ridge * scales[tau]})


def _tune_smoother(split: Split, folds: NDArray[np.int64], settings: Settings) -> Tuned:
    length, gram = mean_square_length(split.X), split.X @ split.X.T
    same = torch.from_numpy((folds[:, None] == folds[None, :]) & (folds >= 0))
    targets = split.y + split.mean

    def predict(choices: list[Any]) -> list[Any]:
        found = []
        for choice in choices:
            logits = (gram / (choice["temperature"] * length)).masked_fill(same, -torch.inf)
            outputs = (logits.softmax(dim=1) @ targets).numpy()
            outputs = outputs if split.labels is None else probabilities(outputs)
            found.append(np.where((folds >= 0)[:, None], outputs, np.nan))
        return found

    tuned = tune(split, {"temperature": Axis(tuple(sorted(settings.temperatures, reverse=True)))}, predict)
    return replace(tuned, chosen={"temperature": tuned.chosen["temperature"] * length})


def _estimators(split: Split, settings: Settings) -> dict[str, tuple[dict[str, Axis], Callable[..., Any]]]:
    """Return, for every method of scikit-learn, the grids of its settings and the estimator for a choice of them."""
    from sklearn import dummy, ensemble, linear_model, neighbors

    classes, seed, trees = split.labels is not None, settings.seed, settings.trees
    several = split.y.shape[1] > 1 and not classes

    def constant() -> Any:
        return dummy.DummyClassifier(strategy="prior") if classes else dummy.DummyRegressor()

    def linear(strength: float) -> Any:
        if classes:
            return linear_model.LogisticRegression(C=1 / strength, max_iter=300, tol=1e-3)
        return linear_model.Ridge(alpha=strength)

    def neighbours(k: float) -> Any:
        kind = neighbors.KNeighborsClassifier if classes else neighbors.KNeighborsRegressor
        return kind(n_neighbors=int(k))

    def forest(leaf: float, features: float) -> Any:
        kind = ensemble.RandomForestClassifier if classes else ensemble.RandomForestRegressor
        return kind(trees, min_samples_leaf=int(leaf), max_features=float(features), random_state=seed)

    def boosting(rate: float, leaves: float) -> Any:
        kind = ensemble.HistGradientBoostingClassifier if classes else ensemble.HistGradientBoostingRegressor
        small = min(20, max(2, len(split.X) // 10))
        model = kind(
            learning_rate=rate, max_leaf_nodes=int(leaves), max_iter=trees, early_stopping=False,
            min_samples_leaf=small, random_state=seed,
        )  # fmt: skip
        if several:
            from sklearn.multioutput import MultiOutputRegressor

            return MultiOutputRegressor(model)
        return model

    smallest = float(len(split.X) // 2)
    return {
        "constant": ({}, constant),
        "linear": ({"strength": Axis((100.0, 10.0, 1.0, 0.1, 0.01), least=1e-6, most=1e8, smoothing=True)}, linear),
        "neighbours": (
            {
                "k": Axis(
                    tuple(k for k in (27.0, 9.0, 3.0, 1.0) if k <= smallest), 1.0, smallest, whole=True, smoothing=True
                )
            },
            neighbours,
        ),
        "forest": (
            {"leaf": Axis((4.0, 1.0), 1.0, whole=True, smoothing=True), "features": Axis((0.33, 1.0), most=1.0)},
            forest,
        ),
        "boosting": (
            {
                "rate": Axis((0.05, 0.2), least=0.003, most=1.0),
                "leaves": Axis((4.0, 16.0), 2.0, whole=True, smoothing=True),
            },
            boosting,
        ),
    }
