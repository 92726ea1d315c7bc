"""Suspect labels are found by exact leave-one-out predictions."""

from dataclasses import replace

import numpy as np
import torch

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence.suspects import ask_suspects, find_suspects
from ridgeformer.solving import solve
from ridgeformer.solving.selection import choose_exponential


def test_flipped_labels_come_first():
    digits = datasets.load("digits", limit=400)
    generator = np.random.default_rng(0)
    flipped = generator.choice(400, 20, replace=False)
    y = digits.y.copy()
    y[flipped] = (y[flipped] + generator.integers(1, 10, 20)) % 10
    found = ask_suspects(replace(digits, y=y), points=20)
    assert len(set(flipped) & {point.row for point in found.points}) >= 16


def test_each_prediction_is_made_without_the_row():
    wine = datasets.load("wine")
    split = Split.of(wine, test_fraction=0.0)
    kernel, chosen = choose_exponential(split.X, split.y)
    found = find_suspects(split, solve(kernel, split.X, split.y, chosen.ridge, algorithm="direct"), most=1)
    (point,) = found.points
    keep = torch.from_numpy(split.rows != point.row)
    again = solve(kernel, split.X[keep], split.y[keep], chosen.ridge).predict(split.X[~keep])[0] + split.mean
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
