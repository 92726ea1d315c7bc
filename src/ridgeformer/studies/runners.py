"""Runners: a study's tasks in this process, in worker processes, or on a Dask cluster.

The same task gives the same bits in each of them, on processors of one kind.
"""

from __future__ import annotations

import logging
import math
import multiprocessing as mp
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any, Protocol, runtime_checkable

from threadpoolctl import threadpool_limits

from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.core.reading import one_line
from ridgeformer.studies.task import StudyTask, TaskOutcome, TaskStatus, execute

__all__ = ["DaskCluster", "InProcess", "Processes", "Runner", "choose_runner"]

ATTEMPTS = 2  # attempts at a task whose worker dies; then it is recorded as lost
GRACE = 5.0  # seconds after its time budget at which a task that did not stop is killed with its worker
PATIENCE = 20.0  # seconds a Dask scheduler may take to answer
STARTS = 2  # attempts to start a Dask cluster
AHEAD = 2  # tasks sent to Dask for every thread, so that no thread is idle between two of them


@runtime_checkable
class Runner(Protocol):
    """Takes tasks and gives back outcomes, in any order."""

    @property
    def slots(self) -> int:
        """How many tasks it can hold at a time."""

    def start(self, task: StudyTask) -> None:
        """Take a task; there are never more than `slots`."""

    def wait(self, seconds: float) -> list[tuple[StudyTask, TaskOutcome]]:
        """Return what has ended, waiting at most this long for something to end."""

    def close(self) -> None:
        """Stop; what still runs is given up."""


def choose_runner(*, processes: int = 0, workers: int = 0, scheduler: str | None = None) -> Runner:
    """Return the runner asked for; without a wish, this process.

    Example:
        >>> runner = choose_runner()
        >>> runner.slots
        1
        >>> runner.close()
    """
    if (processes > 0) + (workers > 0) + (scheduler is not None) > 1:
        raise InputError("processes, workers and scheduler are three ways to run a study: give one of them.")
    if workers > 0 or scheduler is not None:
        return DaskCluster(workers=workers, scheduler=scheduler)
    return Processes(processes) if processes > 0 else InProcess()


class InProcess:
    """Runs each task when it is waited for; BLAS keeps to one thread meanwhile.

    A time budget ends a task between two Python instructions; use worker processes for what might never return.
    """

    slots = 1

    def __init__(self) -> None:
        self._tasks: list[StudyTask] = []
        self._limits = threadpool_limits(1)

    def start(self, task: StudyTask) -> None:
        """Take a task."""
        self._tasks.append(task)

    def wait(self, seconds: float) -> list[tuple[StudyTask, TaskOutcome]]:
        """Run what was taken."""
        tasks, self._tasks = self._tasks, []
        return [(task, execute(task)) for task in tasks]

    def close(self) -> None:
        """Give BLAS its threads back."""
        self._limits.restore_original_limits()


class _Worker:
    """A process that runs one task after the other, and this end of the pipe to it."""

    def __init__(self, context: Any) -> None:
        self.task: StudyTask | None = None
        self.begin: float | None = None  # when it took up the task: starting a worker is not on the task's time
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def time_left(self) -> float:
        """Seconds until it is stopped with its task; infinite without a budget."""
        if self.task is None or self.task.seconds is None or self.begin is None:
            return math.inf
        return self.begin + self.task.seconds + GRACE - time.monotonic()


class Processes:
    """A number of worker processes, started anew and not forked, so that they hold nothing of this one.

    A script that uses them needs the usual `if __name__ == "__main__":`.
    """

    def __init__(self, count: int) -> None:
        self._context = _context()
        self._workers = [_Worker(self._context) for _ in range(whole(count, "processes", 1))]
        self._deaths: Counter[str] = Counter()

    @property
    def slots(self) -> int:
        """One task a worker."""
        return len(self._workers)

    def start(self, task: StudyTask) -> None:
        """Hand a task to a free worker."""
        number = next(i for i, worker in enumerate(self._workers) if worker.task is None)
        if not self._workers[number].process.is_alive():  # it died while it was idle
            self._replace(number)
        worker = self._workers[number]
        worker.task, worker.begin = task, None
        with suppress(OSError):  # a worker that has just died is found by `wait`
            worker.pipe.send(task)

    def wait(self, seconds: float) -> list[tuple[StudyTask, TaskOutcome]]:
        """Collect outcomes; replace workers that died or did not stop in time."""
        patience = max(0.0, min([seconds, *(worker.time_left for worker in self._workers)]))
        ready = wait([worker.pipe for worker in self._workers if worker.task is not None], patience)
        ended = []
        for number, worker in enumerate(self._workers):
            task = worker.task
            if task is None:
                continue
            outcome = None
            if worker.pipe in ready:
                outcome = self._receive(number, worker, task)
            elif worker.time_left <= 0:
                worker.process.kill()
                message = f"it took more than {task.seconds:g} s and was stopped with its worker"
                outcome = TaskOutcome(TaskStatus.OVER_TIME, error=message)
                self._replace(number)
            if outcome is not None:
                ended.append((task, outcome))
        return ended

    def close(self) -> None:
        """Stop the workers."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()

    def _receive(self, number: int, worker: _Worker, task: StudyTask) -> TaskOutcome | None:
        """Return a worker's outcome; None while it takes up its task, or dies and is replaced for another attempt."""
        try:
            outcome: TaskOutcome | None = worker.pipe.recv()
        except (EOFError, OSError):
            code = self._replace(number)
            self._deaths[task.key] += 1
            if self._deaths[task.key] < ATTEMPTS:
                self.start(task)
                return None
            return TaskOutcome(TaskStatus.LOST, error=f"its worker died {ATTEMPTS} times (exit code {code})")
        if outcome is None:
            worker.begin = time.monotonic()
        else:
            worker.task = None
        return outcome

    def _replace(self, number: int) -> Any:
        """Start another worker in place of a dead one, and return the dead one's exit code."""
        dead = self._workers[number]
        dead.process.join()
        dead.pipe.close()
        self._workers[number] = _Worker(self._context)
        return dead.process.exitcode


def _context() -> BaseContext:
    """Return how workers start: from one server that has imported everything once, where the system has it."""
    if "forkserver" not in mp.get_all_start_methods():
        return mp.get_context("spawn")
    context = mp.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with interrupts_later():
        forkserver.ensure_running()
    return context


def _work(pipe: Connection) -> None:
    """Run tasks until the pipe closes or the parent is gone."""

    def leave_with_parent() -> None:
        parent = mp.parent_process()
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=leave_with_parent, daemon=True).start()
    with threadpool_limits(1):
        while True:
            try:
                task = pipe.recv()
                pipe.send(None)
                pipe.send(execute(task))
            except (EOFError, OSError):
                return


class DaskCluster:
    """The workers of a Dask cluster. They need ridgeformer, and the study's module, and nothing else of this machine.

    The cluster is started here with a number of workers of one thread each, or reached by the address of its scheduler,
    tcp://host:port; `client` is the `distributed.Client`.
    """

    def __init__(self, *, workers: int = 0, scheduler: str | None = None) -> None:
        try:
            import distributed
        except ImportError:
            raise InputError("Dask is not installed: pip install 'ridgeformer[cluster]'.") from None
        self._wait: Any = distributed.wait
        self._timeout: Any = distributed.TimeoutError
        self._cluster: Any = None
        self._running: dict[Any, StudyTask] = {}
        with interrupts_later():
            if scheduler is None:
                self._cluster = _start_cluster(distributed, workers)
            try:
                self.client: Any = distributed.Client(
                    self._cluster or scheduler, set_as_default=False, timeout=PATIENCE
                )
            except (OSError, ValueError) as error:
                if self._cluster is not None:
                    self._cluster.close()
                where = scheduler or "the cluster started here"
                raise RidgeformerError(f"no Dask scheduler answers at {where} ({error}): check the address.") from None

    @property
    def slots(self) -> int:
        """Follows the workers that are there now."""
        return max(1, AHEAD * sum(self.client.nthreads().values()))

    def start(self, task: StudyTask) -> None:
        """Send a task; the scheduler sends it again if its worker dies."""
        self._running[self.client.submit(_execute, task, pure=False)] = task

    def wait(self, seconds: float) -> list[tuple[StudyTask, TaskOutcome]]:
        """Collect what has ended."""
        try:
            with self.client.as_current():
                ended = self._wait(list(self._running), timeout=seconds, return_when="FIRST_COMPLETED").done
        except self._timeout:
            return []
        outcomes = []
        for future in ended:
            error = future.exception()
            lost = TaskOutcome(TaskStatus.LOST, error=f"{type(error).__name__}: {error}")
            outcomes.append((self._running.pop(future), future.result() if error is None else lost))
        return outcomes

    def close(self) -> None:
        """Leave the cluster; one started here is stopped."""
        self.client.cancel(list(self._running), force=True)
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()


def _start_cluster(distributed: Any, workers: int) -> Any:
    """Return a cluster on this machine; one whose workers die while they start is started again."""
    message = ""
    for _ in range(STARTS):
        try:
            return distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            )
        except Exception as error:  # what a cluster raises depends on what its worker was doing
            message = one_line(error)
    raise RidgeformerError(
        f"the Dask workers died while they started, {STARTS} times ({message}): start fewer of them, or use processes."
    )


def _execute(task: StudyTask) -> TaskOutcome:
    with threadpool_limits(1):
        return execute(task)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block.

    A terminal sends it to every process of a command. Threads and processes started inside the block inherit that it is
    blocked, so workers are never interrupted, not even while they import; this process is, when the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it later would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
