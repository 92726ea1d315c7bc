"""Functions compiled by Numba, where it is installed, and an LLVM prefetch intrinsic."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import unwrap
from typing import Any

from numpy.typing import NDArray

__all__ = ["LARGE", "LINE", "compile_it", "compiled", "prefetch", "words_at", "worthwhile"]

LARGE = 2**26
"""Entries of K from which it is worth to start Numba, which takes about 0.2 s once in a process."""

LINE = 16
"""Numbers in a line of the cache, in float32: what memory is read by."""

ALLOWED = {"reassoc", "contract", "nsz"}
"""Sums may be taken in another order and multiplications joined with them; nan and inf stay what they are."""


@cache
def compiled() -> bool:
    """Whether Numba is there and can be used with this NumPy.

    It is started here, with the garbage collector paused, which would look several times through all that PyTorch has
    loaded: a third of the time that starting takes.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        import_module("numba")
        target = import_module("numba.core.registry").cpu_target
        target.typing_context.refresh()
        target.target_context.refresh()
    except ImportError:
        return False
    finally:
        if collects:
            gc.enable()
    return True


def worthwhile(n: int) -> bool:
    """Whether work on all entries of K is compiled: n rows are enough, and Numba is there."""
    return n**2 >= LARGE and compiled()


@cache
def compile_it(function: Callable[..., None], *parts: Callable[..., None]) -> Callable[..., None]:
    """Return the function compiled, once in a process, and kept on disk for the next if there is a place for it.

    Args:
        function: What to compile; of its own module it may call `parts` only.
        parts: Functions that it calls.
    """
    from numba import njit
    from numba.extending import overload

    _teach()
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": ALLOWED}
    for part in parts:
        overload(part, jit_options=options, strict=False)(lambda *_, part=part: unwrap(part))  # type: ignore[arg-type]
    try:
        return njit(unwrap(function), cache=True, **options)
    except RuntimeError:  # there is none, so every process takes two seconds to compile it
        return njit(unwrap(function), cache=False, **options)


def prefetch(numbers: NDArray[Any], place: int) -> None:
    """Have the line of memory fetched that numbers[place] is in, which may lie beyond the end; compiled only.

    A core that waits for memory computes nothing meanwhile; one that has asked beforehand does not wait.
    """


def words_at(address: int, count: int, like: NDArray[Any]) -> NDArray[Any]:
    """Return the array of `count` numbers, of the dtype of `like`, that begins at an address; compiled only.

    Nothing keeps that memory alive but whoever has the address.
    """
    raise NotImplementedError


@cache
def _teach() -> None:
    """Tell Numba what `prefetch` and `words_at` compile to."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import carray, types  # type: ignore[attr-defined]
    from numba.core import cgutils
    from numba.extending import intrinsic, overload

    def instruction(_: Any, numbers: Any, place: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            name = "llvm.prefetch.p0i8"
            function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
            address = builder.bitcast(builder.gep(start, [arguments[1]]), byte)
            builder.call(function, [address, number(0), number(3), number(1)])  # to read, into all caches, data
            return context.get_dummy_value()

        return types.void(numbers, types.intp), emit

    def pointer(_: Any, address: Any, like: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        kind = types.CPointer(like.dtype)  # type: ignore[no-untyped-call]
        return kind(types.int64, like), emit

    compiles_to, points_to = intrinsic(unwrap(instruction)), intrinsic(unwrap(pointer))
    overload(prefetch)(lambda numbers, place: lambda numbers, place: compiles_to(numbers, place))
    overload(words_at)(
        lambda address, count, like: lambda address, count, like: carray(points_to(address, like), (count,))
    )
