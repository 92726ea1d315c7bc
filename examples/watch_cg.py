"""Watch conjugate gradients inside a transformer.

Left: what the query tokens of a compiled softmax network hold after its first, second, fourth and last step. The
curve swings about and settles on kernel ridge regression. Right: its error after every step, below the bound that
theory gives for that step.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

import ridgeformer as rf


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer points and steps."""
    supports, steps = (12, 12) if quick else (40, 30)
    angle = torch.linspace(-2, 2, supports, dtype=torch.float64)
    noise = torch.randn(supports, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y, grid = torch.sin(3 * angle) + 0.2 * noise, torch.linspace(-2.3, 2.3, 200, dtype=torch.float64)
    x, queries = (torch.stack([values.cos(), values.sin()], 1) for values in (angle, grid))  # rows of unit length

    model = rf.compile(rf.Exponential(temperature=0.1), rf.ConjugateGradients(steps=steps), features=2, ridge=500.0)
    predictions = model.trace(x, y, queries).f[..., 0]
    certificate = rf.certify(model, x, y, queries[::10])
    curve = certificate.curves["error per step"]

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(angle, y, "ko", markersize=3, label="supports")
    for step in (1, 2, 4, steps):
        left.plot(grid, predictions[step - 1], label=f"after step {step}")
    left.set(xlabel="angle of the row", ylabel="prediction", title="the query tokens' answer")
    left.legend(fontsize=8)
    right.semilogy(range(1, steps + 1), curve.measured[0, :, 0], "o-", markersize=3, label="measured")
    right.semilogy(range(1, steps + 1), curve.bound[0, :, 0], "k--", label="at most, by theory")
    right.set(xlabel="step", ylabel="relative error (A-norm)", title=f"condition number {certificate.kappa[0]:.0f}")
    right.legend()
    return figure


if __name__ == "__main__":
    draw().savefig("watch_cg.svg")
