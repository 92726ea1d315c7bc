"""Budgets of a task: an exception in its thread when the time is up, a refusal when memory grows too far."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["OverTimeError", "memory_limit", "time_limit"]


class OverTimeError(BaseException):
    """The time of a task is up; no `except Exception` of the task swallows it."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `OverTimeError` in this thread if the block takes longer; None sets no limit.

    Works in any thread. It arrives between two Python instructions, so one long call into compiled code ends first.

    Example:
        >>> with time_limit(60.0):
        ...     sum(range(10))
        45
    """
    if seconds is None:
        yield
        return
    thread, lock, ended = threading.get_ident(), threading.Lock(), False

    def interrupt() -> None:
        with lock:
            if not ended:
                _raise_in(thread, OverTimeError)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            ended = True
            _raise_in(thread, None)  # one that was sent and has not arrived must not hit the caller


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Let CPython raise an exception in another thread; None takes back one that has not arrived."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )


@contextmanager
def memory_limit(size: int | None) -> Iterator[None]:
    """Let the address space of the process grow by at most `size` bytes; None, or a system but Linux, sets no limit.

    What does not fit raises `MemoryError`, or torch's own error: `memory.is_out_of_memory` knows both.

    Example:
        >>> with memory_limit(1 << 30):
        ...     len(bytearray(1 << 20))
        1048576
    """
    if size is None or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    ceiling = [limit for limit in before if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([used + size, *ceiling]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
