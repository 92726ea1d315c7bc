"""Who made this prediction? Influence of training digits on one digit.

The digit in question, held out of the fit, and the training digits without which its own class would score lowest
(helpful) or highest (harmful). The numbers are exact: each is what a fit without that digit would change.
"""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ridgeformer import datasets, influence


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer rows."""
    digits = datasets.load("digits")
    digits = digits.subset(range(80 if quick else 1000))
    answer = influence.ask(digits, 17, points=5)
    figure, axes = plt.subplots(2, 6, figsize=(10, 4.2), layout="constrained")
    show(axes[0, 0], digits.X[17], f"row 17 is a {answer.truth}\npredicted: {answer.predicted}")
    axes[1, 0].axis("off")
    for line, (what, points) in enumerate((("helps", answer.helpful), ("harms", answer.harmful))):
        for axis, point in zip(axes[line, 1:], points, strict=True):
            show(axis, digits.X[point.row], f"row {point.row} ({point.label})\n{what} {point.score:+.3f}")
    return figure


def show(axis: Axes, pixels: object, title: str) -> None:
    """Show one digit."""
    axis.imshow(pixels.reshape(8, 8), cmap="gray_r", interpolation="nearest")
    axis.set_title(title, fontsize=9)
    axis.set(xticks=[], yticks=[])


if __name__ == "__main__":
    draw().savefig("influence_of_one_digit.svg")
