"""Rows of small whole numbers, each times a number of its own: pixels, counts, genotypes, fingerprints, also scaled.

Their dot products are sums of whole numbers. Processors multiply those of 8 bits several times as fast as floating
point, and exactly.
"""

from __future__ import annotations

from functools import cache
from math import ceil
from threading import local
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int8
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.compiled import compile_it

__all__ = ["WholeNumbers", "exact_products"]

LARGEST = 255
"""Whole numbers go up to this; to half of it where some are negative."""

SHIFT = 128
"""What is taken off numbers none of which is negative, so that they fit into 8 bits with a sign."""

LEAST, MOST = 64, 2**15
"""Features: with fewer, bounds on entries would not allow for `SLACK`; with more, a sum could leave 32 bits."""

SLACK = 16
"""Roundings that an entry may be away from a multiple of its row's step. Scaling rows makes a few."""

TRIED = 64
"""Rows from all over that are looked at before a copy of all is made."""


class WholeNumbers:
    """Rows x_i = steps_i (codes_i + shift), up to `SLACK` roundings of each entry.

    Example:
        >>> found = WholeNumbers(torch.tensor([[1, 2], [0, 3]], dtype=torch.int8), torch.tensor([1.0, 0.5]), shift=0)
        >>> products = np.empty((2, 2), dtype="float32")
        >>> found.fill(products, slice(0, 2), slice(0, 2))
        >>> products.tolist()
        [[5.0, 3.0], [3.0, 2.25]]
    """

    def __init__(self, codes: Int8[Tensor, "n d"], steps: Float[Tensor, " n"], shift: int) -> None:
        self.codes, self.steps, self.shift = codes, steps, shift
        self._taken = shift * codes.sum(1, dtype=torch.int32)
        self._room = local()  # each thread's sums: fresh memory for every tile costs time

    @classmethod
    def of(cls, rows: Float[Tensor, "n d"]) -> WholeNumbers | None:
        """Return the rows as whole numbers, if all are such and the processor multiplies these fast; needs Numba."""
        n, d = rows.shape
        if not (LEAST <= d <= MOST and n and rows.device.type == "cpu" and exact_products()):
            return None
        shift = SHIFT if float(rows.amin()) >= 0 else 0
        largest, slack = LARGEST if shift else LARGEST // 2, SLACK / 2 * torch.finfo(rows.dtype).eps
        for some in (rows[:: ceil(n / TRIED)].contiguous(), rows.contiguous()):
            codes, steps = torch.empty(some.shape, dtype=torch.int8), torch.empty(len(some), dtype=rows.dtype)
            compile_it(find_multiples)(some.numpy(), codes.numpy(), steps.numpy(), shift, largest, slack)
            if bool(steps.isnan().any()):
                return None
        return cls(codes, steps, shift)

    def fill(self, out: NDArray[Any], rows: slice, columns: slice) -> None:
        """Write into `out` the dot products of some rows with some others."""
        if getattr(self._room, "sums", np.empty(0)).shape != out.shape:
            self._room.sums = torch.empty(out.shape, dtype=torch.int32)
        sums = torch._int_mm(self.codes[rows], self.codes[columns].T, out=self._room.sums)
        if self.shift:
            sums += (self._taken[rows] + self.shift**2 * self.codes.shape[1])[:, None]
            sums += self._taken[columns]
        np.multiply(sums.numpy(), self.steps[rows, None].numpy(), out=out, casting="same_kind")
        out *= self.steps[columns].numpy()


@cache
def exact_products() -> bool:
    """Whether matrices of 8-bit numbers are multiplied fast and exactly: some processors would cut sums off."""
    if not (hasattr(torch, "_int_mm") and getattr(torch.cpu, "_is_vnni_supported", bool)()):
        return False
    worst = torch.tensor([-128, 127], dtype=torch.int8).repeat(LEAST, LEAST)
    worst[0] = -128
    return torch.equal(torch._int_mm(worst, worst.T).long(), worst.long() @ worst.long().T)


def find_multiples(rows: Any, codes: Any, steps: Any, shift: int, largest: int, slack: float) -> None:
    """Set a step for each row and, as codes, which multiples of it the entries are, less the shift; NaN if none fits.

    All are NumPy arrays. No entry is more than `largest` steps, nor farther from a multiple than `slack` times that.

    Example:
        >>> codes, steps = np.empty((2, 3), dtype="int8"), np.empty(2)
        >>> find_multiples(np.array([[0.5, 1.25, 0.0], [0.3, 1.0, 3.14]]), codes, steps, 0, 100, 1e-15)
        >>> steps.tolist(), codes[0].tolist()
        ([0.25, nan], [2, 5, 0])
    """
    for i in range(rows.shape[0]):
        row, top, count = rows[i], 0.0, 1
        for j in range(rows.shape[1]):
            top = max(top, abs(row[j]))
        per_step = 1 / top if top > 0 else 0.0
        for j in range(rows.shape[1]):
            finer = count
            while not abs(row[j] * per_step - np.rint(row[j] * per_step)) <= slack * abs(np.rint(row[j] * per_step)):
                finer += count  # what was a multiple so far still is one
                if finer > largest:
                    break
                per_step = finer / top
            count = finer
            if count > largest:
                break
        steps[i] = top / count if count <= largest else np.nan
        for j in range(rows.shape[1] if count <= largest else 0):
            codes[i, j] = int(np.rint(row[j] * per_step)) - shift
