"""Flipped labels found again: exact leave-one-out of the kernel fit beside cleanlab and simple baselines.

A twentieth of the labels is changed to another class, uniformly. Each method ranks all rows, most suspect first; the
precision at k is the fraction of the first k rows whose label was changed, k being the number of changes. All see the
same rows of unit length. Times are processor seconds of one thread, tuning and cross-validation included.

Usage: python benchmarks/suspect_labels.py [--data digits mnist] [--rows 5000] [--seeds 5]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import torch
from harness import report
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from ridgeformer import datasets
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.core.statistics import mean_interval
from ridgeformer.datasets import Dataset, Split
from ridgeformer.estimators import AttentionKernelClassifier
from ridgeformer.influence.suspects import label_margins
from ridgeformer.solving import solve
from ridgeformer.solving.tuning import choose_attention

FLIPPED, FOLDS, NEIGHBOURS = 0.05, 5, 10
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)

Ranked = NDArray[np.int64]


def flip(data: Dataset, seed: int) -> tuple[Dataset, NDArray[np.bool_]]:
    """Return the dataset with a twentieth of its labels changed, and which."""
    g = numpy_generator(seed, "flipped labels", data.name)
    wrong = np.zeros(data.n, dtype=bool)
    wrong[g.choice(data.n, round(FLIPPED * data.n), replace=False)] = True
    y, classes = data.y.copy(), len(data.classes)
    y[wrong] = (y[wrong] + g.integers(1, classes, int(wrong.sum()))) % classes
    return replace(data, y=y), wrong


def ours(split: Split) -> Ranked:
    """Rank by the lead of another class over the own one in exact leave-one-out predictions, as `--suspects` does."""
    kernel, ridge = choose_attention(split)
    fit = solve(kernel, split.X, split.y, ridge, algorithm="direct")
    return label_margins(split, fit).argsort(descending=True, stable=True).numpy()


def logistic(split: Split) -> NDArray[np.float64]:
    """Return cross-validated probabilities of logistic regression, with the strength of least log loss."""
    assert split.labels is not None
    y = split.labels.numpy()
    found = [_cross_validated(LogisticRegression(C=C, max_iter=300), split) for C in STRENGTHS]
    return min(found, key=lambda p: log_loss(y, p))


def kernel_classifier(split: Split) -> NDArray[np.float64]:
    """Return the same of the kernel classifier, with the same choice of temperature and ridge as ours."""
    kernel, ridge = choose_attention(split)
    return _cross_validated(AttentionKernelClassifier(kernel, ridge=ridge, algorithm="direct"), split)


def _cross_validated(model: object, split: Split) -> NDArray[np.float64]:
    assert split.labels is not None
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    X, y = split.X.numpy(), split.labels.numpy()
    p = np.clip(cross_val_predict(model, X, y, cv=folds, method="predict_proba"), 1e-9, None)
    return np.asarray(p / p.sum(1, keepdims=True))


def cleanlab_issues(probabilities: Callable[[Split], NDArray[np.float64]]) -> Callable[[Split], Ranked]:
    """Rank the rows that cleanlab calls issues first, and all by its label quality."""

    def rank(split: Split) -> Ranked:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        assert split.labels is not None
        y, p = split.labels.numpy(), probabilities(split)
        issues = find_label_issues(y, p, return_indices_ranked_by="self_confidence", n_jobs=1)
        rest = np.argsort(get_label_quality_scores(y, p), kind="stable")
        return np.concatenate([issues, rest[~np.isin(rest, issues)]])

    return rank


def cleanlab_quality(probabilities: Callable[[Split], NDArray[np.float64]]) -> Callable[[Split], Ranked]:
    """Rank by cleanlab's label quality, by default the cross-validated probability of the own label."""

    def rank(split: Split) -> Ranked:
        from cleanlab.rank import get_label_quality_scores

        assert split.labels is not None
        quality = get_label_quality_scores(split.labels.numpy(), probabilities(split))
        return np.asarray(np.argsort(quality, kind="stable"))

    return rank


def neighbours(split: Split) -> Ranked:
    """Rank by how few of the ten nearest other rows have the same label."""
    assert split.labels is not None
    X, y = split.X.numpy(), split.labels.numpy()
    near = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(X).kneighbors(X)[1][:, 1:]
    return np.asarray(np.argsort((y[near] == y[:, None]).mean(1), kind="stable"))


METHODS: dict[str, Callable[[Split], Ranked]] = {
    "ridgeformer, exact leave-one-out": ours,
    "cleanlab's issues, logistic regression": cleanlab_issues(logistic),
    "cleanlab's quality, logistic regression": cleanlab_quality(logistic),
    "cleanlab's issues, the same kernel classifier": cleanlab_issues(kernel_classifier),
    "cleanlab's quality, the same kernel classifier": cleanlab_quality(kernel_classifier),
    "disagreement of ten neighbours": neighbours,
}


def run(name: str, rows: int, seeds: int) -> list[dict[str, object]]:
    """Return one row a method: its precision at k over the seeds, and its time."""
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    whole = datasets.load(name, limit=rows)
    count = 0
    for seed in range(seeds):
        data, wrong = flip(whole, seed)
        split = Split.of(data, test_fraction=0.0, max_rows=data.n)
        count = int(wrong.sum())
        for method, rank in METHODS.items():
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                order = rank(split)
            seconds[method] += (time.process_time() - begin) / seeds
            found[method].append(float(wrong[split.rows][order[:count]].mean()))
            print(f"  {name}, seed {seed}, {method}: {found[method][-1]:.3f}", flush=True)
    rows_made = []
    for method, values in found.items():
        low, high = mean_interval(values)
        lead = mean_interval(np.array(found["ridgeformer, exact leave-one-out"]) - np.array(values))
        rows_made.append(
            {
                "data": name, "rows": whole.n, "flipped": count, "method": method,
                "precision at k": f"{np.mean(values):.3f}",
                "95 % interval": "" if low is None or high is None else f"{low:.3f} to {high:.3f}",
                "ridgeformer's lead": "" if lead[0] is None or method.startswith("ridgeformer")
                else f"{lead[0]:+.3f} to {lead[1]:+.3f}",
                "processor seconds": f"{seconds[method]:.1f}",
            }
        )  # fmt: skip
    return rows_made


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["digits", "mnist"])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for name in given.data for row in run(name, given.rows, given.seeds)]
    settings = {"fraction flipped": FLIPPED, "folds": FOLDS, "seeds": given.seeds, "cleanlab": version("cleanlab")}
    how = f"`OMP_NUM_THREADS=1 python benchmarks/suspect_labels.py --data {' '.join(given.data)} --rows {given.rows} "
    how += f"--seeds {given.seeds}`"
    report("suspect_labels", settings, rows, how)


if __name__ == "__main__":
    main()
