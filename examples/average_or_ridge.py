"""One head averages, a deep network regresses.

The same exponential kernel, twice. A single softmax head is a weighted mean of the targets (Nadaraya-Watson): never
above the largest target, pulled to the mean at high temperature. Kernel ridge regression corrects the weights for
what the supports say about each other. Where the kernel is so sharp that supports hardly see each other, both follow
the nearest ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import ridgeformer as rf


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer points."""
    rng = np.random.default_rng(3)
    angles = np.sort(rng.uniform(-1.4, 1.4, 10 if quick else 25))
    grid = np.linspace(-1.5, 1.5, 200)
    y = np.sin(4 * angles) + angles + 0.1 * rng.normal(size=len(angles))

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
    for axis, temperature in zip(axes, (1.0, 0.1, 0.01), strict=True):
        kernel = rf.kernels.Exponential(temperature)
        ridge = rf.solve(
            kernel, circle(angles), y, ridge=0.05 * np.exp(1 / temperature)
        )  # K_ii is exp(1 / temperature)
        head = rf.NadarayaWatsonRegressor(temperature=temperature).fit(circle(angles), y)
        axis.plot(angles, y, "ko", markersize=3, label="supports")
        axis.plot(grid, head.predict(circle(grid)), label="one head (average)")
        axis.plot(grid, np.ravel(ridge.predict(circle(grid))), label="ridge regression")
        axis.set(title=f"temperature {temperature:g}", xlabel="angle")
    axes[0].set_ylabel("prediction")
    axes[0].legend(fontsize=8)
    return figure


def circle(angles: np.ndarray) -> np.ndarray:
    """Return unit rows, on which the exponential kernel is the Gaussian one."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


if __name__ == "__main__":
    draw().savefig("average_or_ridge.svg")
