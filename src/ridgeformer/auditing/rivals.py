"""The methods of scikit-learn in the field, and the kernel of attention on centres: their settings and their fits."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from ridgeformer.algorithms import Centres
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.errors import LogitRangeError
from ridgeformer.datasets import Split
from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge
from ridgeformer.kernels import mean_square_length
from ridgeformer.solving.tuning import Axis, Choice, attention_kernel, make_folds

__all__ = ["CENTRES", "fit_quietly", "make_rivals", "out_of_fold"]

Array: TypeAlias = NDArray[np.float64]
Rival: TypeAlias = tuple[dict[str, Axis], Callable[..., Any]]

CENTRES = 1000
"""Centres of the kernel of attention where a table has more rows than a direct solution takes."""


def make_rivals(split: Split, settings: Settings, *, tuning: bool = False) -> dict[str, Rival]:
    """Return, for every method, the ranges of its settings and the estimator for a choice of them.

    While `tuning`, a forest has half of its trees: their number moves its errors by noise only.
    """
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
        return kind(
            max(1, trees // 2) if tuning else trees,
            min_samples_leaf=int(leaf),
            max_features=float(features),
            random_state=seed,
        )

    def boosting(rate: float, leaves: float, iterations: float) -> Any:
        kind = ensemble.HistGradientBoostingClassifier if classes else ensemble.HistGradientBoostingRegressor
        small = min(20, max(2, len(split.X) // 10))
        model = kind(
            learning_rate=rate, max_leaf_nodes=int(leaves), max_iter=int(iterations), early_stopping=False,
            min_samples_leaf=small, random_state=seed,
        )  # fmt: skip
        if several:
            from sklearn.multioutput import MultiOutputRegressor

            return MultiOutputRegressor(model)
        return model

    length = mean_square_length(split.X)

    def centres(relative_temperature: float, relative_ridge: float) -> Any:
        kernel = attention_kernel(split, relative_temperature * length)
        ridge = relative_ridge * float(kernel.diagonal(split.X).mean())
        kind = AttentionKernelClassifier if classes else AttentionKernelRidge
        return kind(kernel, ridge=ridge, algorithm=Centres(count=min(CENTRES, len(split.X) // 2)), random_state=seed)

    made: dict[str, Callable[..., Any]] = {
        "constant": constant, "linear": linear, "neighbours": neighbours, "forest": forest, "boosting": boosting,
        "centres": centres,
    }  # fmt: skip
    ranges = _ranges(split, settings)
    return {key: (ranges.get(key, {}), make) for key, make in made.items()}


def _ranges(split: Split, settings: Settings) -> dict[str, dict[str, Axis]]:
    """Return the range of every setting of every method, simplest value first."""
    folds, trees = make_folds(split, settings.seed), settings.trees
    smallest = float(max(1, min((folds != fold).sum() for fold in np.unique(folds[folds >= 0])) // 2))
    temperatures, ridges = settings.temperatures, settings.ridges
    return {
        "linear": {"strength": Axis(1e5, 1e-3, least=1e-6, most=1e8, smoothing=True)},
        "neighbours": {"k": Axis(min(128.0, smallest), 1.0, 1.0, smallest, whole=True, smoothing=True)},
        "forest": {
            "leaf": Axis(8.0, 1.0, 1.0, smallest, whole=True, smoothing=True),
            "features": Axis(0.1, 1.0, most=1.0),
        },
        "boosting": {
            "rate": Axis(0.05, 0.2, least=0.003, most=1.0),
            "leaves": Axis(4.0, 16.0, 2.0, 255.0, whole=True, smoothing=True),
            "iterations": Axis(max(2.0, float(trees // 4)), 2.0 * trees, 1.0, 8.0 * trees, whole=True),
        },
        "centres": {
            "relative_temperature": Axis(temperatures[0], temperatures[-1]),
            "relative_ridge": Axis(ridges[0], ridges[-1], least=1e-6, most=10.0 * len(split.X), smoothing=True),
        },
    }


def fit_quietly(estimator: BaseEstimator, split: Split, rows: NDArray[Any] | slice, X: Array) -> tuple[Any, Array]:
    """Fit an estimator of scikit-learn on training rows and predict others: probabilities, or numbers as given.

    With one class among the rows that class is predicted. Warnings about convergence are of no interest here: a fit
    that stops early is judged as it is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if split.labels is None:
            y = split.dataset.targets()[split.rows][rows]
            estimator.fit(split.X.numpy()[rows], y[:, 0] if y.shape[1] == 1 else y)
            return estimator, np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)
        codes = split.labels.numpy()[rows]
        found = np.zeros((len(X), len(split.classes)))
        if len(np.unique(codes)) == 1:
            found[:, codes[0]] = 1.0
            return estimator, found
        estimator.fit(split.X.numpy()[rows], codes)
        found[:, estimator.classes_] = estimator.predict_proba(X)
        return estimator, found


def out_of_fold(
    split: Split, folds: NDArray[np.int64], make: Callable[..., Any], choices: Sequence[Choice]
) -> list[Array | None]:
    """Return, for each choice of settings, the prediction for each training row by the fit to the other folds.

    Rows in fold -1 are in every fit and get NaN: they judge none. Choices of gradient boosting that differ in their
    iterations alone share a fit, as the ridges of a kernel share an eigendecomposition.
    """
    found: list[Array | None] = [None] * len(choices)
    shared: dict[tuple[float, ...], list[int]] = {}
    for place, choice in enumerate(choices):
        alike = tuple(value for name, value in choice.items() if name != "iterations")
        shared.setdefault(alike, []).append(place)
    for places in shared.values():
        longest = max(places, key=lambda place: choices[place].get("iterations", 0.0))
        try:
            estimator = make(**choices[longest])
        except LogitRangeError:
            continue
        staged = hasattr(estimator, "staged_predict") and len(places) > 1
        if not staged and len(places) > 1:  # several targets: one booster each
            for place in places:
                found[place] = out_of_fold(split, folds, make, [choices[place]])[0]
            continue
        for place in places:
            found[place] = np.full((len(split.X), split.y.shape[1]), np.nan)
        for fold in np.unique(folds[folds >= 0]):
            held = folds == fold
            X = split.X.numpy()[held]
            model, outputs = fit_quietly(clone(estimator), split, ~held, X)
            for place in places:
                stage = int(choices[place]["iterations"]) if staged else 0
                found[place][held] = _at_stage(model, stage, X, outputs) if place != longest else outputs  # type: ignore[index]
    return found


def _at_stage(model: Any, stage: int, X: Array, outputs: Array) -> Array:
    """Return what boosting predicts after this many iterations; `outputs` are those after all of them."""
    if not hasattr(model, "n_iter_"):  # one class only, so that nothing was fitted
        return outputs
    steps = getattr(model, "staged_predict_proba", model.staged_predict)(X)
    found = next(itertools.islice(steps, stage - 1, None)).reshape(len(X), -1)
    if found.shape[1] == outputs.shape[1]:
        return np.asarray(found)
    every = np.zeros_like(outputs)
    every[:, model.classes_] = found
    return every
