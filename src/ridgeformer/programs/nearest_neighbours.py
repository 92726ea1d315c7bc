"""k nearest neighbours: one support a step is compared with the nearest ones so far."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["nearest_neighbours"]

SHARP, FAR = 40.0, 1e9


@algorithm
def nearest_neighbours(net: ProgramWriter, neighbours: int = 3, margin: float = 1e-9) -> None:
    """Regression by k nearest neighbours.

    A query cannot mask the support it has found, because scores are products of channels and a mask on pairs of tokens
    is none. It takes the supports in their order instead: in step t a sharp softmax brings support t, off by e^-40, and
    the query inserts it into its sorted list of half squared distances and targets. As many steps as there are supports
    compare them all. Targets whose half squared distances differ by less than `margin` may be mixed.
    """
    net.features("x"), net.targets("y")
    net.attend({"rank": "one"}, kind="linear", relation="before", readers="support", name="earlier supports")
    net.let(half="0.5 * dot(x, x)", square="rank * rank")
    net.state("t", meaning="the support that is next")
    places = range(1, neighbours + 1)
    for i in places:
        net.state(f"value{i}", "outputs", f"target of neighbour {i}")
        net.let(**{f"near{i}": f"{FAR!r} * one"})
    with net.step():
        sharp = {("one", "square"): -SHARP, ("t", "rank"): 2 * SHARP}
        net.attend({"z": "x", "v": "y", "h": "half", "place": "rank"}, scores=sharp, name="support t")
        net.let(d=f"h - dot(x, z) + {FAR!r} * above(t - place, 0.25, 0.5)", t="t + 1")  # there is no support t: far
        for i in places:
            net.let(c=f"above(near{i}, d, margin)")
            net.let(**{f"near{i}": f"min(near{i}, d)", "d": f"max(near{i}, d)",
                       f"value{i}": f"value{i} + c * (v - value{i})", "v": f"v - c * (v - value{i})"})  # fmt: skip
        net.predict(f"({' + '.join(f'value{i}' for i in places)}) / {neighbours}")
