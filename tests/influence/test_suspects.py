"""Suspect labels are found by exact leave-one-out predictions."""

from dataclasses import replace

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence.suspects import ask_suspects, find_suspects
from ridgeformer.solving import solve
from ridgeformer.solving.tuning import choose_attention


def flip(digits, seed):
    generator = np.random.default_rng(seed)
    flipped = generator.choice(digits.n, digits.n // 20, replace=False)
    y = digits.y.copy()
    y[flipped] = (y[flipped] + generator.integers(1, 10, len(flipped))) % 10
    return replace(digits, y=y), set(flipped.tolist())


def test_flipped_labels_come_first():
    """As many are found as by what anyone would try first: counting the ten nearest neighbours that disagree.

    Three draws of 20 flips in 400 rows. Both find most of them, and neither has an edge over the other that so few
    draws could show: a difference of 60 paired counts of which at most a fifth differ has a standard error of 3.5, and
    one of more than two of these, 7, says that one is worse.
    """
    digits = datasets.load("digits", limit=400)
    ours = neighbours = fitted = 0
    for seed in range(3):
        data, flipped = flip(digits, seed)
        found = ask_suspects(data, points=20)
        ours += len(flipped & {point.row for point in found.points})
        near = NearestNeighbors(n_neighbors=11).fit(data.X).kneighbors(data.X)[1][:, 1:]
        agree = (data.y[near] == data.y[:, None]).mean(1)
        neighbours += len(flipped & set(agree.argsort(kind="stable")[:20].tolist()))
        fitted += len(flipped & set(_by_fitted_values(data)[:20]))
    assert ours >= neighbours - 7
    assert fitted < neighbours - 7  # predictions that have seen the row's own label do not pass


def _by_fitted_values(data):
    """Return the rows, most suspect first, by a fit that has seen and, with little ridge, followed their labels."""
    split = Split.of(data, test_fraction=0.0)
    kernel, ridge = choose_attention(split)
    fit = solve(kernel, split.X, split.y, ridge / 100, algorithm="direct")
    full = fit.predict(split.X) + split.mean
    own = full.gather(1, split.labels[:, None])[:, 0]
    margin = full.scatter(1, split.labels[:, None], -torch.inf).max(1).values - own
    return split.rows[margin.argsort(descending=True).numpy()].tolist()


def test_each_prediction_is_made_without_the_row():
    wine = datasets.load("wine")
    split = Split.of(wine, test_fraction=0.0)
    kernel, ridge = choose_attention(split)
    found = find_suspects(split, solve(kernel, split.X, split.y, ridge, algorithm="direct"), most=1)
    (point,) = found.points
    keep = torch.from_numpy(split.rows != point.row)
    again = solve(kernel, split.X[keep], split.y[keep], ridge).predict(split.X[~keep])[0] + split.mean
    own = int(wine.y[point.row])
    others = torch.cat([again[:own], again[own + 1 :]])
    assert abs(float(others.max() - again[own]) - point.margin) < 1e-6
    assert point.predicted == wine.classes[int(again.argmax())] != point.label


def test_a_number_far_off_is_suspect():
    X = np.random.default_rng(0).standard_normal((80, 2))
    y = X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(80)
    y[13] += 5
    found = ask_suspects(datasets.Dataset("line", X, y))
    assert found.points[0].row == 13
    assert "Check row 13 first" in found.sentences[1]
    clean = ask_suspects(datasets.Dataset("line", X, X[:, 0]))
    assert clean.contradicted < 5
