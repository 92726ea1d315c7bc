"""The two kinds of sublayer a compiled transformer is made of, as modules with explicit weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ridgeformer.language.expressions import reciprocal
from ridgeformer.language.roles import Mask, Tokens

__all__ = ["GATES", "AttentionSublayer", "GatedMLP", "HeadWeights"]


GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda b: b,
    "reciprocal": reciprocal,
    "silu": nn.functional.silu,
    "relu": nn.functional.relu,
}
"""What a gated unit may do to its gate; silu and relu are stock, the first two go beyond."""


@dataclass(frozen=True)
class HeadWeights:
    """The matrices of one head: W_Q and W_K are width x key, W_V is width x value, W_O is value x width."""

    name: str
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    mask: Mask
    kind: str


class AttentionSublayer(nn.Module):
    """X <- X + sum_h P_h (X W_V) W_O, with P_h a masked softmax of X W_Q (X W_K)', or that product itself.

    A token whose mask lets it read nobody gets nothing.
    """

    W_Q: nn.ParameterList
    W_K: nn.ParameterList
    W_V: nn.ParameterList
    W_O: nn.ParameterList

    def __init__(self, name: str, caption: str, heads: Sequence[HeadWeights]) -> None:
        super().__init__()
        self.name, self.caption = name, caption
        self.heads = [head.name for head in heads]
        self.masks = [head.mask for head in heads]
        self.kinds = [head.kind for head in heads]
        for letter in ("W_Q", "W_K", "W_V", "W_O"):
            weights = [nn.Parameter(getattr(head, letter), requires_grad=False) for head in heads]
            self.register_module(letter, nn.ParameterList(weights))

    def pattern(self, head: int, X: Tensor, tokens: Tokens) -> Tensor:
        """Return P_h: (..., reader tokens, source tokens)."""
        scores = (X @ self.W_Q[head]) @ (X @ self.W_K[head]).mT
        allowed = self.masks[head].matrix(tokens, X.device)
        if self.kinds[head] == "linear":
            return scores.masked_fill(~allowed, 0.0)  # not times 0: what overflows unread would be NaN
        anyone = allowed.any(-1, keepdim=True)
        shut = torch.where(anyone, ~allowed, False)
        return scores.masked_fill(shut, -torch.inf).softmax(-1) * anyone

    def head_output(self, head: int, X: Tensor, tokens: Tokens) -> Tensor:
        """Return what one head adds to the stream."""
        return self.pattern(head, X, tokens) @ (X @ self.W_V[head]) @ self.W_O[head]

    def forward(self, X: Tensor, tokens: Tokens) -> Tensor:
        """Return the stream after this sublayer, computed literally."""
        return X + sum(self.head_output(head, X, tokens) for head in range(len(self.heads)))


class GatedMLP(nn.Module):
    """X <- X + [(X W_a) * g(X W_b)] W_d, with g chosen per unit."""

    def __init__(self, name: str, caption: str, W_a: Tensor, W_b: Tensor, W_d: Tensor, gates: Sequence[str]) -> None:
        super().__init__()
        self.name, self.caption = name, caption
        self.gates = list(gates)
        self.W_a, self.W_b, self.W_d = (nn.Parameter(W, requires_grad=False) for W in (W_a, W_b, W_d))

    def forward(self, X: Tensor, tokens: Tokens) -> Tensor:
        """Return the stream after this sublayer, computed literally."""
        b = X @ self.W_b
        g = torch.empty_like(b) if not b.requires_grad else torch.zeros_like(b)
        for kind in set(self.gates):
            units = [unit for unit, gate in enumerate(self.gates) if gate == kind]
            g = g.index_copy(-1, torch.tensor(units, device=b.device), GATES[kind](b[..., units]))
        return X + ((X @ self.W_a) * g) @ self.W_d
