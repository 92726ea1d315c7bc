"""The loop that carries out a table of instructions on rows of numbers, in one call: for Numba.

A row holds one number a token, a scalar one number for all tokens. Places 0 and 1 of the scalars hold 0 and 1: "add to
nothing" and "times nothing else" need no case of their own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Code", "carry_out"]


INFINITE = np.inf

Codes: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[Any]


class Code(IntEnum):
    """What an instruction (code, to, base, a, b, from, until, first, last) with its number c does.

    F are rows and S scalars. Rows are made for the tokens from `first` to `last`: base + ..., or ... where base is -1,
    on those from `from` to `until`, and the base on others.
    """

    FILL = 0  # F[to] = base + c S[a]
    SCALE = 1  # F[to] = base + c S[b] F[a]
    MULTIPLY = 2  # F[to] = base + c F[a] F[b]
    DIVIDE = 3  # F[to] = base + c F[a] / F[b]
    INVERT = 4  # F[to] = base + c S[a] / F[b]
    RECTIFY = 5  # F[to] = base + c max(0, F[a])
    SIGMOID = 6  # F[to] = 1 / (1 + e^-F[a])
    WEIGH = 7  # F[to] = base + c P F[a], P the matrix that begins at place b
    SUM = 8  # S[to] = S[base] + c S[b] (sum of F[a])
    DOT = 9  # S[to] = S[base] + c (sum of F[a] F[b])
    PICK = 10  # S[to] = F[a] of token `from`
    TIMES = 11  # S[to] = S[base] + c S[a] S[b]
    OVER = 12  # S[to] = S[base] + c S[a] / S[b]
    CUT = 13  # S[to] = S[base] + c max(0, S[a])
    SQUASH = 14  # S[to] = 1 / (1 + e^-S[a])
    STORE = 15  # out[to], ... = c F[a]
    SPREAD = 16  # out[to], ... = c S[a]


def carry_out(table: Codes, numbers: Floats, rows: Floats, scalars: Floats, matrices: Floats, out: Floats,
              least: float) -> None:  # fmt: skip
    """Carry out instructions; a divisor that is at most `least` is infinite, as `guarded` has it."""
    for n in range(table.shape[0]):
        code, to, base, a, b = table[n, 0], table[n, 1], table[n, 2], table[n, 3], table[n, 4]
        low, high, first, last, c = table[n, 5], table[n, 6], table[n, 7], table[n, 8], numbers[n]
        if code >= 11 and code <= 14:
            if code == 11:
                scalars[to] = scalars[base] + c * scalars[a] * scalars[b]
            elif code == 12:
                scalars[to] = scalars[base] + c * scalars[a] / (INFINITE if scalars[b] <= least else scalars[b])
            elif code == 13:
                scalars[to] = scalars[base] + c * (scalars[0] if scalars[a] < 0 else scalars[a])
            else:
                scalars[to] = 1 / (1 + np.exp(-scalars[a]))
            continue
        if code >= 8:
            x, total = rows[a if code < 16 else 0, low:high], scalars[0]
            if code == 8:
                for t in range(high - low):
                    total += x[t]
                scalars[to] = scalars[base] + c * scalars[b] * total
            elif code == 9:
                z = rows[b, low:high]
                for t in range(high - low):
                    total += x[t] * z[t]
                scalars[to] = scalars[base] + c * total
            elif code == 10:
                scalars[to] = x[0]
            else:
                for t in range(high - low):
                    out[to + t] = c * (x[t] if code == 15 else scalars[a])
            continue
        if base >= 0 and base != to:
            rows[to, first:last] = rows[base, first:last]
        elif base < 0:
            rows[to, first:last] = scalars[0]
        y, x = rows[to, low:high], rows[to if code == 0 or code == 4 else a, low:high]
        if code == 0:
            k = c * scalars[a]
            for t in range(high - low):
                y[t] += k
        elif code == 1:
            k = c * scalars[b]
            for t in range(high - low):
                y[t] += k * x[t]
        elif code == 2:
            z = rows[b, low:high]
            for t in range(high - low):
                y[t] += c * x[t] * z[t]
        elif code == 3:
            z = rows[b, low:high]
            for t in range(high - low):
                y[t] += c * x[t] / (INFINITE if z[t] <= least else z[t])
        elif code == 4:
            z, k = rows[b, low:high], c * scalars[a]
            for t in range(high - low):
                y[t] += k / (INFINITE if z[t] <= least else z[t])
        elif code == 5:
            for t in range(high - low):
                y[t] += c * (scalars[0] if x[t] < 0 else x[t])
        elif code == 6:
            for t in range(high - low):
                y[t] += 1 / (1 + np.exp(-x[t]))
        else:
            size = high - low
            for t in range(first, last):
                p, total = matrices[b + t * size : b + (t + 1) * size], scalars[0]
                for s in range(size):
                    total += p[s] * x[s]
                rows[to, t] += c * total
