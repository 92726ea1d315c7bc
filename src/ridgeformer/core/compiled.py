"""Functions compiled by Numba, where it is installed; and how they reach memory by its address."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import unwrap
from typing import Any

from numpy.typing import NDArray

__all__ = ["LARGE", "compile_it", "compiled", "words_at", "worthwhile"]

LARGE = 2**26
"""Entries of K from which it is worth to start Numba, which takes about 0.2 s once in a process."""

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


def words_at(address: int, count: int, like: NDArray[Any]) -> NDArray[Any]:
    """Return the array of `count` numbers, of the dtype of `like`, that begins at an address; compiled only.

    Nothing keeps that memory alive but whoever has the address.
    """
    raise NotImplementedError


@cache
def _teach() -> None:
    """Tell Numba what `words_at` compiles to."""
    from numba import carray, types  # type: ignore[attr-defined]
    from numba.extending import intrinsic, overload

    def pointer(_: Any, address: Any, like: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        kind = types.CPointer(like.dtype)  # type: ignore[no-untyped-call]
        return kind(types.int64, like), emit

    points_to = intrinsic(unwrap(pointer))
    overload(words_at)(
        lambda address, count, like: lambda address, count, like: carray(points_to(address, like), (count,))
    )
