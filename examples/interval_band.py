"""An interval for every prediction, from one fit.

Leaving a row out of a kernel ridge regression has a closed form, so jackknife+ intervals need no second fit. The band
is for new points, not for the curve: about nine in ten should fall inside, and the title counts the fresh ones that do.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

import ridgeformer as rf


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer fresh points."""
    rng = np.random.default_rng(5)
    x, fresh = (np.sort(rng.uniform(-1, 1, count)) for count in (60, 40 if quick else 400))
    grid = np.linspace(-1.1, 1.1, 200)
    y, truth = curve(x) + 0.25 * rng.normal(size=len(x)), curve(fresh) + 0.25 * rng.normal(size=len(fresh))

    fit = rf.solve(rf.Gaussian(temperature=0.02), x[:, None], y, ridge=0.1)
    band = fit.interval(grid[:, None], level=0.9)
    inside = np.asarray(fit.interval(fresh[:, None], level=0.9).covers(torch.from_numpy(truth)))

    figure, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
    axis.fill_between(grid, np.ravel(band.low), np.ravel(band.high), alpha=0.2, label="90 % jackknife+")
    axis.plot(grid, np.ravel(fit.predict(grid[:, None])), label="exact kernel ridge regression")
    axis.plot(fresh, truth, ".", color="#9aa5b8", markersize=2.5, label="fresh points")
    axis.plot(x, y, "ko", markersize=3.5, label="training points")
    axis.set(title=f"{inside.sum()} of {inside.size} fresh points are inside", xlabel="x", ylabel="y", ylim=(-2.6, 2.6))
    axis.legend(fontsize=8, ncols=2, loc="lower left")
    return figure


def curve(x: np.ndarray) -> np.ndarray:
    """Return the truth."""
    return np.sin(5 * x) + 0.5 * x


if __name__ == "__main__":
    draw().savefig("interval_band.svg")
