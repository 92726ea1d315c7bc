"""A kernel on its way to its limit.

The tangent kernel of a random ReLU network on digits, as the network grows, in four senses of "near": all fall as one
over the square root of the width. Rows that went through linearised attention (right) start from farther away in all
senses that look at every direction. The additive one, which the published width formula is about, is out of reach;
what ridge regression sees (whitened) is not.
"""

from dataclasses import asdict

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ridgeformer import datasets
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import LinearisedAttention, finite_relu_ntks, kernel_distances


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick stops at a small width."""
    widths = [10**e for e in range(2, 4 if quick else 7)]
    rows = datasets.unit_rows(datasets.load("digits").X[:60])
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, (what, X) in zip(
        axes, {"rows as they are": rows, "after attention": LinearisedAttention(rows)(rows)}.items(), strict=True
    ):
        limit = ReluNTK()(X)
        kernels = finite_relu_ntks(X, widths, torch_generator(0, "kernel limit"))
        found = [asdict(kernel_distances(kernel, limit, ridge=0.01)) for _, kernel in kernels]
        for criterion in ("additive", "multiplicative", "whitened", "frobenius"):
            axis.loglog(widths, [distances[criterion] for distances in found], "o-", markersize=3, label=criterion)
        axis.set(title=what, xlabel="width of the network")
    axes[0].set_ylabel("distance from the limit")
    axes[0].legend()
    return figure


if __name__ == "__main__":
    draw().savefig("kernel_limit.svg")
