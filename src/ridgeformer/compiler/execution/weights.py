"""Noticing that a weight has changed, whoever changed it and however: by number, by swapping tensors or modules.

Counters do not do: torch's version of a tensor does not rise when its `.data`, or an array that shares its memory, is
written to. So the numbers are read. Nearly all of them are zero: every run of zeros is checked by reading it alone, and
only what is not zero is compared with a copy, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ridgeformer.core.compiled import compile_it, words_at

__all__ = ["Snapshot"]


class Snapshot:
    """The weights of a model as they were: which tensors, where they stand, and their numbers.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> kept = Snapshot(layer)
        >>> kept.together() and kept.unchanged()
        True
        >>> layer.weight.data[0, 0] += 1
        >>> kept.unchanged()
        False
    """

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        self.held = [(m._parameters, name, p) for m in modules for name, p in m._parameters.items()]
        self.held += [(m._modules, name, child) for m in modules for name, child in m._modules.items()]  # type: ignore[misc]
        self.owners = [owner for m in modules for owner in (m._parameters, m._modules)]
        self.weights: list[Tensor] = list(model.parameters())
        self.copies = [weight.detach().clone() for weight in self.weights]
        self.placed = self._placed()
        self.bits: _Bits | None = None

    def together(self) -> bool:
        """Whether the model consists of the same modules and tensors, in the same memory; numbers aside."""
        return (
            all([owner.get(name) is thing for owner, name, thing in self.held])  # noqa: C419, a list is faster
            and sum(map(len, self.owners)) == len(self.held)
            and self._placed() == self.placed
        )

    def unchanged(self, compiled: bool = False) -> bool:
        """Whether the numbers are the same, in tensors that are; `compiled` reads them in one function, faster."""
        if compiled and self.bits is None and all(_plain(weight) for weight in self.weights):
            self.bits = _Bits(self.weights, self.copies)
        if compiled and self.bits is not None:
            return self.bits.same()
        return all(map(torch.equal, self.weights, self.copies))

    def _placed(self) -> tuple[list[Any], ...]:
        weights = self.weights
        kinds = [weight.dtype for weight in weights]
        return (*(list(map(of, weights)) for of in (Tensor.data_ptr, Tensor.stride, Tensor.numel)), kinds)


def _plain(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.is_contiguous() and weight.dtype in (torch.float32, torch.float64)


class _Bits:
    """Where zeros and other numbers stand in memory: runs of zeros, each with the word behind it."""

    def __init__(self, weights: list[Tensor], copies: list[Tensor]) -> None:
        self.parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        for dtype, word in ((torch.float64, np.dtype(np.int64)), (torch.float32, np.dtype(np.int32))):
            starts, counts, words = list[NDArray[Any]](), list[NDArray[Any]](), list[NDArray[Any]]()
            for weight, copy in zip(weights, copies, strict=True):
                if weight.dtype != dtype or weight.numel() == 0:
                    continue
                kept = copy.numpy().view(word).ravel()
                ends = np.union1d(kept.nonzero()[0], len(kept) - 1)
                begins = np.concatenate([[0], ends[:-1] + 1])
                starts.append(weight.data_ptr() + begins * word.itemsize)
                counts.append(ends - begins)
                words.append(kept[ends])
            if starts:
                self.parts.append((np.concatenate(starts), np.concatenate(counts), np.concatenate(words)))

    def same(self) -> bool:
        """Whether memory holds what it held."""
        check: Callable[..., None] = compile_it(compare_bits)
        for starts, counts, words in self.parts:
            differ = np.zeros_like(words, shape=1)
            check(starts, counts, words, differ)
            if differ[0]:
                return False
        return True


def compare_bits(starts: NDArray[Any], counts: NDArray[Any], words: NDArray[Any], differ: NDArray[Any]) -> None:
    """Set bits of `differ[0]` where memory is not zero for `counts` words from `starts` on, or then not the word."""
    found = differ[0]
    for n in range(starts.shape[0]):
        memory = words_at(starts[n], counts[n] + 1, differ)
        for t in range(counts[n]):
            found |= memory[t]
        found |= memory[counts[n]] ^ words[n]
    differ[0] = found
