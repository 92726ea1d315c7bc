"""One task of a study: a named function, its parameters, a seed and budgets; the same bits wherever it runs."""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import is_out_of_memory
from ridgeformer.core.seeds import spawn

__all__ = ["OverTimeError", "Result", "StudyTask", "TaskOutcome", "TaskStatus", "as_json", "execute", "find_object"]


class TaskStatus(StrEnum):
    """How a task ended."""

    DONE = "done"
    FAILED = "failed"
    OVER_TIME = "over its time budget"
    OVER_MEMORY = "over its memory budget"
    LOST = "lost with its worker"


@dataclass(frozen=True)
class StudyTask:
    """One point of a study: a function, its arguments, and budgets.

    Attributes:
        study, version: Name of the study, and version of what the function computes.
        function: "module:function", importable wherever the task runs.
        params: Its keyword arguments, plain JSON values.
        seed, root: Which repetition this is (0, 1, ...), and the seed of the whole study.
        seconds, memory: Budgets in seconds and bytes; None is none.
    """

    study: str
    version: int
    function: str
    params: Mapping[str, Any]
    seed: int
    root: int = 0
    seconds: float | None = None
    memory: int | None = None

    @cached_property
    def key(self) -> str:
        """The hash of study, function, parameters, seeds and version: what a result is found by."""
        return _digest([self.study, self.function, self.params, self.root, self.seed, self.version])

    @property
    def spawned(self) -> int:
        """The seed its function is called with, independent of every other task's; a new version keeps it."""
        point = int(_digest([self.study, self.params, self.seed]), 16)
        return int(spawn(self.root, point).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(frozen=True, eq=False)
class Result:
    """What a task may return instead of plain values: a row or a list of rows, with named tensors to store beside."""

    values: Any
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended, ready to be stored.

    Attributes:
        values: Rows as JSON text, floats exact.
        error: Empty, or the error with its traceback; the last line says what it was.
        tensors: Empty, or a safetensors file.
    """

    status: TaskStatus
    values: str = "[]"
    error: str = ""
    tensors: bytes = b""
    seconds: float = 0.0


def execute(task: StudyTask) -> TaskOutcome:
    """Run a task on one thread, within its budgets; whatever it raises becomes its outcome.

    Example:
        >>> task = StudyTask("demo", 1, "ridgeformer.studies.task:as_json", {"value": 1}, seed=0)
        >>> execute(task).error.splitlines()[-1]          # the function takes no seed
        "TypeError: ...got an unexpected keyword argument 'seed'"
    """
    begin = time.perf_counter()
    try:
        function: Any = find_object(task.function)  # importing its module is not on the task's budget
        with one_thread(), time_limit(task.seconds), memory_limit(task.memory):
            values, tensors = _plain(function(**task.params, seed=task.spawned))
        outcome = TaskOutcome(TaskStatus.DONE, values, tensors=tensors)
    except OverTimeError:
        outcome = TaskOutcome(TaskStatus.OVER_TIME, error=f"it took more than {task.seconds:g} s")
    except Exception as error:
        if task.memory is not None and is_out_of_memory(error):
            message = f"it asked for more than {task.memory / 2**20:,.0f} MiB"
            outcome = TaskOutcome(TaskStatus.OVER_MEMORY, error=message)
        else:
            message = "".join(traceback.format_exception(error)).rstrip()
            outcome = TaskOutcome(TaskStatus.FAILED, error=message)
    return replace(outcome, seconds=time.perf_counter() - begin)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: sums are then taken in one order, and workers do not fight for cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _plain(returned: object) -> tuple[str, bytes]:
    """Return a task's result as JSON text and as a safetensors file."""
    result = returned if isinstance(returned, Result) else Result(returned)
    rows = [result.values] if isinstance(result.values, Mapping) else result.values
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError(
            f"a task returned {type(returned).__name__}; a dictionary of values or a list of such is needed."
        )
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in result.tensors.items()}
    return as_json([dict(row) for row in rows]), safetensors.torch.save(tensors) if tensors else b""


def find_object(name: str) -> object:
    """Return what "module:name" names.

    Example:
        >>> find_object("math:e")
        2.718281828459045
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{name!r} cannot be imported ({error}): give 'module:name' of something on the Python path."
        ) from None


def as_json(value: object, *, sort: bool = False) -> str:
    """Return plain numbers, text, lists and dictionaries as JSON; floats exact, entries in the order they are in.

    Example:
        >>> as_json({"b": 0.1, "a": [1, None]})
        '{"b":0.1,"a":[1,null]}'
    """
    try:
        return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"only plain numbers, text, lists and dictionaries can be stored ({error}).") from None


def _digest(value: object) -> str:
    return hashlib.sha256(as_json(value, sort=True).encode()).hexdigest()


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

    def send(error: Any) -> None:  # CPython raises it in that thread; None takes back one that has not arrived
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)

    def interrupt() -> None:
        with lock:
            if not ended:
                send(ctypes.py_object(OverTimeError))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            ended = True
            send(None)  # one that was sent and has not arrived must not hit the caller


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
