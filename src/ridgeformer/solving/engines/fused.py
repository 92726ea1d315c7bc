"""Kernel entries between rows and centres, used for both of their products while they are in the cache.

For exponential and Gaussian kernels. The entry is 2^(x'z + a(x) + b(z)), with log2(e) folded into the scaled centres: a
power of two costs a polynomial and a shift, a third of an exponential. Numba's own vectoriser would write logits to
memory between features, so this part is given to it as vector instructions: eight rows and two vectors of centres stay
in registers from the first feature to the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from inspect import unwrap
from math import ceil, log
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.compiled import compile_it, compiled
from ridgeformer.core.errors import InputError
from ridgeformer.kernels import Kernel, LogitKernel
from ridgeformer.solving.engines.panels import ROWS, Vectors, pack
from ridgeformer.solving.engines.tiles import Tiles

__all__ = ["Fused", "FusedRows", "fuses"]

WIDEST = 128
"""With more features a matrix product is faster."""

TASK = 2**16
"""Numbers of X that a thread takes at a time; torch would share out more among threads of its own."""

STRETCH = 2048
"""Rows and columns of a tile of a symmetric product."""

CHUNK = 512
"""Entries of a row that stay in the nearest cache while they are multiplied with all columns."""

PADDED = 128
"""Bytes that centres are padded to a multiple of, the same on every processor: one panel, or several."""

DEGREES = {np.dtype(np.float32): 6, np.dtype(np.float64): 11}
"""Of the polynomial for 2^t, |t| <= 1/2: evaluated, it is right to 0.7 and 1.1 units in the last place."""

NO, RESULT, GIVEN = 0, 1, 2
"""What K' is multiplied with: nothing, the result u of the same pass, or the columns that were given."""


def fuses(X: Float[Tensor, "n d"]) -> bool:
    """Whether these rows can be worked on here."""
    return X.device.type == "cpu" and X.shape[1] <= WIDEST and compiled()


class FusedRows:
    """Products with the kernel matrix between rows, which come a block at a time, and centres."""

    def __init__(self, kernel: LogitKernel, Z: Float[Tensor, "m d"], dtype: torch.dtype) -> None:
        self.kernel, self.dtype, self.count = kernel, dtype, len(Z)
        self.kind = np.dtype(str(dtype).removeprefix("torch."))
        rows = kernel.project(Z.to(torch.float64)) / (kernel.temperature * log(2))
        fill = -len(Z) % (PADDED // self.kind.itemsize)
        self.size = len(Z) + fill
        self.panels = pack(np.pad(rows.numpy(), ((0, fill), (0, 0))).astype(self.kind))
        lowest = np.finfo(self.kind).min / 4  # so that entries at centres that are none are next to nothing
        self.terms = np.pad(self._terms(Z, key=True), (0, fill), constant_values=lowest)

    def multiply(
        self, X: Float[Tensor, "b d"], P: Float[Tensor, "m r"], y: Float[Tensor, "b r"] | None, *, back: bool = True
    ) -> tuple[Float[Tensor, "b r"], Float[Tensor, "m r"]]:
        """Return u = K P, or y - K P where y is given, and K'u (zeros unless `back`), in float64."""
        found, total = torch.empty(len(X), P.shape[1], dtype=torch.float64), torch.zeros_like(P, dtype=torch.float64)
        right, size = self.padded(P), max(1, TASK // max(1, X.shape[1]))

        def work(start: int) -> Tensor:
            some = slice(start, start + size)
            found[some], part = self.pair(X[some], right, None if y is None else y[some], RESULT if back else NO)
            return part

        for part in in_order(work, range(0, len(X), size)):
            total += part
        return found, total

    def pair(self, X: Tensor, right: NDArray[Any], y: Tensor | None, back: int) -> tuple[Tensor, Tensor]:
        """Return, by one thread, u = K P or y - K P and K'u or, if `back` is GIVEN, u = K P and K'y."""
        projected = X if self.kernel.projection is None else self.kernel.project(X.to(torch.float64))
        rows = projected.to(self.dtype).contiguous().numpy()
        shape = len(right), len(rows)
        given = np.zeros(shape, self.kind) if y is None else np.ascontiguousarray(y.T.numpy(), dtype=self.kind)
        u, sums = np.empty(shape, self.kind), np.zeros_like(right)
        room = np.empty((ROWS, right.shape[1]), self.kind)
        numbers = np.array([-1 if y is not None and back != GIVEN else 1, 0], self.kind)
        compile_it(multiply_both)(
            rows, self._terms(X, key=False), self.panels, self.terms, polynomial(self.kind), right, given, numbers,
            room, u, sums, back,
        )  # fmt: skip
        return torch.from_numpy(u.T.astype(np.float64)), torch.from_numpy(sums[:, : self.count].T.astype(np.float64))

    def padded(self, P: Tensor) -> NDArray[Any]:
        """Return columns as rows, with zeros at centres that are none."""
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, as in every other engine
            return np.ascontiguousarray(np.pad(P.numpy(), ((0, self.size - len(P)), (0, 0))).T, dtype=self.kind)

    def _terms(self, X: Tensor, *, key: bool) -> NDArray[Any]:
        """Return what rows or centres add to their logits in base 2, computed in float64 and rounded once."""
        keys, sink = self.kernel.attention_logits(self.kernel.scaled(X.to(torch.float64)))
        own = keys if key else -torch.as_tensor(sink, dtype=torch.float64)
        terms = torch.zeros(len(X), dtype=torch.float64) if own is None else own.expand(len(X)) / log(2)
        return terms.to(self.dtype).contiguous().numpy()


def in_order(work: Callable[[int], Any], starts: range) -> Iterator[Any]:
    """Yield what the work gives for each start, in their order, by as many threads as torch has."""
    teach_entries()
    compile_it(multiply_both)  # once, before threads ask for it
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        yield from threads.map(work, starts)


class Fused(Tiles):
    """K V without K, fused; each tile below the diagonal serves both of its products."""

    name: ClassVar[str] = "fused"
    kernel: LogitKernel

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], working: torch.dtype) -> None:
        super().__init__(kernel, X, working)
        if not fuses(X):
            raise InputError(
                f"the engine 'fused' needs Numba (pip install 'ridgeformer[fast]'), rows in main memory and at most "
                f"{WIDEST} features; these {X.shape[1]} are on {X.device.type!r}: use engine='tiles'."
            )
        # a logit passes through four roundings more here than in the kernel's own evaluation, and a power through two
        own = max((float(self.kernel.own_logits(rows.double()).abs().max()) for rows in X.split(STRETCH)), default=0.0)
        self.rounding = 4 * ceil(own + abs(kernel.log_scale)) + 4

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V, entries and the sums inside a tile in the working precision."""
        return self._product(V.to(torch.float64), self.dtype).to(V.dtype)

    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V, everything in float64."""
        return self._product(V.to(torch.float64), torch.float64)

    def _product(self, V: Tensor, dtype: torch.dtype) -> Tensor:
        starts = range(0, self.n, STRETCH)[::-1]  # the longest first
        result = torch.zeros_like(V)

        def work(start: int) -> Tensor:
            some = slice(start, start + STRETCH)
            part = torch.zeros(min(start + STRETCH, self.n), V.shape[1], dtype=torch.float64)
            for begin in range(0, start + 1, STRETCH):
                others = slice(begin, begin + STRETCH)
                tile, own = FusedRows(self.kernel, self.X[others], dtype), begin == start
                right = tile.padded(V[others])
                u, below = tile.pair(self.X[some], right, None if own else V[some], NO if own else GIVEN)
                part[some] += u
                part[others] += below
            return part

        for part in in_order(work, starts):
            result[: len(part)] += part
        return result


@cache
def polynomial(kind: np.dtype[Any]) -> NDArray[Any]:
    """Return coefficients of 2^t, the highest power first, from its Chebyshev series on |t| <= 1/2.

    The series is that of exp(c s) with s = 2 t and c = log(2) / 2, whose coefficients are 2 I_k(c).
    """
    from scipy.special import iv

    order = np.arange(DEGREES[kind] + 1)
    series = np.where(order > 0, 2, 1) * iv(order, log(2) / 2)
    return (np.polynomial.chebyshev.cheb2poly(series) * 2.0**order)[::-1].astype(kind)


def multiply_both(
    X: Any, a: Any, Z: Any, b: Any, c: Any, P: Any, y: Any, numbers: Any, k: Any, u: Any, sums: Any, back: Any
) -> None:
    """Set u = y + sign K P and add K'u to the sums, or u = K P and K'y; `back` says which, k is room for some rows.

    `numbers` holds the sign and 0 in the precision of X.
    """
    sign, zero, last, centres = numbers[0], numbers[1], X.shape[0] - 1, b.shape[0]
    f = np.zeros((P.shape[0], 4), dtype=X.dtype)
    for start in range(0, X.shape[0], k.shape[0]):
        form_entries(X, start, a, Z, b, c, k)
        for four in range(0, min(k.shape[0], X.shape[0] - start), 4):
            first = start + four
            i0, i1, i2, i3 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last)
            f[:] = zero
            for begin in range(0, centres, CHUNK):
                end = min(begin + CHUNK, centres)
                k0, k1, k2, k3 = (
                    k[four, begin:end],
                    k[four + 1, begin:end],
                    k[four + 2, begin:end],
                    k[four + 3, begin:end],
                )
                for r in range(P.shape[0]):
                    p = P[r, begin:end]
                    f0 = f1 = f2 = f3 = zero
                    for j in range(end - begin):
                        f0 += k0[j] * p[j]
                        f1 += k1[j] * p[j]
                        f2 += k2[j] * p[j]
                        f3 += k3[j] * p[j]
                    f[r, 0], f[r, 1], f[r, 2], f[r, 3] = f[r, 0] + f0, f[r, 1] + f1, f[r, 2] + f2, f[r, 3] + f3
            for r in range(P.shape[0]):
                y0, y1, y2, y3 = y[r, i0], y[r, i1], y[r, i2], y[r, i3]
                f0, f1, f2, f3 = f[r, 0], f[r, 1], f[r, 2], f[r, 3]
                if back != GIVEN:
                    f0, f1, f2, f3 = y0 + sign * f0, y1 + sign * f1, y2 + sign * f2, y3 + sign * f3
                    y0, y1, y2, y3 = f0, f1, f2, f3
                u[r, i3], u[r, i2], u[r, i1], u[r, i0] = f3, f2, f1, f0  # rows beyond the last are the last ...
                f[r, 0], f[r, 1] = y0, y1 if i1 > i0 else zero  # ... and count once
                f[r, 2], f[r, 3] = y2 if i2 > i1 else zero, y3 if i3 > i2 else zero
            for begin in range(0, centres if back != NO else 0, CHUNK):
                end = min(begin + CHUNK, centres)
                k0, k1, k2, k3 = (
                    k[four, begin:end],
                    k[four + 1, begin:end],
                    k[four + 2, begin:end],
                    k[four + 3, begin:end],
                )
                for r in range(P.shape[0]):
                    total, f0, f1, f2, f3 = sums[r, begin:end], f[r, 0], f[r, 1], f[r, 2], f[r, 3]
                    for j in range(end - begin):
                        total[j] += k0[j] * f0 + k1[j] * f1 + k2[j] * f2 + k3[j] * f3


def form_entries(X: Any, start: int, a: Any, Z: Any, b: Any, c: Any, k: Any) -> None:
    """Set k to the entries 2^(X Z + a + b) of the rows from `start` on, the last one again beyond it; compiled only."""


@cache
def teach_entries() -> None:
    """Tell Numba what `form_entries` compiles to."""
    from numba.extending import intrinsic, overload

    def instructions(_: Any, X: Any, start: Any, a: Any, Z: Any, b: Any, c: Any, k: Any) -> Any:
        from numba import types

        assert all(array.layout == "C" for array in (X, a, Z, b, c, k)), "rows of all must be contiguous"
        return types.void(X, types.intp, a, Z, b, c, k), unwrap(emit_entries)

    compiles_to = intrinsic(unwrap(instructions))
    overload(form_entries)(
        lambda X, start, a, Z, b, c, k: lambda X, start, a, Z, b, c, k: compiles_to(X, start, a, Z, b, c, k)
    )


def emit_entries(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the vector instructions of `form_entries`."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import cgutils

    use = Vectors(context, builder, signature, arguments)
    index, nearest, joined = use.index, use.library("rint", 1), use.library("fmuladd", 3)
    X, a, Z, b, c, k = (use.array(place) for place in (0, 2, 3, 4, 5, 6))
    rows, features = use.shape(X)
    last, places = builder.sub(rows, index(1)), [builder.add(arguments[1], index(i)) for i in range(ROWS)]
    places = [builder.select(builder.icmp_signed("<", place, last), place, last) for place in places]
    x = [use.at(X.data, builder.mul(place, features)) for place in places]
    own = [use.everywhere(builder.load(use.at(a.data, place))) for place in places]
    powers = [use.everywhere(builder.load(use.at(c.data, index(i)))) for i in range(DEGREES[use.kind] + 1)]
    lowest, whole = use.constant(-125.0 if use.bits == 32 else -1021.0), ir.IntType(use.bits)
    wholes = ir.VectorType(whole, use.lanes)
    shift = ir.Constant(wholes, [whole(23 if use.bits == 32 else 52)] * use.lanes)
    panels, _, _ = use.shape(Z)
    centres, size = builder.mul(panels, index(use.width)), builder.mul(features, index(use.width))
    with cgutils.for_range(builder, panels) as block:
        begin = builder.mul(block.index, index(use.width))
        sums = use.dots(x, index(1), use.at(Z.data, builder.mul(block.index, size)), features)
        for v in range(use.vectors):
            term = use.read(use.at(b.data, begin, index(v * use.lanes)))
            for i, each in enumerate(sums):
                t = builder.fadd(each[v], builder.fadd(term, own[i]))
                t = builder.select(builder.fcmp_ordered(">", t, lowest), t, lowest)
                near = builder.call(nearest, [t])
                t, power = builder.fsub(t, near), powers[0]
                for coefficient in powers[1:]:
                    power = builder.call(joined, [power, t, coefficient])
                # 2^near is added to the exponent of the other factor
                exponent = builder.shl(builder.fptosi(near, wholes), shift)
                entry = builder.bitcast(builder.add(builder.bitcast(power, wholes), exponent), use.vector)
                use.write(entry, use.at(k.data, builder.mul(index(i), centres), begin, index(v * use.lanes)))
    return context.get_dummy_value()
