"""Softmax attention, conjugate gradients on the exponential kernel (or on its two-head imitation of a linear one)."""

from __future__ import annotations

from math import exp

from ridgeformer.compiler.programs.kernel_products import KernelProduct, imitated_product, sink_product
from ridgeformer.language.program import Program
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, reads

__all__ = ["imitation_cg", "softmax_cg"]


def softmax_cg(ridge: float, temperature: float, sink: float, *, through_aggregator: bool = False) -> Program:
    """Return the program of conjugate gradients with the exponential kernel.

    The network solves (e^-sink K + e^-sink ridge I) alpha' = y, whose predictions are those of ridge
    regression and whose alpha' is e^sink alpha. Means stand in for sums, as only ratios are used.
    """
    net = _declare("softmax-attention conjugate gradients", ridge * exp(-sink))
    net.state({"a": "weight of the sink"}, "one")
    _prelude(net, through_aggregator)
    net.begin_step()
    _step(net, sink_product(temperature, sink), exp(-sink), through_aggregator)
    return net


def imitation_cg(ridge: float, epsilon: float) -> Program:
    """Return conjugate gradients on Phi Phi' with softmax heads only, features centred in context."""
    net = _declare("softmax heads imitating linear attention", ridge)
    net.constants = {**net.constants, "epsilon": epsilon}
    net.state({"gain": "supports / epsilon", "share": "1 / (supports + 1)"}, "one")
    centre = net.head("centre", {}, {"phi": ("phi", -1.0)}, reads((SUPPORT, QUERY), (SUPPORT,)))
    count = net.head("count", {}, {"share": "agg"}, reads(net.roles, (SUPPORT, AGGREGATOR)))
    net.attend("centre and count", "phi -= mean phi, share = 1 / (n + 1)", centre, count)
    net.gate("number of supports", gain="one / epsilon / share - one / epsilon", clear="share")
    _prelude(net, through_aggregator=False)
    net.begin_step()
    _step(net, imitated_product(epsilon), 1.0, through_aggregator=False)
    return net


def _declare(name: str, ridge: float) -> Program:
    everyone = (SUPPORT, AGGREGATOR, QUERY)
    net = Program(name, "softmax", everyone, {"ridge": ridge})
    net.features("phi", "features", on=(SUPPORT, QUERY))
    net.constant("one", "the constant 1", on=everyone)
    net.constant("agg", "1 on the aggregator", on=(AGGREGATOR,))
    net.constant("sup", "1 on supports", on=(SUPPORT,))
    net.targets("r", "residual; on queries, minus the prediction")
    net.targets("p", "search direction")
    net.state({"alpha": "coefficients", "rho": "mean of r r"})
    net.state({"o": "attention output", "u": "A p; on queries, k(x)'p", "w": "products to be averaged"})
    net.state({"s": "their mean", "gamma": "step size", "beta": "direction ratio"})
    return net


def _prelude(net: Program, through_aggregator: bool) -> None:
    net.gate("square residual", w="r * r")
    _mean(net, "square", through_aggregator)
    net.gate("first rho", rho="s", clear="s w")


def _step(net: Program, kernel_product: KernelProduct, scale: float, through_aggregator: bool) -> None:
    kernel_product(net, "p", "+ ridge * p")
    net.gate("curvature", w="p * u")
    _mean(net, "curvature", through_aggregator)
    net.gate("step size", gamma="rho / s", clear="s w")
    net.record("gamma", scale=scale)
    net.gate("move", alpha="alpha + gamma * p", r="r - gamma * u", clear="gamma u")
    net.record("alpha", scale=scale)
    net.record("r")
    net.record("f", "r", QUERY, -1.0)
    net.gate("square residual", w="r * r")
    _mean(net, "square", through_aggregator)
    net.gate("direction ratio", beta="s / rho", clear="rho w")
    net.gate("turn", p="sup * r + beta * p", rho="s", clear="beta s")
    net.record("p")
    net.record("rho")


def _mean(net: Program, what: str, through_aggregator: bool) -> None:
    """Add s = mean of w over the supports: read directly, or pooled by the aggregator and read from it."""
    if not through_aggregator:
        net.attend(f"mean {what}", "s = mean w", net.head("mean", {}, {"s": "w"}, net.everyone_reads_supports()))
        return
    if "pool" not in net.channels:
        net.state({"pool": "what the aggregator has averaged"})
    net.attend(
        f"pool {what}",
        "pool = mean w, on the aggregator",
        net.head("pool", {}, {"pool": "w"}, reads((AGGREGATOR,), (SUPPORT,))),
    )
    broadcast = net.head("broadcast", {}, {"s": "pool"}, reads(net.roles, (AGGREGATOR,)))
    net.attend(f"broadcast {what}", "s = pool, read from the aggregator", broadcast, clear="pool")
