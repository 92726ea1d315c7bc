"""The loop that carries out a table of instructions on rows of numbers, in one call: for Numba.

A row holds one number a token, a scalar one number for all tokens. Places 0 and 1 of the scalars hold 0 and 1: "add to
nothing" and "times nothing else" need no case of their own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["PARTS", "Code", "carry_out"]


INFINITE = np.inf

Codes: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[Any]


class Code(IntEnum):
    """What an instruction (code, to, base, a, b, from, until, first, last, stride) with its number c does.

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
    WEIGH = 7  # F[to] = base + c P F[a], P the matrix that begins at place b and has rows of `stride` numbers
    SUM = 8  # S[to] = S[base] + c S[b] (sum of F[a])
    DOT = 9  # S[to] = S[base] + c (sum of F[a] F[b])
    PICK = 10  # S[to] = F[a] of token `from`
    TIMES = 11  # S[to] = S[base] + c S[a] S[b]
    OVER = 12  # S[to] = S[base] + c S[a] / S[b]
    CUT = 13  # S[to] = S[base] + c max(0, S[a])
    SQUASH = 14  # S[to] = 1 / (1 + e^-S[a])
    STORE = 15  # out[to], ... = c F[a]
    SPREAD = 16  # out[to], ... = c S[a]
    LINEAR = 17  # F[to] = base + sum of c S[t] F[s] over the terms (s, t, c) from a to b
    BILINEAR = 18  # F[to] = base + sum of c F[s] F[t] over them
    DOTS = 19  # S[t] = c (sum of F[to] F[s]) for each of them


def carry_out(table: Codes, numbers: Floats, terms: Codes, factors: Floats, rows: Floats, scalars: Floats,
              matrices: Floats, out: Floats, least: float) -> None:  # fmt: skip
    """Carry out instructions; a divisor that is at most `least` is infinite, as `guarded` has it.

    Joined instructions take their terms, and a number for each, from `terms` and `factors`.
    """
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
        if code >= 17:
            if base >= 0 and base != to:
                rows[to, first:last] = rows[base, first:last]
            elif base < 0 and code != 19:
                rows[to, first:last] = scalars[0]
            carry_out_joined(code, to, a, b, low, high, terms, factors, rows, scalars)
            continue
        if code >= 8:
            read_row(code, to, base, a, b, low, high, c, rows, scalars, out)
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
            stride = table[n, 9]
            for t in range(first, last):
                p, total = matrices[b + t * stride : b + t * stride + high - low], scalars[0]
                for s in range(high - low):
                    total += p[s] * x[s]
                rows[to, t] += c * total


def read_row(code: int, to: int, base: int, a: int, b: int, low: int, high: int, c: float, rows: Floats,
             scalars: Floats, out: Floats) -> None:  # fmt: skip
    """Carry out an instruction that makes a scalar of a row, or stores it."""
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


def carry_out_joined(code: int, to: int, a: int, b: int, low: int, high: int, terms: Codes, factors: Floats,
                     rows: Floats, scalars: Floats) -> None:  # fmt: skip
    """Carry out one joined instruction on the terms from `a` to `b`, several in one pass over the tokens."""
    y = rows[to, low:high]
    if code == 17:
        for j in range(a, b - 3, 4):
            k0, k1 = factors[j] * scalars[terms[j, 1]], factors[j + 1] * scalars[terms[j + 1, 1]]
            k2, k3 = factors[j + 2] * scalars[terms[j + 2, 1]], factors[j + 3] * scalars[terms[j + 3, 1]]
            x0, x1 = rows[terms[j, 0], low:high], rows[terms[j + 1, 0], low:high]
            x2, x3 = rows[terms[j + 2, 0], low:high], rows[terms[j + 3, 0], low:high]
            for t in range(high - low):
                y[t] += (k0 * x0[t] + k1 * x1[t]) + (k2 * x2[t] + k3 * x3[t])
        for j in range(b - (b - a) % 4, b):
            x0, k0 = rows[terms[j, 0], low:high], factors[j] * scalars[terms[j, 1]]
            for t in range(high - low):
                y[t] += k0 * x0[t]
    elif code == 18:
        for j in range(a, b - 1, 2):
            k0, x0, z0 = factors[j], rows[terms[j, 0], low:high], rows[terms[j, 1], low:high]
            k1, x1, z1 = factors[j + 1], rows[terms[j + 1, 0], low:high], rows[terms[j + 1, 1], low:high]
            for t in range(high - low):
                y[t] += k0 * x0[t] * z0[t] + k1 * x1[t] * z1[t]
        for j in range(b - (b - a) % 2, b):
            k0, x0, z0 = factors[j], rows[terms[j, 0], low:high], rows[terms[j, 1], low:high]
            for t in range(high - low):
                y[t] += k0 * x0[t] * z0[t]
    else:
        for j in range(a, b - 3, 4):
            s0, s1, s2, s3 = scalars[0], scalars[0], scalars[0], scalars[0]
            x0, x1 = rows[terms[j, 0], low:high], rows[terms[j + 1, 0], low:high]
            x2, x3 = rows[terms[j + 2, 0], low:high], rows[terms[j + 3, 0], low:high]
            for t in range(high - low):
                s0 += y[t] * x0[t]
                s1 += y[t] * x1[t]
                s2 += y[t] * x2[t]
                s3 += y[t] * x3[t]
            scalars[terms[j, 1]], scalars[terms[j + 1, 1]] = factors[j] * s0, factors[j + 1] * s1
            scalars[terms[j + 2, 1]], scalars[terms[j + 3, 1]] = factors[j + 2] * s2, factors[j + 3] * s3
        for j in range(b - (b - a) % 4, b):
            x0, s0 = rows[terms[j, 0], low:high], scalars[0]
            for t in range(high - low):
                s0 += y[t] * x0[t]
            scalars[terms[j, 1]] = factors[j] * s0


PARTS = (read_row, carry_out_joined)
"""What `carry_out` calls, for `compile_it`."""
