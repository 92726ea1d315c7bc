"""How softmax attention multiplies by a kernel matrix: three instructions that programs share.

A head divides by its row sum; a product with K must undo that.
"""

from __future__ import annotations

from collections.abc import Callable

from ridgeformer.language.program import Program
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, reads

__all__ = ["KernelProduct", "imitated_product", "sink_product"]

KernelProduct = Callable[[Program, str, str], None]
"""Adds to a program what computes u = K v + `rest`: called with (program, v, rest)."""


def sink_product(temperature: float, sink: float) -> KernelProduct:
    """Return the product with e^-sink K, K_ij = exp(<phi_i, phi_j> / temperature).

    The aggregator has the constant logit `sink` and the value 1 in a channel of its own, so that
    o_i = sum_j e^{S_ij} v_j / (e^sink + Z_i) and a_i = e^sink / (e^sink + Z_i): their quotient is the
    product, and the row sum Z is never formed.
    """

    def product(net: Program, v: str, rest: str) -> None:
        mask = reads((SUPPORT, QUERY), (SUPPORT, AGGREGATOR))
        scores = {("phi", "phi"): 1 / temperature, ("one", "agg"): sink}
        head = net.head("kernel product", scores, {"o": v, "a": "agg"}, mask)
        net.attend("kernel product", f"o, a = softmax attention to {v} and to the sink", head)
        net.gate("undo normalisation", u=f"o / a {rest}", clear="o a")

    return product


def imitated_product(epsilon: float) -> KernelProduct:
    """Return the product with Phi Phi' by two softmax heads, for features centred over the supports.

    softmax(epsilon S) v - mean(v) = (epsilon / n) S v + O(epsilon^2), so n / epsilon times the difference of
    a nearly flat head and a flat one is the product; n is counted in context.
    """

    def product(net: Program, v: str, rest: str) -> None:
        mask = reads((SUPPORT, QUERY), (SUPPORT,))
        tilted = net.head("tilted head", {("phi", "phi"): epsilon}, {"o": v}, mask)
        flat = net.head("flat head", {}, {"o": (v, -1.0)}, mask)
        net.attend("kernel product", f"o = softmax(eps S) {v} - mean {v}", tilted, flat)
        net.gate("scale by n / eps", u=f"gain * o {rest}", clear="o")

    return product
