"""Where tasks run. The same task gives the same bits in each of them, on processors of one kind."""

from __future__ import annotations

from ridgeformer.core.errors import InputError
from ridgeformer.studies.runners.base import Runner
from ridgeformer.studies.runners.dask_cluster import DaskCluster
from ridgeformer.studies.runners.in_process import InProcess
from ridgeformer.studies.runners.processes import Processes

__all__ = ["DaskCluster", "InProcess", "Processes", "Runner", "choose_runner"]


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
