"""Dot products between rows that are packed into panels, as wide as the vectors of the processor, compiled by Numba.

A panel holds some rows with the numbers of each feature side by side. Products of eight rows with a panel stay in
registers from the first feature to the last, and what is read lies in one piece. The libraries of NumPy and PyTorch use
half of the vector units of some processors; this uses all that there are.
"""

from __future__ import annotations

from functools import cache
from inspect import unwrap
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llvmlite.ir import Function, IRBuilder, Value  # type: ignore[import-untyped]
    from numba.core.cgutils import _StructProxy as ArrayStruct
    from numba.core.cpu import CPUContext
    from numba.core.typing.templates import Signature

__all__ = ["ROWS", "Vectors", "multiply_panels", "pack", "registers", "teach_blocks", "uses_wide_vectors"]

ROWS = 8
"""Rows worked on at once, the same on every processor."""


@cache
def registers(kind: np.dtype[Any]) -> tuple[int, int]:
    """Return how many numbers a vector of this processor holds, and for how many a row there are registers."""
    from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]

    features = get_host_cpu_features()
    wide = features.get("avx512f", False)
    return (64 if wide else 32 if features.get("avx", False) else 16) // kind.itemsize, 2 if wide else 1


def uses_wide_vectors() -> bool:
    """Whether vectors have 512 bits: with fewer registers, products of libraries are as fast or faster."""
    return registers(np.dtype(np.float64))[0] == 8


def pack(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the rows in panels, (panels, features, rows of a panel), filled up with rows of zeros.

    Example:
        >>> pack(np.ones((3, 5))).sum(axis=(0, 2)).tolist()
        [3.0, 3.0, 3.0, 3.0, 3.0]
    """
    width, (count, features) = int(np.prod(registers(rows.dtype))), rows.shape
    panels = np.zeros((ceil(count / max(width, ROWS)) * max(width, ROWS) // width, features, width), rows.dtype)
    for panel, start in zip(panels, range(0, count, width), strict=False):
        some = rows[start : start + width].T
        panel[:, : some.shape[1]] = some
    return panels


def multiply_panels(left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> None:
    """Set `out` to the dot products of the rows packed in `left` with those in `right`; compiled only."""
    width, room = left.shape[2], np.empty((ROWS, left.shape[2]), out.dtype)
    for j in range(0, out.shape[1], width):
        columns = min(width, out.shape[1] - j)
        for i in range(0, out.shape[0], ROWS):
            rows = min(ROWS, out.shape[0] - i)
            if rows == ROWS and columns == width:
                form_block(left, i, right, j // width, out, i, j)
            else:
                form_block(left, i, right, j // width, room, 0, 0)
                out[i : i + rows, j : j + columns] = room[:rows, :columns]


def form_block(left: Any, row: int, right: Any, panel: int, out: Any, i: int, j: int) -> None:
    """Set `out` from [i, j] on to the products of `ROWS` rows of `left` with one panel of `right`; compiled only."""


@cache
def teach_blocks() -> None:
    """Tell Numba what `form_block` compiles to."""
    from numba.extending import intrinsic, overload

    def instructions(_: Any, left: Any, row: Any, right: Any, panel: Any, out: Any, i: Any, j: Any) -> Any:
        from numba import types

        assert all(array.layout == "C" for array in (left, right, out)), "all must be contiguous"
        place = types.intp
        return types.void(left, place, right, place, out, place, place), unwrap(emit_block)

    compiles_to = intrinsic(unwrap(instructions))
    overload(form_block)(
        lambda left, row, right, panel, out, i, j: (
            lambda left, row, right, panel, out, i, j: compiles_to(left, row, right, panel, out, i, j)
        )
    )


def emit_block(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the vector instructions of `form_block`."""
    use = Vectors(context, builder, signature, arguments)
    index, width = use.index, use.index(use.width)
    left, right, out = (use.array(place) for place in (0, 2, 4))
    _, features, _ = use.shape(left)
    size = builder.mul(features, width)
    places = [builder.add(arguments[1], index(i)) for i in range(ROWS)]
    rows = [use.at(left.data, builder.mul(builder.udiv(row, width), size), builder.urem(row, width)) for row in places]
    sums = use.dots(rows, width, use.at(right.data, builder.mul(arguments[3], size)), features)
    columns = use.shape(out)[1]
    for i, each in enumerate(sums):
        place = use.at(out.data, builder.mul(builder.add(arguments[5], index(i)), columns), arguments[6])
        for v, total in enumerate(each):
            use.write(total, use.at(place, index(v * use.lanes)))
    return context.get_dummy_value()


class Vectors:
    """Vector instructions for the numbers of the first array that a compiled function is given."""

    def __init__(
        self, context: CPUContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]
    ) -> None:
        from llvmlite import ir  # type: ignore[import-untyped]

        self.context, self.builder, self.signature, self.arguments = context, builder, signature, arguments
        self.kind = np.dtype(signature.args[0].dtype.name)
        self.lanes, self.vectors = registers(self.kind)
        self.width, self.bits, self.index = self.lanes * self.vectors, 8 * self.kind.itemsize, ir.IntType(64)
        self.number = ir.FloatType() if self.bits == 32 else ir.DoubleType()
        self.vector = ir.VectorType(self.number, self.lanes)
        self._none, self._first = ir.Constant(self.vector, ir.Undefined), ir.IntType(32)(0)
        self._zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        self._function = ir.FunctionType
        self._constant, self._type, self._nothing = ir.Constant, ir.VectorType, ir.VoidType()
        self._byte = ir.IntType(8).as_pointer()

    def array(self, place: int) -> ArrayStruct:
        """Return the array that is this argument."""
        form = self.context.make_array(self.signature.args[place])  # type: ignore[no-untyped-call]
        return form(self.context, self.builder, self.arguments[place])

    def shape(self, array: ArrayStruct) -> list[Value]:
        """Return the lengths of an array."""
        from numba.core import cgutils

        return cgutils.unpack_tuple(self.builder, array.shape)  # type: ignore[no-untyped-call]

    def library(self, name: str, terms: int) -> Function:
        """Return an intrinsic function of LLVM on vectors."""
        from numba.core import cgutils

        signature = self._function(self.vector, [self.vector] * terms)
        full = f"llvm.{name}.v{self.lanes}f{self.bits}"
        return cgutils.get_or_insert_function(self.builder.module, signature, full)  # type: ignore[no-untyped-call]

    def constant(self, value: float) -> Value:
        """Return a vector with this number in every place."""
        return self._constant(self.vector, [self.number(value)] * self.lanes)

    def everywhere(self, x: Value) -> Value:
        """Return a vector with x in every place."""
        one = self.builder.insert_element(self._none, x, self._first)
        return self.builder.shuffle_vector(one, self._none, self._zeros)

    def at(self, pointer: Value, *places: Value) -> Value:
        """Return the pointer moved on by all places."""
        for place in places:
            pointer = self.builder.gep(pointer, [place])
        return pointer

    def read(self, pointer: Value, kind: np.dtype[Any] | None = None) -> Value:
        """Return the vector that begins at a number; numbers of another kind are converted."""
        kind = self.kind if kind is None else kind
        stored = self._type(pointer.type.pointee, self.lanes)
        found = self.builder.load(self.builder.bitcast(pointer, stored.as_pointer()))
        found.align = kind.itemsize
        if kind == self.kind:
            return found
        return self.builder.sitofp(found, self.vector) if kind.kind == "i" else self.builder.fpext(found, self.vector)

    def fetch(self, pointer: Value) -> None:
        """Have the line of memory fetched that a number is in, which need not exist, into all caches but the first."""
        from numba.core import cgutils

        byte, number = self._byte, self._first.type
        kind = self._function(self._nothing, [byte, number, number, number])
        fetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        reading, near, data = number(0), number(2), number(1)
        self.builder.call(fetch, [self.builder.bitcast(pointer, byte), reading, near, data])

    def write(self, vector: Value, pointer: Value) -> None:
        """Store a vector from a number on."""
        place = self.builder.bitcast(pointer, self.vector.as_pointer())
        self.builder.store(vector, place).align = self.kind.itemsize

    def dots(self, rows: list[Value], step: Value, panel: Value, features: Value) -> list[list[Value]]:
        """Return the dot products of rows with a panel, as vectors; of a row, features are `step` numbers apart."""
        from numba.core import cgutils

        builder, joined = self.builder, self.library("fmuladd", 3)
        sums = [[cgutils.alloca_once(builder, self.vector) for _ in range(self.vectors)] for _ in rows]  # type: ignore[no-untyped-call]
        for place in (place for each in sums for place in each):
            builder.store(self.constant(0.0), place)
        with cgutils.for_range(builder, features) as feature:
            these = self.at(panel, builder.mul(feature.index, self.index(self.width)))
            some = [self.read(self.at(these, self.index(v * self.lanes))) for v in range(self.vectors)]
            there = builder.mul(feature.index, step)
            for row, each in zip(rows, sums, strict=True):
                value = self.everywhere(builder.load(self.at(row, there)))
                for factor, place in zip(some, each, strict=True):
                    builder.store(builder.call(joined, [value, factor, builder.load(place)]), place)
        return [[builder.load(place) for place in each] for each in sums]
