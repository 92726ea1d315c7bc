"""Adapters: torch modules on token sequences as functions of supports, targets and queries.

Every query becomes a sequence of its own, behind the same supports; all sequences run in batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ridgeformer.core.errors import ShapeError

__all__ = ["Adapter", "InterleavedTokens", "QueryLast", "TokenPairs"]


@dataclass(frozen=True, eq=False)
class Adapter(ABC):
    """A module that reads a sequence of supports and one query.

    Attributes:
        module: The module; it is put into evaluation mode and its weights are left alone.
        batch: Sequences that run at once.
    """

    module: nn.Module
    batch: int = 1024

    tokens_a_support: ClassVar[int] = 1
    """Tokens that stand for one support; the last of them carries its target."""

    def __call__(self, X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        """Return the predictions, (T, q), for tasks (T, k, d), (T, k), (T, q, d)."""
        T, q = Xq.shape[:2]
        weight = next(self.module.parameters(), None)
        dtype = torch.float64 if weight is None else weight.dtype
        device = "cpu" if weight is None else weight.device
        supports = X[:, None].expand(-1, q, -1, -1).flatten(0, 1)
        targets, queries = y[:, None].expand(-1, q, -1).flatten(0, 1), Xq.flatten(0, 1)
        was_training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                parts = [
                    self.run(*(part.to(device=device, dtype=dtype) for part in some)).double().cpu()
                    for some in zip(*(given.split(self.batch) for given in (supports, targets, queries)), strict=True)
                ]
        finally:
            self.module.train(was_training)
        found = torch.cat([part.reshape(-1) if part.ndim == 2 and part.shape[1] == 1 else part for part in parts])
        if found.shape != (T * q,):
            raise ShapeError(
                f"the module returned {tuple(found.shape)} for {T * q} sequences; one number a sequence was expected: "
                "give readout= to select it, or choose another adapter."
            )
        return found.reshape(T, q)

    @abstractmethod
    def run(self, X: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Return one prediction a sequence: supports (B, k, d), targets (B, k), one query (B, d)."""

    def with_module(self, module: nn.Module) -> Adapter:
        """Return the adapter around another module."""
        return replace(self, module=module)

    def with_batch(self, batch: int) -> Adapter:
        """Return the adapter with another number of sequences at once."""
        return replace(self, batch=batch)


@dataclass(frozen=True, eq=False)
class TokenPairs(Adapter):
    """Modules called as module(xs, ys), the form of [Garg2022]: (B, k + 1, d) and (B, k + 1) to (B, k + 1).

    The last target is zero and the prediction at the last place is read. Inside, two tokens stand for a support.

    Example:
        >>> class Zero(nn.Module):
        ...     def forward(self, xs, ys):
        ...         return 0 * ys
        >>> TokenPairs(Zero())(torch.ones(2, 3, 4), torch.ones(2, 3), torch.ones(2, 5, 4)).shape
        torch.Size([2, 5])
    """

    tokens_a_support: ClassVar[int] = 2

    def run(self, X: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Return the prediction at the last place."""
        xs = torch.cat([X, x[:, None]], 1)
        ys = torch.nn.functional.pad(y, (0, 1))
        found: Tensor = self.module(xs, ys)
        return found[:, -1]


@dataclass(frozen=True, eq=False)
class InterleavedTokens(Adapter):
    """Modules on x_1, y_1, x_2, y_2, ..., x: (B, 2k + 1, d), targets in the first of d columns.

    Read is the last token; of its columns, `readout`.
    """

    readout: int = 0

    tokens_a_support: ClassVar[int] = 2

    def run(self, X: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Return the readout of the last token."""
        targets = torch.nn.functional.pad(y[..., None], (0, X.shape[-1] - 1))
        pairs = torch.stack([X, targets], 2).flatten(1, 2)
        found: Tensor = self.module(torch.cat([pairs, x[:, None]], 1))
        return found[:, -1] if found.ndim == 2 else found[:, -1, self.readout]


@dataclass(frozen=True, eq=False)
class QueryLast(Adapter):
    """Modules on tokens (x_i, y_i) with the query (x, 0) last: (B, k + 1, d + 1), as in [vonOswald2023].

    Read is the last token; of its columns, `readout`, times `sign`.
    """

    readout: int = -1
    sign: float = 1.0

    def run(self, X: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Return the readout of the last token."""
        tokens = torch.cat([torch.cat([X, y[..., None]], -1), torch.nn.functional.pad(x, (0, 1))[:, None]], 1)
        found: Tensor = self.module(tokens)
        last = found[:, -1] if found.ndim == 2 and found.shape[1] == tokens.shape[1] else found
        last = found[:, -1, self.readout] if found.ndim == 3 else last
        return self.sign * last
