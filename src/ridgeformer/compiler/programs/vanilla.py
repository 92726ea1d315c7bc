"""A stock transformer that does kernel ridge regression: softmax attention and nothing else; compare [Yan2026].

No gated sublayer, no product, no division. Memory i reads all memories (logit S_ij, value alpha_j) and its
own anchor (logit c, value e^-c (ridge alpha_i - y_i)), so that its head returns

    [(K + ridge I) alpha - y]_i / (Z_i + e^c),

and alpha <- alpha - that is gradient descent preconditioned by diag(Z + e^c). It converges without any
step size whenever e^c >= ridge, at a rate of at most 1 - ridge / (e^c + Z_max) (claim A6).
"""

from __future__ import annotations

from math import exp

from ridgeformer.language.program import Program
from ridgeformer.language.roles import ANCHOR, NULL, QUERY, SUPPORT, Mask, Role, Rule

__all__ = ["vanilla"]


def vanilla(ridge: float, temperature: float, sink: float) -> Program:
    """Return the attention-only program; tokens a head has nothing to say to read the null token."""
    roles = (SUPPORT, ANCHOR, NULL, QUERY)
    net = Program("attention-only softmax gradient descent", "softmax", roles)
    net.features("phi_reader", "features, as asked with", on=(SUPPORT, ANCHOR, QUERY))
    net.features("phi_source", "features, as found by", on=(SUPPORT,))
    net.constant("one", "the constant 1", on=roles)
    net.constant("slot", "1 on what is read with the sink logit", on=(ANCHOR, QUERY, NULL))
    net.targets("y", "targets, on anchors", on=(ANCHOR,))
    net.state({"alpha": "coefficients, on memories", "copy": "coefficients, on anchors", "f": "prediction, on queries"})

    scores = {("phi_reader", "phi_source"): 1 / temperature, ("one", "slot"): sink}
    small = exp(-sink)
    net.begin_step()
    gradient = [("alpha", -1.0), ("copy", -ridge * small), ("y", small)]
    memories = net.head("update memories", scores, {"alpha": gradient}, _mask(roles, SUPPORT, ANCHOR))
    anchors = net.head("update anchors", scores, {"copy": gradient}, _mask(roles, ANCHOR, ANCHOR))
    queries = net.head("update queries", scores, {"f": [("alpha", 1 / small), ("f", -1.0)]}, _mask(roles, QUERY, QUERY))
    caption = "alpha -= ((K + ridge) alpha - y) / (Z + e^c), f += e^c (k(x)'alpha - f) / (Z_x + e^c)"
    net.attend("descend", caption, memories, anchors, queries)
    net.record("alpha")
    net.record("f", "f", QUERY)
    return net


def _mask(roles: tuple[Role, ...], reader: Role, slot: Role) -> Mask:
    """Return the mask of a head that serves one role: all memories and its own slot; others read the null token."""
    served = (Rule(reader, SUPPORT), Rule(reader, slot, "own"))
    return Mask(served + tuple(Rule(role, NULL) for role in roles if role != reader))
