"""The posterior variance of a Gaussian process at the queries [RasmussenWilliams2006]."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
from ridgeformer.language.macros import cg_start, cg_step
from ridgeformer.language.writing import ProgramWriter

__all__ = ["process_variance"]


@algorithm
def process_variance(net: ProgramWriter, noise: float = 0.1) -> None:
    """Posterior variance of a Gaussian process at the queries.

    For f(x) = x'w with w standard normal and noise of variance `noise`: noise x'(X'X + noise I)^-1 x. Every query
    solves for its own right-hand side x by conjugate gradients, all at once: as many steps as there are features, in
    exact arithmetic. Targets are not read: however many there are, the answer is one column.
    """
    net.features("x")
    net.state("v", "features", "(X'X + noise I)^-1 x")
    net.let(r="x")
    cg_start(net)

    def product() -> None:
        net.attend({"a": "x"}, scores={("q", "x"): 1.0}, kind="linear", name="covariance product")
        net.let(u="a + noise * q")

    with net.step():
        cg_step(net, "v", product)
        net.record("v", role="query")
        net.predict("noise * dot(x, v)")
