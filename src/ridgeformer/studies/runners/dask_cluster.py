"""Tasks on a Dask cluster: one started here, or any whose scheduler can be reached."""

from __future__ import annotations

import logging
from typing import Any

from threadpoolctl import threadpool_limits

from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.core.reading import one_line
from ridgeformer.studies.runners.interrupts import interrupts_later
from ridgeformer.studies.task import Outcome, Status, Task, execute

__all__ = ["DaskCluster"]

PATIENCE = 20.0
"""Seconds a scheduler may take to answer."""

STARTS = 2
"""A cluster is started so often before it is given up."""

AHEAD = 2
"""Tasks sent for every thread, so that none waits for the next."""


class DaskCluster:
    """The workers of a Dask cluster. They need ridgeformer, and the study's module, and nothing else of this machine.

    Args:
        workers: So many worker processes in a cluster started here, one thread each.
        scheduler: Instead: the address of a scheduler, tcp://host:port.

    Attributes:
        client: the `distributed.Client` it is reached by.

    Raises:
        InputError: Dask is not installed.
        RidgeformerError: the scheduler does not answer, or the workers die while they start.
    """

    def __init__(self, *, workers: int = 0, scheduler: str | None = None) -> None:
        try:
            import distributed
        except ImportError:
            raise InputError("Dask is not installed: pip install 'ridgeformer[cluster]'.") from None
        self._wait: Any = distributed.wait
        self._timeout: Any = distributed.TimeoutError
        self._cluster: Any = None
        self._running: dict[Any, Task] = {}
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

    def start(self, task: Task) -> None:
        """Send a task; the scheduler sends it again if its worker dies."""
        self._running[self.client.submit(_execute, task, pure=False)] = task

    def wait(self, seconds: float) -> list[tuple[Task, Outcome]]:
        """Collect what has ended."""
        try:
            with self.client.as_current():
                ended = self._wait(list(self._running), timeout=seconds, return_when="FIRST_COMPLETED").done
        except self._timeout:
            return []
        return [(self._running.pop(future), _outcome(future)) for future in ended]

    def close(self) -> None:
        """Leave the cluster; one started here is stopped."""
        self.client.cancel(list(self._running), force=True)
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()


def _start_cluster(distributed: Any, workers: int) -> Any:
    """Return a cluster on this machine; one whose workers die while they start is started again."""
    said = ""
    for _ in range(STARTS):
        try:
            return distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            )
        except Exception as error:  # what a cluster raises depends on what its worker was doing
            said = one_line(error)
    raise RidgeformerError(
        f"the Dask workers died while they started, {STARTS} times ({said}): start fewer of them, or use processes."
    )


def _execute(task: Task) -> Outcome:
    with threadpool_limits(1):
        return execute(task)


def _outcome(future: Any) -> Outcome:
    error = future.exception()
    if error is None:
        found: Outcome = future.result()
        return found
    return Outcome(Status.LOST, error=f"{type(error).__name__}: {error}")
