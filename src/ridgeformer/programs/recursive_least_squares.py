"""Ridge regression on every prefix of a causal stream, as recursive least squares computes it [Plackett1950]."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
from ridgeformer.language.macros import cg_start, cg_step
from ridgeformer.language.writing import ProgramWriter

__all__ = ["recursive_least_squares"]


@algorithm
def recursive_least_squares(net: ProgramWriter, ridge: float = 0.1) -> None:
    """Recursive least squares over a strictly causal stream.

    Support t holds the ridge regression w_t of the supports before it, and all tokens solve theirs at once by conjugate
    gradients: as many steps as there are features, in exact arithmetic. Queries use all supports.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients of the prefix")
    net.attend({"r": "x"}, scores={("one", "y"): 1.0}, kind="linear", relation="before", name="right-hand side")
    cg_start(net)

    def product() -> None:
        net.attend({"a": "x"}, scores={("q", "x"): 1.0}, kind="linear", relation="before", name="covariance product")
        net.let(u="a + ridge * q")

    with net.step():
        cg_step(net, "w", product)
        net.record("w")
        net.let(prefix="dot(x, w)")
        net.record("prefix")
        net.predict("prefix")
