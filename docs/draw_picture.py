"""Draws docs/figures/picture.svg, which says what the project is about, from a real run: `make figures`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch
from torch import Tensor

import ridgeformer as rf

HERE = Path(__file__).parent
BLUE, ORANGE, GREY = "#3f51b5", "#e8710a", "0.45"
RIDGE, TEMPERATURE, STEPS, SHOWN = 2.0, 0.25, 20, (1, 3, 6, 20)


def rows(angle: Tensor) -> Tensor:
    """Return rows of unit length."""
    return torch.stack([angle.cos(), angle.sin()], 1)


def draw() -> Figure:
    """Return the picture: a head and its weights, blocks and their curves, errors and their bound."""
    angle = torch.linspace(-2, 2, 24, dtype=torch.float64)
    noise = torch.randn(24, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    y, grid = torch.sin(4 * angle) - 0.6 * angle + 0.12 * noise, torch.linspace(-2.1, 2.1, 160, dtype=torch.float64)
    model = rf.compile(
        rf.Exponential(temperature=TEMPERATURE), rf.ConjugateGradients(steps=STEPS), features=2, ridge=RIDGE
    )
    figure = plt.figure(figsize=(11, 4), facecolor="white")
    layout = figure.add_gridspec(
        4, 3, width_ratios=(1, 0.9, 1), wspace=0.32, hspace=0.55, left=0.04, right=0.985, top=0.83, bottom=0.1
    )
    _head(figure.add_subplot(layout[:, 0]), angle, y)
    blocks = [figure.add_subplot(layout[3 - place, 1]) for place in range(4)]
    _blocks(figure, blocks, angle, y, grid, model.trace(rows(angle), y, rows(grid)).f[..., 0])
    certificate = rf.certify(model, rows(angle), y, rows(grid[::20]))
    _errors(figure.add_subplot(layout[:, 2]), certificate)
    for place, text in (
        (0.175, "One attention head is a kernel"),
        (0.505, "Blocks of layers are solver steps"),
        (0.83, "The error has a bound"),
    ):
        figure.text(place, 0.93, text, ha="center", fontsize=13, weight="bold")
    return figure


def _head(axis: plt.Axes, angle: Tensor, y: Tensor) -> None:
    query = torch.tensor([0.35], dtype=torch.float64)
    weights = rf.kernels.Exponential(TEMPERATURE)(rows(query), rows(angle))[0]
    weights = weights / weights.sum()
    for place, target, weight in zip(angle, y, weights, strict=True):
        axis.plot([0.35, place], [-2.5, target], color=BLUE, alpha=0.75, linewidth=22 * float(weight))
    axis.scatter(angle, y, s=20 + 900 * weights.numpy(), color=BLUE, zorder=3)
    axis.plot(0.35, -2.5, "o", color=ORANGE, markersize=11)
    axis.annotate("query", (0.35, -2.5), (14, -4), textcoords="offset points", color=ORANGE, fontsize=11)
    axis.annotate("rows, weighted by exp(similarity)", (-2.05, 2.0), color=BLUE, fontsize=10)
    axis.set(xticks=[], yticks=[], ylim=(-2.9, 2.3))
    axis.spines[:].set_visible(False)


def _blocks(figure: Figure, axes: list[plt.Axes], angle: Tensor, y: Tensor, grid: Tensor, curves: Tensor) -> None:
    for axis, step in zip(axes, SHOWN, strict=True):
        axis.plot(angle, y, ".", color=GREY, markersize=3)
        axis.plot(grid, curves[step - 1], color=ORANGE, linewidth=2)
        axis.set(xticks=[], yticks=[], ylim=(-2.6, 2.6))
        axis.set_ylabel(f"block {step}", rotation=0, ha="right", va="center", fontsize=10)
        axis.spines[:].set_color("0.7")
    for below, above in pairwise(axes):
        arrow = ConnectionPatch((0.5, 1), (0.5, 0), "axes fraction", "axes fraction", axesA=below, axesB=above)
        arrow.set(arrowstyle="-|>", mutation_scale=12, color=GREY)
        figure.add_artist(arrow)


def _errors(axis: plt.Axes, certificate: rf.Certificate) -> None:
    curve, steps = certificate.curves["error per step"], range(1, STEPS + 1)
    axis.semilogy(steps, curve.measured[0, :, 0], "o-", color=ORANGE, markersize=4, label="measured in the network")
    axis.semilogy(steps, curve.bound[0, :, 0], "--", color="0.2", label="cannot exceed this")
    axis.set_xlabel("block")
    axis.set_title("distance from the exact regression", fontsize=10, color=GREY)
    axis.legend(frameon=False, fontsize=10, loc="lower left")
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Save it."""
    plt.rcParams["svg.hashsalt"] = "ridgeformer"
    draw().savefig(HERE / "figures" / "picture.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
