"""The largest eigenvalue of a kernel matrix, by power iteration from the targets."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["power_iteration"]


@algorithm
def power_iteration(net: ProgramWriter, temperature: float | None = None) -> None:
    """Kernel power iteration.

    v <- K v / l with the Rayleigh quotient l = v'Kv / v'v, from the targets: l tends to the largest eigenvalue whose
    eigenvector is not orthogonal to them. K = X X', or exp(x'z / temperature). Queries answer with the eigenvector
    extended to them, k(x)'v / l.
    """
    net.features("x"), net.targets("y")
    net.let(v="y")
    with net.step():
        net.kernel_product("u", "v", temperature=temperature)
        net.let(l="mean(v * u) / mean(v * v)")
        net.let(v="u / l")
        net.record("v"), net.record("l")
        net.predict("v")


@power_iteration.fixed_point
def residual(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return (K v - l v) / (l |v|) for the last v and its own l, which is zero at an eigenvector and nowhere else."""
    temperature, v = getattr(value, "temperature"), values["v"][-1]  # noqa: B009
    K = X @ X.T if temperature is None else (X @ X.T / temperature).exp()
    u = K @ v
    quotient = (v * u).sum(0) / v.square().sum(0)
    return (u - quotient * v) / (quotient * v.norm(dim=0))


@power_iteration.theorem("the Rayleigh quotient never falls, as K is positive semidefinite")
def rising(value: WrittenAlgorithm, X: Tensor, y: Tensor, Xq: Tensor, values: Values) -> tuple[Tensor, Tensor]:
    """Return the quotient before every step but the first, and after it."""
    quotients = values["l"][:, 0, 0]
    before = torch.cat([quotients[:1], quotients[:-1]])
    return before, quotients * (1 + 1e-12)
