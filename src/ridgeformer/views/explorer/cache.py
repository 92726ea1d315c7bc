"""Remembering results: the last few are kept, and one that is being computed is waited for, not computed again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

__all__ = ["remember"]

Result = TypeVar("Result")


def remember(most: int) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return a decorator that keeps the last `most` results of a pure function of hashable arguments.

    Several panels ask for the same thing at once, from threads of their own: the first computes it. Errors are
    handed to all who wait and are not kept.

    Example:
        >>> calls = []
        >>> square = remember(most=2)(lambda n: calls.append(n) or n * n)
        >>> square(3), square(3), calls
        (9, 9, [3])
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        kept: OrderedDict[Hashable, Future[Result]] = OrderedDict()
        lock = Lock()

        @wraps(function)
        def remembered(*key: Any) -> Result:
            with lock:
                mine = key not in kept
                future = kept.setdefault(key, Future())
                kept.move_to_end(key)
                while len(kept) > most:
                    kept.popitem(last=False)
            if mine:
                try:
                    future.set_result(function(*key))
                except BaseException as error:
                    future.set_exception(error)
                    with lock:
                        kept.pop(key, None)
            return future.result()

        return remembered

    return decorate
