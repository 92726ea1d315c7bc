"""Tasks one after the other in this process."""

from __future__ import annotations

from threadpoolctl import threadpool_limits

from ridgeformer.studies.task import Outcome, Task, execute

__all__ = ["InProcess"]


class InProcess:
    """Runs each task when it is waited for; BLAS keeps to one thread meanwhile.

    A time budget ends a task between two Python instructions; use worker processes for what might never return.
    """

    slots = 1

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._limits = threadpool_limits(1)

    def start(self, task: Task) -> None:
        """Take a task."""
        self._tasks.append(task)

    def wait(self, seconds: float) -> list[tuple[Task, Outcome]]:
        """Run what was taken."""
        tasks, self._tasks = self._tasks, []
        return [(task, execute(task)) for task in tasks]

    def close(self) -> None:
        """Give BLAS its threads back."""
        self._limits.restore_original_limits()
