"""Statements that several programs share: conjugate gradients in the space of the features, token by token."""

from __future__ import annotations

from collections.abc import Callable

from ridgeformer.language.writing import ProgramWriter

__all__ = ["cg_start", "cg_step"]


def cg_start(net: ProgramWriter, residual: str = "r") -> None:
    """Add the first direction q and rho = r'r; tokens may hold different residuals."""
    net.let(q=residual, rho=f"dot({residual}, {residual})")


def cg_step(net: ProgramWriter, solution: str, product: Callable[[], None], residual: str = "r") -> None:
    """Add one step of conjugate gradients for A v = b: moves the solution, the residual and the direction q.

    `product` writes u = A q, on every token; a token whose residual is zero stands still.
    """
    product()
    net.let(gamma="rho / dot(q, u)")
    net.let(**{solution: f"{solution} + gamma * q", residual: f"{residual} - gamma * u"})
    net.let(beta=f"dot({residual}, {residual}) / rho", rho=f"dot({residual}, {residual})")
    net.let(q=f"{residual} + beta * q")
