"""Worker processes: the same bits, and survival of dead and of stuck workers."""

import multiprocessing
import os
import signal

import pytest

from ridgeformer import studies
from ridgeformer.core.errors import InputError
from ridgeformer.studies import Status
from ridgeformer.studies.runners import Processes, processes
from tests.studies import tiny_studies
from tests.studies.tiny_studies import STUDY, study


@pytest.fixture(autouse=True)
def _quick_start():
    tiny_studies.context()


def test_the_table_is_that_of_one_process_even_if_a_worker_is_killed(tmp_path):
    killed = []

    def watch(progress):
        if progress.done >= 10 and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    studies.run(STUDY, store=tmp_path / "a.db", preset="quick")
    report = studies.run(STUDY, store=tmp_path / "b.db", preset="quick", processes=2, watch=watch)
    assert (len(killed), report.failures) == (1, ())
    here, there = (studies.export(studies.table(STUDY, tmp_path / f), tmp_path / f"{f}.csv") for f in ("a.db", "b.db"))
    assert here.read_bytes() == there.read_bytes()


def test_a_task_that_kills_its_workers_is_lost_and_the_rest_goes_on(tmp_path):
    report = studies.run(study("die", [0, 1, 5]), store=tmp_path / "a.db", preset="quick", processes=1)
    assert {(row.point["x"], row.status) for row in report.failures} == {(1, Status.LOST), (5, Status.LOST)}
    assert "died 2 times (exit code -9)" in report.failures[0].error


def test_a_task_that_does_not_return_is_stopped_with_its_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "GRACE", 0.3)
    report = studies.run(
        study("sleep_deeply", [1, 0], seconds=0.3), store=tmp_path / "a.db", preset="quick", processes=1
    )
    (failure,) = report.failures
    assert (failure.status, failure.point) == (Status.OVER_TIME, {"x": 1})
    assert "stopped with its worker" in failure.error
    assert report.seconds < 25


def test_no_worker_outlives_its_runner():
    runner = Processes(1)
    (child,) = multiprocessing.active_children()
    runner.close()
    assert not child.is_alive()
    with pytest.raises(InputError, match="processes is 0"):
        Processes(0)
