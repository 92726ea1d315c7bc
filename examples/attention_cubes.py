"""What linearised attention does to a spectrum.

The eigenvalues of the digits' Gram matrix G, and of the kernel of their attention features X X'X, which is its cube:
the slope on the logarithmic axis triples. The kernel of a ReLU network on the same rows is raised by attention too,
and far less than cubed.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ridgeformer import datasets
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import LinearisedAttention, gram_spectrum


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer rows."""
    X = datasets.unit_rows(datasets.load("digits").X[: 60 if quick else 200])
    gram = gram_spectrum(X).nonzero
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for values, name in ((gram, "G"), (gram**3, "attention features: G cubed")):
        left.semilogy(range(1, len(values) + 1), values / values[0], label=name)
    left.set(title="dot products", xlabel="number of the eigenvalue", ylabel="over the largest")
    for rows, name in ((X, "rows as they are"), (LinearisedAttention(X)(X), "after attention, unit rows")):
        values = np.linalg.eigvalsh(ReluNTK()(rows).numpy())[::-1]
        right.semilogy(range(1, len(values) + 1), values / values[0], label=name)
    right.set(title="tangent kernel of a ReLU network", xlabel="number of the eigenvalue")
    left.legend()
    right.legend()
    return figure


if __name__ == "__main__":
    draw().savefig("attention_cubes.svg")
