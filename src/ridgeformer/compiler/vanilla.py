"""A stock transformer that does kernel ridge regression: softmax attention and nothing else; compare [Yan2026].

No gated sublayer, no product, no division. Memory i reads all memories (logit S_ij, value alpha_j) and its own anchor
(logit c, value e^-c (ridge alpha_i - y_i)), so that its head returns

    [(K + ridge I) alpha - y]_i / (Z_i + e^c),

and alpha <- alpha - that is gradient descent preconditioned by diag(Z + e^c). It converges without any step size
whenever e^c >= ridge, at a rate of at most 1 - ridge / (e^c + Z_max) (claim A6).

For the Gaussian kernel memory j has the key bias -|x_j|^2 / 2 tau and slots have the logit c + |x_i|^2 / 2 tau.
Attention alone cannot square, so tokens carry |phi|^2 / 2 as one more input, computed like the features before the
embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import ClassVar

from torch import Tensor

from ridgeformer.algorithms import Compilable, Richardson
from ridgeformer.compiler.attentions import LARGEST_SINK, SoftmaxAttention, checked_sink
from ridgeformer.core.errors import InputError
from ridgeformer.kernels import Kernel
from ridgeformer.language.program import Program
from ridgeformer.language.roles import ANCHOR, NULL, QUERY, SUPPORT, Mask, Role, Rule

__all__ = ["VanillaAttention"]


@dataclass(frozen=True)
class VanillaAttention(SoftmaxAttention):
    """Attention alone. It works with the kernel itself: `sink` is the anchors' logit, not a scale."""

    name: ClassVar[str] = "vanilla"
    runs: ClassVar[tuple[type[Compilable], ...]] = (Richardson,)
    divides: ClassVar[bool] = False
    _instead: ClassVar[str] = "it runs 'richardson'"

    def check(self, ridge: float) -> None:
        """Refuse a sink whose exponential is below the ridge, or beyond float64."""
        checked_sink(self.sink, LARGEST_SINK)
        if self.sink < log(ridge) - 1e-9:
            raise InputError(
                f"sink is {self.sink:.4g}; the vanilla transformer converges if e^sink >= ridge, that is sink >= "
                f"{log(ridge):.4g}."
            )

    @property
    def scale(self) -> float:
        """1."""
        return 1.0

    @property
    def scaled_kernel(self) -> Kernel:
        """The kernel."""
        return self.kernel

    def diagonal(self, row_sums: Tensor) -> Tensor:
        """Return Z + e^c, by which a step is divided."""
        return row_sums + exp(self.sink)

    def write(self, algorithm: Compilable, ridge: float) -> Program:
        """Return the attention-only program; tokens that a head does not serve read the null token.

        Raises:
            InputError: another algorithm than Richardson's, or a step size.
        """
        if not isinstance(algorithm, Richardson):
            return super().write(algorithm, ridge)
        if algorithm.step_size is not None or self.through_aggregator:
            odd = "step_size" if algorithm.step_size is not None else "through_aggregator"
            raise InputError(f"the vanilla transformer has no {odd} and would ignore it: leave it out.")
        roles = (SUPPORT, ANCHOR, NULL, QUERY)
        net = Program("attention-only softmax gradient descent", "softmax", roles)
        net.features("phi_reader", "features, as asked with", on=(SUPPORT, ANCHOR, QUERY))
        net.features("phi_source", "features, as found by", on=(SUPPORT,))
        if self.gaussian:
            net.half_squares("half_reader", "phi.phi / 2, as asked with", on=(SUPPORT, ANCHOR, QUERY))
            net.half_squares("half_source", "phi.phi / 2, as found by", on=(SUPPORT,))
        net.constant("one", "the constant 1", on=roles)
        net.constant("slot", "1 on what is read with the sink logit", on=(ANCHOR, QUERY, NULL))
        net.targets("y", "targets, on anchors", on=(ANCHOR,))
        net.state({"alpha": "coefficients, on memories", "copy": "coefficients, on anchors"})
        net.state({"f": "prediction, on queries"})

        inverse = 1 / self.temperature
        scores = {("phi_reader", "phi_source"): inverse, ("one", "slot"): self.sink}
        if self.gaussian:
            scores |= {("one", "half_source"): -inverse, ("half_reader", "slot"): inverse}
        small = exp(-self.sink)
        net.begin_step()
        gradient = [("alpha", -1.0), ("copy", -ridge * small), ("y", small)]
        memories = net.head("update memories", scores, {"alpha": gradient}, _mask(roles, SUPPORT, ANCHOR))
        anchors = net.head("update anchors", scores, {"copy": gradient}, _mask(roles, ANCHOR, ANCHOR))
        answer = {"f": [("alpha", 1 / small), ("f", -1.0)]}
        queries = net.head("update queries", scores, answer, _mask(roles, QUERY, QUERY))
        caption = "alpha -= ((K + ridge) alpha - y) / (Z + e^c), f += e^c (k(x)'alpha - f) / (Z_x + e^c)"
        net.attend("descend", caption, memories, anchors, queries)
        net.record("alpha")
        net.record("f", "f", QUERY)
        return net


def _mask(roles: tuple[Role, ...], reader: Role, slot: Role) -> Mask:
    """Return the mask of a head that serves one role: all memories and its own slot; others read the null token."""
    served = (Rule(reader, SUPPORT), Rule(reader, slot, "own"))
    return Mask(served + tuple(Rule(role, NULL) for role in roles if role != reader))
