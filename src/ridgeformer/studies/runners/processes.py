"""Tasks in worker processes of this machine, each on one core; one that dies or hangs is replaced."""

from __future__ import annotations

import math
import multiprocessing as mp
import os
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

from threadpoolctl import threadpool_limits

from ridgeformer.core.checks import whole
from ridgeformer.studies.runners.interrupts import interrupts_later
from ridgeformer.studies.task import Outcome, Status, Task, execute

__all__ = ["Processes"]

ATTEMPTS = 2
"""A task whose worker dies is tried so often, then recorded as lost."""

GRACE = 5.0
"""Seconds after its time budget at which a task that did not stop is stopped with its worker."""


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: Task | None = None
    begin: float | None = None  # when it took up the task: starting a worker is not on the task's time


class Processes:
    """So many worker processes, started anew and not forked, so that they hold nothing of this one.

    A script that uses them needs the usual `if __name__ == "__main__":`.
    """

    def __init__(self, count: int) -> None:
        self._context = _context()
        self._workers = [self._start_worker() for _ in range(whole(count, "processes", 1))]
        self._deaths: Counter[str] = Counter()

    @property
    def slots(self) -> int:
        """One task a worker."""
        return len(self._workers)

    def start(self, task: Task) -> None:
        """Hand a task to a free worker."""
        number = next(i for i, worker in enumerate(self._workers) if worker.task is None)
        worker = self._workers[number]
        if not worker.process.is_alive():  # it died while it was idle
            self._workers[number] = worker = self._start_worker()
        worker.task, worker.begin = task, None
        with suppress(OSError):  # a worker that has just died is found by `wait`
            worker.pipe.send(task)

    def wait(self, seconds: float) -> list[tuple[Task, Outcome]]:
        """Collect outcomes; replace workers that died or did not stop in time."""
        busy = {worker.pipe: number for number, worker in enumerate(self._workers) if worker.task is not None}
        ready = {busy[pipe] for pipe in wait(list(busy), self._patience(seconds)) if isinstance(pipe, Connection)}
        found = []
        for number in sorted(busy.values()):
            worker = self._workers[number]
            if number in ready:
                found += self._receive(number, worker)
            elif _time_left(worker) <= 0:
                assert worker.task is not None
                worker.process.kill()
                message = f"it took more than {worker.task.seconds:g} s and was stopped with its worker"
                found.append((worker.task, Outcome(Status.OVER_TIME, error=message)))
                self._replace(number)
        return found

    def close(self) -> None:
        """Stop the workers."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()

    def _receive(self, number: int, worker: _Worker) -> list[tuple[Task, Outcome]]:
        """Read what a worker says: that it takes up its task, or how that ended; a dead one says nothing."""
        task = worker.task
        assert task is not None
        try:
            outcome: Outcome | None = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(number, task)
        if outcome is None:
            worker.begin = time.monotonic()
            return []
        worker.task = None
        return [(task, outcome)]

    def _bury(self, number: int, task: Task) -> list[tuple[Task, Outcome]]:
        """Replace a dead worker and try its task again, so often."""
        self._workers[number].process.join()
        code = self._workers[number].process.exitcode
        self._replace(number)
        self._deaths[task.key] += 1
        if self._deaths[task.key] < ATTEMPTS:
            self.start(task)
            return []
        return [(task, Outcome(Status.LOST, error=f"its worker died {ATTEMPTS} times (exit code {code})"))]

    def _patience(self, seconds: float) -> float:
        return max(0.0, min([seconds, *(_time_left(worker) for worker in self._workers)]))

    def _replace(self, number: int) -> None:
        self._workers[number].process.join()
        self._workers[number].pipe.close()
        self._workers[number] = self._start_worker()

    def _start_worker(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs,), daemon=True)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        return _Worker(process, ours)


def _time_left(worker: _Worker) -> float:
    """Return the seconds until a worker is stopped with its task; infinite without a budget."""
    if worker.task is None or worker.task.seconds is None or worker.begin is None:
        return math.inf
    return worker.begin + worker.task.seconds + GRACE - time.monotonic()


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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with threadpool_limits(1):
        while True:
            try:
                task = pipe.recv()
                pipe.send(None)
                pipe.send(execute(task))
            except (EOFError, OSError):
                return


def _leave_with_parent() -> None:
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
