"""One softmax head: the kernel-weighted mean of the targets, which is not ridge regression for any ridge."""

from __future__ import annotations

from ridgeformer.language.program import Program
from ridgeformer.language.roles import QUERY, SUPPORT, reads

__all__ = ["nadaraya_watson"]


def nadaraya_watson(temperature: float) -> Program:
    """Return the one-head program; it has a single step."""
    net = Program("one softmax head (Nadaraya-Watson)", "softmax", (SUPPORT, QUERY))
    net.features("phi", "features", on=(SUPPORT, QUERY))
    net.constant("one", "the constant 1", on=(SUPPORT, QUERY))
    net.targets("y", "targets")
    net.state({"f": "prediction, on queries"})
    net.begin_step()
    head = net.head("average", {("phi", "phi"): 1 / temperature}, {"f": "y"}, reads((QUERY,), (SUPPORT,)))
    net.attend("average", "f = softmax-weighted mean of y", head)
    net.record("f", "f", QUERY)
    return net
