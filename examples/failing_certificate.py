"""A certificate that fails.

A certificate is worth something only if it can fail. The same network three times: as compiled, with one head
silenced, and with a single weight changed by 5 %. Above, the error after every step: with the head gone it crosses
its bound. Below, the distance from textbook conjugate gradients, which is rounding for the healthy network: the
changed weight, too small to break the rate, is caught there. The titles say how near to exact ridge regression the
answers are proved to be, which holds for broken networks too, and the bit-by-bit comparison of the weights finds both.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

import ridgeformer as rf
from ridgeformer.core.words import percent_at_most


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer supports."""
    supports, steps = (6, 5) if quick else (30, 25)
    X = torch.nn.functional.normalize(
        torch.randn(supports, 4, generator=torch.Generator().manual_seed(0)).double(), dim=1
    )
    y, Xq = X[:, 0] * X[:, 1] + X[:, 2], X[:3]
    model = rf.compile(rf.Exponential(temperature=0.5), rf.ConjugateGradients(steps=steps), features=4, ridge=0.1)
    found = {"as compiled": rf.certify(model, X, y, Xq)}
    with model.ablated("mean"):
        found["head 'mean' silenced"] = rf.certify(model, X, y, Xq)
    with torch.no_grad():
        weight = next(weight for name, weight in model.named_parameters() if name.endswith("W_d"))
        weight[tuple(weight.nonzero()[0])] *= 1.05
    found["one weight off by 5 %"] = rf.certify(model, X, y, Xq)

    figure, axes = plt.subplots(2, 3, figsize=(10, 6), sharey="row", layout="constrained")
    for column, (what, certificate) in enumerate(found.items()):
        for axis, check in zip(axes[:, column], ("error per step", "textbook steps"), strict=True):
            curve = certificate.curves[check]
            claimed = curve.measured[0, :, 0] > 0  # beyond that step the textbook does not agree with itself
            axis.semilogy(
                np.arange(1, steps + 1)[claimed], curve.measured[0, claimed, 0], "o-", markersize=3, label="measured"
            )
            axis.semilogy(range(1, steps + 1), curve.bound[0, :, 0], "k--", label="at most")
            axis.set(xlabel="step", ylabel="" if column else check)
        axes[0, column].set_title(
            f"{what}:\nproved within {percent_at_most(certificate.within)}",
            fontsize=10,
            color="tab:green" if certificate.holds else "tab:red",
        )
    axes[0, 0].legend()
    return figure


if __name__ == "__main__":
    draw().savefig("failing_certificate.svg")
