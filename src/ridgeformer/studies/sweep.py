"""`run`: a study from its grid to a full store, resumed as often as it is interrupted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ridgeformer.studies.registry import find_study
from ridgeformer.studies.runners import Runner, choose_runner
from ridgeformer.studies.store import LIBRARY, Store, StoredResult
from ridgeformer.studies.study import Study
from ridgeformer.studies.task import StudyTask, TaskStatus

__all__ = ["Progress", "Report", "run"]

POLL = 0.2  # seconds between two looks at what other processes have finished


@dataclass(frozen=True)
class Progress:
    """Where a run stands, in tasks of the preset.

    Attributes:
        done, failed: Recorded with a result and without one, earlier ones included.
        running: Those that run now, in this run.
        remaining: Seconds left at the pace so far; None before the first.
    """

    total: int
    done: int
    failed: int
    running: int
    remaining: float | None


@dataclass(frozen=True)
class Report:
    """What a run did.

    Attributes:
        total, computed: Tasks of the preset, and those that ended in this run.
        failures: Every recorded failure of the preset, this run's and earlier ones.
        notes: Sentences about results of other versions in the store.
    """

    study: str
    preset: str
    store: Path
    total: int
    computed: int
    failures: tuple[StoredResult, ...]
    notes: tuple[str, ...]
    seconds: float


def run(
    study: Study | str,
    *,
    store: str | Path,
    preset: str = "default",
    processes: int = 0,
    workers: int = 0,
    scheduler: str | None = None,
    retry: bool = False,
    watch: Callable[[Progress], object] | None = None,
) -> Report:
    """Compute what the store does not have yet; running again resumes.

    The study may be "module:STUDY". It runs here unless a number of worker `processes`, a number of `workers` of a Dask
    cluster to start, or the address of a running cluster's `scheduler` is given. `retry` tries recorded failures again;
    `watch` is called with a `Progress` whenever something ended.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as here:
        ...     report = run("overhead", store=Path(here) / "demo.db", preset="quick")
        ...     again = run("overhead", store=Path(here) / "demo.db", preset="quick")
        >>> report.computed, again.computed, again.failures
        (100, 0, ())
    """
    study = find_study(study)
    tasks = study.tasks(preset)
    begin = time.perf_counter()
    with Store(store) as kept:
        notes = _notes(kept, study)
        if retry:
            kept.forget_failures(task.key for task in tasks)
        loop = _Loop(kept, tasks, watch or (lambda progress: None))
        if loop.queue:
            runner = choose_runner(processes=processes, workers=workers, scheduler=scheduler)
            try:
                loop.work(runner)
            finally:
                runner.close()
        keys = {task.key for task in tasks}
        rows = kept.results(study.name, study.version)
        failures = tuple(row for row in rows if row.key in keys and row.status != TaskStatus.DONE)
    seconds = time.perf_counter() - begin
    return Report(study.name, preset, Path(store), len(tasks), loop.computed, failures, notes, seconds)


@dataclass
class _Loop:
    """Claim, start, collect, record, until every task is recorded, here or by another process."""

    store: Store
    tasks: list[StudyTask]
    watch: Callable[[Progress], object]
    queue: deque[StudyTask] = field(init=False)
    elsewhere: list[StudyTask] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    done: int = 0
    failed: int = 0
    computed: int = 0
    begin: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.queue = deque(self._unrecorded(self.tasks))
        self.store.free_dead_claims()

    def work(self, runner: Runner) -> None:
        while self.queue or self.running or self.elsewhere:
            slots = runner.slots
            while self.queue and len(self.running) < slots:
                task = self.queue.popleft()
                if self.store.claim(task.key):
                    runner.start(task)
                    self.running.add(task.key)
                else:
                    self.elsewhere.append(task)
            if self.running:
                for task, outcome in runner.wait(POLL if self.elsewhere else 1.0):
                    self.store.record(task, outcome)
                    self.running.discard(task.key)
                    self.computed += 1
                    self._count(outcome.status)
                    self._say()
            else:  # wait for what other processes are computing; take it over where they died
                self.queue, self.elsewhere = deque(self._unrecorded(self.elsewhere)), []
                if self.queue and not self.store.free_dead_claims():
                    time.sleep(POLL)
                self._say()

    def _unrecorded(self, tasks: list[StudyTask]) -> list[StudyTask]:
        """Count the tasks that are recorded and return the others."""
        recorded = self.store.statuses(tasks[0].study) if tasks else {}
        for task in tasks:
            if task.key in recorded:
                self._count(recorded[task.key])
        return [task for task in tasks if task.key not in recorded]

    def _count(self, status: TaskStatus) -> None:
        self.done += status == TaskStatus.DONE
        self.failed += status != TaskStatus.DONE

    def _say(self) -> None:
        left = len(self.tasks) - self.done - self.failed
        remaining = left * (time.monotonic() - self.begin) / self.computed if self.computed else None
        self.watch(Progress(len(self.tasks), self.done, self.failed, len(self.running), remaining))


def _notes(store: Store, study: Study) -> tuple[str, ...]:
    """Return sentences about results that other versions left in the store."""
    notes = []
    for (version, library), count in sorted(store.census(study.name).items()):
        if version != study.version:
            notes.append(
                f"{count} results are of version {version} of this study; version {study.version} computes its own, "
                f"and the old ones stay: export them with --version {version}."
            )
        elif library != LIBRARY:
            notes.append(f"{count} results were computed by ridgeformer {library}, this is {LIBRARY}; they are kept.")
    return tuple(notes)
