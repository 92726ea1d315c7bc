"""Methods with fixed coefficients, for either attention: Richardson, Neumann, Chebyshev.

All three walk alpha along the gradient u = (K + ridge I) alpha - y. On queries alpha and y are zero, so
there u is the prediction of the alpha that entered the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

from ridgeformer.compiler.programs.kernel_products import sink_product
from ridgeformer.language.program import Program
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, own, reads

__all__ = ["Kernel", "chebyshev", "chebyshev_coefficients", "neumann", "richardson"]

SHARPNESS = 64.0
MOST_SUPPORTS = 2**20
"""The soft maximum below is at most log(supports) / SHARPNESS under the true one."""


@dataclass(frozen=True)
class Kernel:
    """Which kernel a program multiplies by: linear attention, or softmax with a temperature and a sink logit."""

    attention: Literal["linear", "softmax"]
    temperature: float = 1.0
    sink: float = 0.0

    @property
    def scale(self) -> float:
        """The network works with this multiple of the kernel and of the ridge."""
        return exp(-self.sink) if self.attention == "softmax" else 1.0


def richardson(kernel: Kernel, ridge: float, step_size: float | None = None) -> Program:
    """Return gradient descent with a fixed step size, by default one found in context.

    In context it is 1 / (ridge + largest row sum of K) for softmax attention (Gershgorin), and
    1 / (ridge + trace K) for linear attention: both are below 2 / (largest eigenvalue), so it converges.
    """
    net = _declare(f"{kernel.attention}-attention gradient descent", kernel, ridge)
    if step_size is not None:
        net.constant("eta", "step size, on supports", on=(SUPPORT,), value=step_size / kernel.scale)
    elif kernel.attention == "softmax":
        _gershgorin(net, kernel)
    else:
        _trace_bound(net, ridge)
    net.begin_step()
    _gradient(net, kernel, ridge)
    net.gate("descend", alpha="alpha - eta * u", clear="u")
    net.record("alpha", scale=kernel.scale)
    return _readout(net, kernel, ridge)


def neumann(kernel: Kernel, ridge: float) -> Program:
    """Return the Neumann series: gradient descent with step size 1 / ridge. Converges iff norm(K) < ridge."""
    net = richardson(kernel, ridge, 1 / ridge)
    net.name = f"{kernel.attention}-attention Neumann series"
    return net


def chebyshev(kernel: Kernel, ridge: float, ends: tuple[float, float], steps: int) -> Program:
    """Return Chebyshev iteration on a spectrum with the given ends; every step has its own coefficients."""
    net = _declare(f"{kernel.attention}-attention Chebyshev iteration", kernel, ridge)
    net.uniform = False
    net.constant("sup", "1 on supports", on=(SUPPORT,))
    net.state({"step": "last change of alpha"})
    scaled = (ends[0] * kernel.scale, ends[1] * kernel.scale)
    for carry, push in chebyshev_coefficients(scaled, steps):
        net.constants = {**net.constants, "carry": carry, "push": push}
        net.begin_step()
        _gradient(net, kernel, ridge)
        change = "carry * step - push * sup * u"
        net.gate("descend", alpha=f"alpha + {change}", step=change, clear="u")
        net.record("alpha", scale=kernel.scale)
    return _readout(net, kernel, ridge)


def chebyshev_coefficients(ends: tuple[float, float], steps: int) -> Sequence[tuple[float, float]]:
    """Return (carry, push) of every step: step = carry * step - push * gradient.

    Example:
        >>> chebyshev_coefficients((1.0, 1.0), 2)
        [(0.0, 1.0), (0.0, 1.0)]
    """
    centre, quotient = sum(ends) / 2, ((ends[1] - ends[0]) / sum(ends)) ** 2
    omega, found = 1.0, []
    for t in range(steps):
        found.append((omega - 1.0, omega / centre))
        omega = 1 / (1 - quotient * omega / (2 if t == 0 else 4))
    return found


def _declare(name: str, kernel: Kernel, ridge: float) -> Program:
    softmax = kernel.attention == "softmax"
    roles = (SUPPORT, AGGREGATOR, QUERY) if softmax else (SUPPORT, QUERY)
    net = Program(name, kernel.attention, roles, {"ridge": ridge * kernel.scale})
    net.features("phi", "features", on=(SUPPORT, QUERY))
    net.constant("one", "the constant 1", on=roles)
    if softmax:
        net.constant("agg", "1 on the aggregator", on=(AGGREGATOR,))
        net.state({"o": "attention output"})
        net.state({"a": "weight of the sink"}, "one")
    net.targets("y", "targets")
    net.state({"alpha": "coefficients", "u": "gradient; on queries, the prediction"})
    return net


def _gradient(net: Program, kernel: Kernel, ridge: float, *, last: bool = False) -> None:
    """Add u = (K + ridge I) alpha - y, and let the trace read the prediction off the queries."""
    if kernel.attention == "softmax":
        sink_product(kernel.temperature, kernel.sink)(net, "alpha", "+ ridge * alpha - y")
    else:
        everyone = net.everyone_reads_itself()
        product = net.head("kernel product", {("phi", "phi"): 1.0}, {"u": "alpha"}, net.everyone_reads_supports())
        shift = net.head("ridge", {("one", "one"): ridge}, {"u": "alpha"}, everyone)
        target = net.head("targets", {("one", "one"): -1.0}, {"u": "y"}, everyone)
        net.attend("gradient", "u = K alpha + ridge alpha - y", product, shift, target)
    net.record("f", "u", QUERY, lag=0 if last else 1)


def _readout(net: Program, kernel: Kernel, ridge: float) -> Program:
    net.begin_readout()
    _gradient(net, kernel, ridge, last=True)
    return net


def _gershgorin(net: Program, kernel: Kernel) -> None:
    """Add eta = 1 / (ridge + largest row sum), the maximum taken by a sharp softmax and rounded up."""
    net.constant("sup", "1 on supports", on=(SUPPORT,))
    net.state({"z": "row sum of K", "bound": "ridge + largest row sum", "eta": "step size, on supports"}, "one")
    scores = {("phi", "phi"): 1 / kernel.temperature, ("one", "agg"): kernel.sink}
    sums = net.head("row sums", scores, {"z": "sup", "a": "agg"}, reads((SUPPORT,), (SUPPORT, AGGREGATOR)))
    net.attend("row sums", "z, a = softmax attention to 1 and to the sink", sums)
    net.gate("undo normalisation", eta="z / a", clear="z a")
    sharp = net.head("soft maximum", {("one", "eta"): SHARPNESS}, {"bound": "eta"}, reads((SUPPORT,), (SUPPORT,)))
    margin = net.constants["ridge"] + log(MOST_SUPPORTS) / SHARPNESS
    shift = net.head("round up", {}, {"bound": ("one", margin)}, own(SUPPORT))
    net.attend("largest row sum", "bound = soft maximum of z, rounded up, + ridge", sharp, shift, clear="eta")
    net.gate("step size", eta="sup / bound", clear="bound")


def _trace_bound(net: Program, ridge: float) -> None:
    """Add eta = 1 / (ridge + trace K)."""
    net.constant("sup", "1 on supports", on=(SUPPORT,))
    net.state({"square": "phi.phi", "bound": "ridge + trace K", "eta": "step size, on supports"}, "one")
    everyone = net.everyone_reads_itself()
    net.attend("squares", "square = phi.phi", net.head("squares", {("phi", "phi"): 1.0}, {"square": "one"}, everyone))
    total = net.head("trace", {("one", "one"): 1.0}, {"bound": "square"}, net.everyone_reads_supports())
    shift = net.head("ridge", {("one", "one"): ridge}, {"bound": "one"}, everyone)
    net.attend("trace", "bound = sum of squares + ridge", total, shift, clear="square")
    net.gate("step size", eta="sup / bound", clear="bound")
