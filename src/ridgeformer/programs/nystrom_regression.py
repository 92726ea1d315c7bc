"""Ridge regression on Nystrom features [WilliamsSeeger2001]."""

from __future__ import annotations

from ridgeformer.algorithms.written import algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["nystrom_regression"]


@algorithm
def nystrom_regression(
    net: ProgramWriter, landmarks: int = 5, ridge: float = 0.1, temperature: float | None = None
) -> None:
    """Ridge regression on Nystrom features, by conjugate gradients.

    The first `landmarks` supports, found by counting, are the landmarks. Features K_mm^(-1/2) k_m(x) make the answers
    k_m(x)'a with (K_mn K_nm + ridge K_mm) a = K_mn y, and every product with that matrix is two kernel products. As
    many steps as there are landmarks solve it in exact arithmetic. The kernel is X X', or with a temperature
    exp(-|x - z|^2 / 2 temperature).
    """
    net.features("x"), net.targets("y")
    net.state("f", "outputs", "answer")

    def kernel(target: str, source: str) -> None:
        net.kernel_product(target, source, temperature=temperature, gaussian=temperature is not None)

    net.attend({"rank": "one"}, kind="linear", relation="before", readers="support", name="earlier supports")
    net.let(z="support * above(landmarks - rank, 0.25, 0.5)")
    kernel("k", "y")
    net.let(r="z * k", clear="k")
    net.let(q="r", rho="mean(r * r)")
    with net.step():
        kernel("v", "q")
        kernel("k", "v")
        net.let(u="z * (k + ridge * v)", clear="k")
        net.let(gamma="rho / mean(q * u)")
        net.let(f="f + gamma * v", r="r - gamma * u")
        net.let(beta="mean(r * r) / rho", rho="mean(r * r)")
        net.let(q="r + beta * q")
        net.predict("f")
