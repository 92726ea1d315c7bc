"""Ten tables made for one case each, as a person would bring them: arrays, or files to be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ridgeformer import datasets
from ridgeformer.datasets import Dataset


def table(name: str, folder: Path, seed: int = 0) -> Dataset:
    """Return one of the tables by name."""
    return TABLES[name](np.random.default_rng(seed), folder)


def _classes(name, X, y):
    return Dataset(name, X, y.astype(np.int64), "classification", ("no", "yes"))


def thresholds(g, folder):
    X = g.standard_normal((500, 8))
    return _classes("thresholds", X, ((X[:, 0] > 0.3) ^ (X[:, 1] > -0.2)) & (X[:, 2] < 0.8))


def wide(g, folder):
    X = g.standard_normal((600, 30))
    return Dataset(
        "wide", X, 3.0 * (X[:, 0] > 0) * (X[:, 1] > 0) - 2.0 * (X[:, 2] > 0.5) + 0.3 * g.standard_normal(600)
    )


def tiny(g, folder):
    X = g.standard_normal((12, 2))
    return Dataset("tiny", X, X[:, 0] + 0.1 * g.standard_normal(12))


def imbalanced(g, folder):
    X = g.standard_normal((700, 4))
    score = X[:, 0] + X[:, 1] + g.standard_normal(700)
    return _classes("imbalanced", X, score > np.quantile(score, 0.945))


def rating(g, folder):
    X = g.standard_normal((300, 3))
    stars = np.clip(np.round(5.5 + 2 * X[:, 0] + X[:, 1] + g.standard_normal(300)), 1, 10).astype(int)
    return _csv(folder / "stars.csv", {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "rating": stars}, "rating")


def noise(g, folder):
    return Dataset("noise", g.standard_normal((200, 5)), g.standard_normal(200))


def linear(g, folder):
    X = g.standard_normal((300, 5))
    return Dataset("linear", X, X @ np.array([3.0, -2.0, 1.0, 0.0, 0.0]) + g.standard_normal(300))


def identifier(g, folder):
    x, n = g.standard_normal(300), 300
    columns = {"customer_id": np.arange(1000, 1000 + n), "x": x, "z": g.standard_normal(n)}
    return _csv(folder / "customers.csv", {**columns, "spent": 2 * x + 0.5 * g.standard_normal(n)}, "spent")


def categories(g, folder):
    town = g.integers(0, 4, 400)
    level = np.array(["Bern", "Oslo", "Rome", "Kyiv"], dtype=object)[town]
    level[::11] = ""
    income = g.standard_normal(400).round(3).astype(object)
    income[::13] = ""
    price = np.array([0.0, 4.0, 8.0, 2.0])[town] + g.standard_normal(400) * 0.5
    return _csv(folder / "prices.csv", {"town": level, "income": income, "price": price}, "price")


def pixels(g, folder):
    digits = datasets.load("digits")
    X = np.round(digits.X * 255).astype(np.uint8) if digits.X.max() <= 1 else digits.X.astype(np.uint8)
    np.savez(folder / "scans.npz", X=X[:300], y=digits.y[:300])
    return datasets.load(folder / "scans.npz")


def _csv(path, columns, target):
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return datasets.load(path, target=target)


TABLES = {
    made.__name__: made
    for made in (thresholds, wide, tiny, imbalanced, rating, noise, linear, identifier, categories, pixels)
}
