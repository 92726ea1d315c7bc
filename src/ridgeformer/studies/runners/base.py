"""What a runner is: a place where tasks run, a few at a time."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ridgeformer.studies.task import Outcome, Task

__all__ = ["Runner"]


@runtime_checkable
class Runner(Protocol):
    """Takes tasks and gives back outcomes, in any order."""

    @property
    def slots(self) -> int:
        """How many tasks it can hold at a time."""
        ...

    def start(self, task: Task) -> None:
        """Take a task; there are never more than `slots`."""
        ...

    def wait(self, seconds: float) -> list[tuple[Task, Outcome]]:
        """Return what has ended, waiting so long for something to end."""
        ...

    def close(self) -> None:
        """Stop; what still runs is given up."""
        ...
