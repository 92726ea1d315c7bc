"""Conjugate gradients, plain or preconditioned: one product with K a step, depth about sqrt(kappa)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms.base import (
    Bounds,
    Compilable,
    Iterate,
    Iterative,
    LinearSystem,
    Precondition,
    Preconditioned,
    Spectrum,
    divide,
)
from ridgeformer.core.errors import InputError
from ridgeformer.language.program import KernelAttention, Program
from ridgeformer.language.roles import QUERY, SUPPORT, own

__all__ = ["ConjugateGradients"]


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(Preconditioned, Iterative, Compilable):
    """The best polynomial in A for the targets at hand, found by inner products.

    In exact arithmetic the error in the A-norm is at most 2 ((sqrt k - 1)/(sqrt k + 1))^t times the first (claim B2),
    k the condition number of the preconditioned matrix. Columns have their own scalars and share the product with K.
    """

    name: ClassVar[str] = "cg"
    family: ClassVar[str] = "conjugate gradients"
    inner_products: ClassVar[bool] = True
    needs_spectrum: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """Conjugate gradients, plain or preconditioned."""
        return self.family if self.preconditioner is None else f"preconditioned {self.family}"

    def promise(self, steps: int, spectrum: Spectrum, ridge: float) -> float:
        """Return the classical rate, `bounds.cg_error_factor`."""
        return bounds.cg_error_factor(spectrum[1] / spectrum[0], steps)

    def patience(self, n: int) -> int:
        """Return ten times the steps of exact arithmetic, between 1,000 and 20,000."""
        return min(20_000, max(1000, 10 * n))

    def iterate(
        self, system: LinearSystem, b: Tensor, *, spectrum: Bounds, precondition: Precondition
    ) -> Iterator[Iterate]:
        """Yield the states; what has converged idles."""
        alpha, r = b.new_zeros(b.shape), b
        z = precondition(r)
        p, rho = z, (r * z).sum(0)
        while True:
            u = system.apply(p)
            pu = (p * u).sum(0)
            gamma = divide(rho, pu)
            alpha = alpha + gamma * p
            r = r - gamma * u
            z = precondition(r)
            rho, previous = (r * z).sum(0), rho
            beta = divide(rho, previous)
            pp = (p * p).sum(0)
            curvature = torch.where(pp > 0, pu / pp, torch.inf)
            p = z + beta * p
            yield Iterate(alpha, r, gamma, beta, curvature)

    # -- compiled ----------------------------------------------------------------------------------

    @property
    def preconditioned(self) -> bool:
        """Whether it divides residuals by the diagonal of K + ridge I."""
        return self.preconditioner not in (None, "identity")

    def write(self, attention: KernelAttention, ridge: float) -> Program:
        """Return the program: native products in linear attention, gated sublayers and means elsewhere."""
        if self.preconditioner not in (None, "identity", "jacobi"):
            raise InputError(
                f"preconditioner is {self.preconditioner!r}; a transformer can only run 'jacobi', which needs no more "
                "than the diagonal of K: choose that, or None."
            )
        if not attention.trilinear and self.preconditioned:
            raise InputError(
                f"{attention.name} attention runs conjugate gradients without a preconditioner: leave it out, or "
                "compile a DotProduct kernel."
            )
        return _linear_program(self, attention, ridge) if attention.trilinear else _gated_program(attention, ridge)

    def error_bound(self, spectrum: Spectrum, ridge: float) -> tuple[str, str, bool]:
        """Name the classical rate (claim B2), which holds for every positive definite system."""
        kappa = spectrum[1] / spectrum[0]
        which = "of the preconditioned system" if self.preconditioned else "of K + ridge I"
        what = f"the A-norm error stays below 2((sqrt k - 1)/(sqrt k + 1))^t, k = {kappa:.3g} {which}"
        return what, "K positive semidefinite", True


def _linear_program(algorithm: ConjugateGradients, attention: KernelAttention, ridge: float) -> Program:
    """Return (preconditioned) conjugate gradients in linear attention.

    Linear attention is trilinear, (q.k) v, so heads form every product; only the two quotients take gated sublayers.
    Queries hold p = 0, and their r accumulates minus the prediction at no cost.
    """
    jacobi = algorithm.preconditioned
    net = attention.begin(algorithm.family, ridge)
    net.targets("r", "residual; on queries, minus the prediction")
    net.state({"alpha": "coefficients", "p": "search direction", "rho": "r'z"})
    net.state({"u": "A p; on queries, k(x)'p", "s": "p'A p", "gamma": "step size", "t": "r / rho"})
    z = "z" if jacobi else "r"
    everyone, supports, itself = net.everyone_reads_itself(), net.everyone_reads_supports(), own(SUPPORT)
    new_part = net.head("new part", {("one", "one"): 1.0}, {"p": z}, itself)
    square = net.head("r'z", {("one", "r"): 1.0}, {"rho": z}, supports)
    if jacobi:
        net.state({"z": "preconditioned residual"})
        net.state({"m": "K_ii + ridge", "minv": "1 / (K_ii + ridge)"}, "one")
        diagonal = net.head("diagonal", {("phi", "phi"): 1.0}, {"m": "one"}, everyone)
        shift = net.head("ridge", {("one", "one"): ridge}, {"m": "one"}, everyone)
        net.attend("diagonal", "m = phi.phi + ridge", diagonal, shift)
        net.gate("invert diagonal", minv="one / m", clear="m")
        net.gate("precondition", z="minv * r")
    net.attend("start", f"p = {z}, rho = r'{z}", new_part, square, clear="z" if jacobi else "")

    net.begin_step()
    attention.product(net, "p")
    net.attend("curvature", "s = p'u", net.head("p'u", {("one", "u"): 1.0}, {"s": "p"}, supports))
    net.gate("step size", gamma="rho / s", clear="s")
    net.record("gamma")
    move = net.head("move", {("gamma", "one"): 1.0}, {"alpha": "p", "r": ("u", -1.0)}, everyone)
    net.attend("move", "alpha += gamma p, r -= gamma u", move, clear="u gamma")
    net.record("alpha")
    net.record("r")
    net.record("f", "r", QUERY, -1.0)
    if jacobi:
        net.gate("precondition", z="minv * r", t="r / rho", u="p", clear="rho p")
    else:
        net.gate("scale", t="r / rho", u="p", clear="rho p")
    turn = net.head("beta p", {("u", "t"): 1.0}, {"p": z}, supports)
    caption = f"p = {z} + (t'{z}) u, rho = r'{z}"
    net.attend("turn", caption, turn, new_part, square, clear="u t z" if jacobi else "u t")
    net.record("p")
    net.record("rho")
    return net


def _gated_program(attention: KernelAttention, ridge: float) -> Program:
    """Return conjugate gradients in softmax attention: gated sublayers multiply, and means stand in for sums.

    The network solves (e^-sink K + e^-sink ridge I) alpha' = y, whose predictions are those of ridge regression and
    whose alpha' is e^sink alpha. Only ratios of the means are used.
    """
    net = attention.begin(ConjugateGradients.family, ridge)
    net.constant("sup", "1 on supports", on=(SUPPORT,))
    net.targets("r", "residual; on queries, minus the prediction")
    net.targets("p", "search direction")
    net.state({"alpha": "coefficients", "rho": "mean of r r"})
    attention.scratch(net)
    net.state({"u": "A p; on queries, k(x)'p", "w": "products to be averaged"})
    net.state({"s": "their mean", "gamma": "step size", "beta": "direction ratio"})
    net.gate("square residual", w="r * r")
    attention.mean(net, "square")
    net.gate("first rho", rho="s", clear="s w")

    net.begin_step()
    attention.product(net, "p")
    net.gate("curvature", w="p * u")
    attention.mean(net, "curvature")
    net.gate("step size", gamma="rho / s", clear="s w")
    net.record("gamma", scale=attention.scale)
    net.gate("move", alpha="alpha + gamma * p", r="r - gamma * u", clear="gamma u")
    net.record("alpha", scale=attention.scale)
    net.record("r")
    net.record("f", "r", QUERY, -1.0)
    net.gate("square residual", w="r * r")
    attention.mean(net, "square")
    net.gate("direction ratio", beta="s / rho", u="p", clear="rho w p")
    net.gate("turn", p="sup * r + beta * u", rho="s", clear="beta s u")
    net.record("p")
    net.record("rho")
    return net
