"""The nearest neighbour, by one sharp softmax head."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["nearest_neighbour"]


@algorithm
def nearest_neighbour(net: ProgramWriter, temperature: float = 1e-3) -> None:
    """Nearest-neighbour regression by a sharp softmax.

    The logit of support z for query x is -|x - z|^2 / 2 temperature, up to what all supports share. The answer is off
    by at most (n - 1) e^(-gap / 2 temperature) times the range of the targets, gap being how much farther, in squared
    distance, the second support is. One step is all there is.
    """
    net.features("x"), net.targets("y")
    net.let(half="0.5 * dot(x, x)")
    with net.step():
        sharp = {("x", "x"): 1 / temperature, ("one", "half"): -1 / temperature}
        net.attend({"f": "y"}, scores=sharp, name="nearest")
        net.predict("f")
