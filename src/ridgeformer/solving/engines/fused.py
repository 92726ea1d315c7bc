"""Kernel entries between rows and centres, used for both of their products while they are in the cache.

For exponential and Gaussian kernels of few features. The entry is 2^(x'z + a(x) + b(z)), with log2(e) folded into the
scaled rows: a power of two costs a polynomial and a shift, a third of an exponential. Four rows are worked on at once
and six features at a time, so that a number read from memory is used often.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import log, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.compiled import compile_it, compiled
from ridgeformer.kernels import LogitKernel

__all__ = ["FusedRows", "fuses"]

ROWS, FEATURES = 4, 6
"""Rows worked on at once, and features of them."""

WIDEST = 128
"""With more features a matrix product is faster."""

CHUNK = 512
"""Centres worked on at once: their features stay in the nearest cache."""

TASK = 4096
"""Rows a thread takes at a time, at most: its sums begin anew for each."""

DEGREES = {np.dtype(np.float32): 6, np.dtype(np.float64): 12}
"""Of the polynomial for 2^t, |t| <= 1/2: its error is below the rounding."""


def fuses(X: Float[Tensor, "n d"]) -> bool:
    """Whether these rows can be worked on here."""
    return X.device.type == "cpu" and X.shape[1] <= WIDEST and compiled()


class FusedRows:
    """Products with the kernel matrix between rows, which come a block at a time, and centres."""

    def __init__(self, kernel: LogitKernel, Z: Float[Tensor, "m d"], dtype: torch.dtype) -> None:
        self.kernel, self.dtype = kernel, dtype
        rows, self.bias = self._scaled(Z, key=True)
        self.columns = np.ascontiguousarray(rows.T)

    def multiply(
        self, X: Float[Tensor, "b d"], P: Float[Tensor, "m r"], y: Float[Tensor, "b r"] | None, *, back: bool = True
    ) -> tuple[Float[Tensor, "b r"], Float[Tensor, "m r"]]:
        """Return u = K P, or y - K P where y is given, and K'u (zeros unless `back`), in float64."""
        rows, bias = self._scaled(X, key=False)
        kind, count = rows.dtype, len(rows)
        right = np.ascontiguousarray(P.T.numpy(), dtype=kind)
        u = np.zeros((len(right), count), dtype=kind)
        given = np.zeros_like(u) if y is None else np.ascontiguousarray(y.T.numpy(), dtype=kind)
        double = kind == np.float64
        numbers = np.array([1 if y is None else -1, -1022 if double else -126, 0.5, 0], dtype=kind)
        places = np.array([1023, 52, 1] if double else [127, 23, 0], dtype=np.int64 if double else np.int32)

        def work(start: int) -> NDArray[Any]:
            some, sums = slice(start, start + TASK), np.zeros_like(right)
            room = np.empty((4, right.shape[1]), dtype=kind), np.empty((4, right.shape[1]), dtype=places.dtype)
            compile_it(_pass)(
                rows[some], bias[some], self.columns, self.bias, right, given[:, some], numbers, places,
                _polynomial(kind), *room, u[:, some], sums, back,
            )  # fmt: skip
            return sums.astype(np.float64)

        total = np.zeros(right.shape)
        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            for part in threads.map(work, range(0, count, TASK)):
                total += part
        return torch.from_numpy(u.T.astype(np.float64)), torch.from_numpy(total.T.copy())

    def _scaled(self, X: Tensor, *, key: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return rows whose dot products are logits in base 2, padded with zeros, and their own terms.

        They are computed in float64 and rounded once.
        """
        rows = self.kernel.scaled(X.to(torch.float64))
        keys, sink = self.kernel.attention_logits(rows)
        own = keys if key else -torch.as_tensor(sink, dtype=torch.float64)
        terms = torch.zeros(len(rows), dtype=torch.float64) if own is None else own.expand(len(rows))
        padded = torch.nn.functional.pad(rows / sqrt(log(2)), (0, -rows.shape[1] % FEATURES))
        return padded.to(self.dtype).numpy(), (terms / log(2)).to(self.dtype).contiguous().numpy()


@cache
def _polynomial(dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return coefficients of 2^t for |t| <= 1/2, the highest power first, and zeros up to thirteen numbers."""
    inner = np.polynomial.chebyshev.Chebyshev.interpolate(np.exp2, DEGREES[dtype], domain=[-0.5, 0.5])
    found = inner.convert(kind=np.polynomial.Polynomial, domain=[-1, 1]).coef[::-1]
    return np.pad(found, (0, 13 - len(found))).astype(dtype)


def _pass(
    X: Any, a: Any, Z: Any, b: Any, P: Any, y: Any, n: Any, m: Any, c: Any, k: Any, whole: Any, u: Any, sums: Any,
    back: Any,
) -> None:  # fmt: skip
    """Set u = y + sign K P and add K'u to the sums (if `back`), four rows at a time.

    `n` holds numbers in the precision of X (sign, least exponent, 1/2, 0), `m` whole ones (offset and place of the
    exponent, and whether this is float64), `c` the polynomial; k and whole are room for four rows.
    """
    centres, last, power, double = Z.shape[1], X.shape[0] - 1, whole.view(k.dtype), m[2]
    sign, lowest, half, zero, offset, place = n[0], n[1], n[2], n[3], m[0], m[1]
    c0, c1, c2, c3, c4, c5, c6 = c[0], c[1], c[2], c[3], c[4], c[5], c[6]
    c7, c8, c9, d0, d1, d2 = c[7], c[8], c[9], c[10], c[11], c[12]
    for start in range(0, X.shape[0], 4):
        i0, i1, i2, i3 = start, min(start + 1, last), min(start + 2, last), min(start + 3, last)
        a0, a1, a2, a3 = a[i0], a[i1], a[i2], a[i3]
        for begin in range(0, centres, CHUNK):
            end = min(begin + CHUNK, centres)
            count = end - begin
            k0, k1, k2, k3, terms = k[0, begin:end], k[1, begin:end], k[2, begin:end], k[3, begin:end], b[begin:end]
            for j in range(count):
                term = terms[j]
                k0[j], k1[j], k2[j], k3[j] = term + a0, term + a1, term + a2, term + a3
            for f in range(0, X.shape[1], 6):
                s0, s1, s2, s3, s4, s5 = X[i0, f], X[i0, f + 1], X[i0, f + 2], X[i0, f + 3], X[i0, f + 4], X[i0, f + 5]
                t0, t1, t2, t3, t4, t5 = X[i1, f], X[i1, f + 1], X[i1, f + 2], X[i1, f + 3], X[i1, f + 4], X[i1, f + 5]
                v0, v1, v2, v3, v4, v5 = X[i2, f], X[i2, f + 1], X[i2, f + 2], X[i2, f + 3], X[i2, f + 4], X[i2, f + 5]
                w0, w1, w2, w3, w4, w5 = X[i3, f], X[i3, f + 1], X[i3, f + 2], X[i3, f + 3], X[i3, f + 4], X[i3, f + 5]
                A, B, C = Z[f, begin:end], Z[f + 1, begin:end], Z[f + 2, begin:end]
                D, E, F = Z[f + 3, begin:end], Z[f + 4, begin:end], Z[f + 5, begin:end]
                for j in range(count):
                    z0, z1, z2, z3, z4, z5 = A[j], B[j], C[j], D[j], E[j], F[j]
                    k0[j] += s0 * z0 + s1 * z1 + s2 * z2 + s3 * z3 + s4 * z4 + s5 * z5
                    k1[j] += t0 * z0 + t1 * z1 + t2 * z2 + t3 * z3 + t4 * z4 + t5 * z5
                    k2[j] += v0 * z0 + v1 * z1 + v2 * z2 + v3 * z3 + v4 * z4 + v5 * z5
                    k3[j] += w0 * z0 + w1 * z1 + w2 * z2 + w3 * z3 + w4 * z4 + w5 * z5
            for row in range(4):
                entries, bits, factors = k[row, begin:end], whole[row, begin:end], power[row, begin:end]
                if double:
                    for j in range(count):
                        t = max(entries[j], lowest)
                        near = np.floor(t + half)
                        bits[j] = (np.int64(near) + offset) << place
                        t -= near
                        high = ((((c0 * t + c1) * t + c2) * t + c3) * t + c4) * t + c5
                        high = (((high * t + c6) * t + c7) * t + c8) * t + c9
                        entries[j] = ((high * t + d0) * t + d1) * t + d2
                else:
                    for j in range(count):
                        t = max(entries[j], lowest)
                        near = np.floor(t + half)
                        bits[j] = (np.int32(near) + offset) << place
                        t -= near
                        high = (((c0 * t + c1) * t + c2) * t + c3) * t + c4
                        entries[j] = (high * t + c5) * t + c6
                for j in range(count):
                    entries[j] *= factors[j]
        k0, k1, k2, k3 = k[0], k[1], k[2], k[3]
        for r in range(P.shape[0]):
            p, total = P[r], sums[r]
            f0 = f1 = f2 = f3 = zero
            for j in range(centres):
                f0 += k0[j] * p[j]
                f1 += k1[j] * p[j]
                f2 += k2[j] * p[j]
                f3 += k3[j] * p[j]
            f0, f1, f2, f3 = y[r, i0] + sign * f0, y[r, i1] + sign * f1, y[r, i2] + sign * f2, y[r, i3] + sign * f3
            u[r, i3], u[r, i2], u[r, i1], u[r, i0] = f3, f2, f1, f0  # rows beyond the last are the last
            if back:
                f1, f2, f3 = f1 if i1 > i0 else zero, f2 if i2 > i1 else zero, f3 if i3 > i2 else zero
                for j in range(centres):
                    total[j] += k0[j] * f0 + k1[j] * f1 + k2[j] * f2 + k3[j] * f3
