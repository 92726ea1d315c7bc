"""Choosing the ridge without a second fit.

Every ridge of a grid, from one eigendecomposition: how the fit errs on its own rows, how it errs on rows left out
(exact, no refits), and on rows it never saw. The left-out error tells where to stop; the error on the fit's own rows
cannot. The effective dimension says how many directions are in use there.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from ridgeformer import bounds, datasets
from ridgeformer.kernels import Exponential
from ridgeformer.solving.ridge_path import leave_one_out_path


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer rows."""
    data = datasets.load("diabetes")
    if quick:
        data = data.subset(range(120))
    train, test = data.split(0.3, seed=0)
    centre, scale = train.X.mean(0), train.X.std(0)
    X, Xt = (torch.from_numpy((part.X - centre) / scale) for part in (train, test))
    y, yt = (torch.from_numpy((part.y - train.y.mean()) / train.y.std()) for part in (train, test))
    kernel, ridges = Exponential(temperature=40.0), np.logspace(-4, 3, 30)
    K, k = kernel(X), kernel(Xt, X)
    left_out = leave_one_out_path(K, y[:, None], ridges.tolist()).square().mean((1, 2)).sqrt()
    fits = [torch.linalg.solve(K + float(ridge) * torch.eye(len(K), dtype=K.dtype), y) for ridge in ridges]
    spectrum = np.linalg.eigvalsh(K.numpy()).clip(0)

    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axis.semilogx(ridges, [float((K @ a - y).square().mean().sqrt()) for a in fits], label="on its own rows")
    axis.semilogx(ridges, left_out, label="on rows left out, exact")
    axis.semilogx(ridges, [float((k @ a - yt).square().mean().sqrt()) for a in fits], label="on held-out rows")
    axis.axvline(ridges[int(left_out.argmin())], color="k", linestyle=":", label="least left-out error")
    axis.set(xlabel="ridge", ylabel="error, in standard deviations", ylim=(0, 1.3))
    axis.legend(loc="upper center", fontsize=8)
    right = axis.twinx()
    right.semilogx(ridges, [bounds.effective_dimension(spectrum, r) for r in ridges], "0.6", linestyle="--")
    right.set_ylabel("effective dimension (dashed)", color="0.4")
    return figure


if __name__ == "__main__":
    draw().savefig("ridge_path.svg")
