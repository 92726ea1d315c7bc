"""How wide must it be? Width against effective dimension.

The worst in-sample error of the best narrow model, on two datasets' kernels, over its width. At a width equal to the
effective dimension (dotted line) the guarantee is still empty; the error is below d_eff/(m + 1) (dashed) at every
width. Points are compiled linear-attention networks on the digits, which keep the top m directions of their rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

import ridgeformer as rf
from ridgeformer import bounds


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer rows."""
    rows = 60 if quick else 150
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, name in zip(axes, ("digits", "diabetes"), strict=True):
        X = torch.from_numpy(rf.datasets.unit_rows(rf.datasets.load(name).X[:rows]))
        spectrum, ridge = np.linalg.eigvalsh((X @ X.T).numpy()).clip(0), 0.5
        d_eff, widths = bounds.effective_dimension(spectrum, ridge), range(X.shape[1])
        axis.plot(widths, [bounds.pca_relative_error(spectrum, m, ridge) for m in widths], label="worst error, exact")
        axis.plot(widths, [min(1, bounds.pca_relative_error_bound(d_eff, m)) for m in widths], "k--", label="bound")
        axis.axvline(d_eff, color="k", linestyle=":", label=f"effective dimension {d_eff:.1f}")
        axis.set(title=name, xlabel="width m (feature columns kept)", ylim=(0, 1.05))
        if name == "digits":
            kept = range(4, 40, 12)
            axis.plot(kept, [compiled_error(X, m, ridge) for m in kept], "o", label="compiled network")
        axis.legend(fontsize=8)
    axes[0].set_ylabel("error relative to the targets")
    return figure


def compiled_error(X: torch.Tensor, m: int, ridge: float) -> float:
    """Return a narrow network's in-sample error on the targets that are hardest for it: the eigenvector m + 1."""
    y = torch.linalg.svd(X).U[:, m].contiguous()
    d, steps = X.shape[1], 40
    kernel, algorithm = rf.DotProduct(), rf.ConjugateGradients(steps=steps)
    overhead = rf.compile(kernel, algorithm, features=d, ridge=ridge).budget.overhead
    width = m + overhead
    narrow = rf.compile(kernel, algorithm, features=d, ridge=ridge, width=width, sketch="pca", reference=X)
    exact = rf.solve(rf.kernels.DotProduct(), X, y, ridge).predict(X)
    return float((narrow(X, y, X) - exact).norm() / y.norm())


if __name__ == "__main__":
    draw().savefig("width_needed.svg")
