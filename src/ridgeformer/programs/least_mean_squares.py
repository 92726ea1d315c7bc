"""Least mean squares in causal order: stochastic gradient descent, one support after the other [Widrow1960]."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["least_mean_squares"]


@algorithm
def least_mean_squares(net: ProgramWriter, step_size: float = 0.1) -> None:
    """Least mean squares over a strictly causal stream.

    The filter w <- w + step_size e_t x_t, e_t = y_t - x_t'w, takes one pass over the supports in their order. Its
    errors solve e_t = y_t - step_size sum over s < t of (x_t'x_s) e_s, and every step of the program makes one more of
    them exact: after n steps all n are, because a strictly lower triangular matrix is nilpotent. Queries answer with
    x'w after the last support.
    """
    net.features("x"), net.targets("y")
    net.state("e", "outputs", "error before the support is used")
    net.state("s", "outputs", "prediction from earlier supports, over step_size")
    with net.step():
        net.let(e="y - step_size * s")
        net.attend({"s": "e"}, scores={("x", "x"): 1.0}, kind="linear", relation="before", name="earlier supports")
        net.record("e")
        net.predict("step_size * s")
