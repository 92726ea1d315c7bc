"""Worker processes and Dask: the same bits, and survival of dead and of stuck workers."""

import multiprocessing
import os
import signal
import sys
import threading
from contextlib import contextmanager

import dask
import distributed
import pytest

from ridgeformer import studies
from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.studies import TaskStatus, runners
from ridgeformer.studies.runners import Processes
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
    assert {(row.point["x"], row.status) for row in report.failures} == {(1, TaskStatus.LOST), (5, TaskStatus.LOST)}
    assert "died 2 times (exit code -9)" in report.failures[0].error


def test_a_task_that_does_not_return_is_stopped_with_its_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(runners, "GRACE", 0.3)
    report = studies.run(
        study("sleep_deeply", [1, 0], seconds=0.3), store=tmp_path / "a.db", preset="quick", processes=1
    )
    (failure,) = report.failures
    assert (failure.status, failure.point) == (TaskStatus.OVER_TIME, {"x": 1})
    assert "stopped with its worker" in failure.error
    assert report.seconds < 25


def test_no_worker_outlives_its_runner():
    runner = Processes(1)
    (child,) = multiprocessing.active_children()
    runner.close()
    assert not child.is_alive()
    with pytest.raises(InputError, match="processes is 0"):
        Processes(0)


# -- Dask ----------------------------------------------------------------------------------------------

SLOW = study("slow", range(24))


def test_two_workers_one_killed_mid_study_give_the_same_table(tmp_path):
    killed = []

    def watch(progress):
        if progress.done >= 4 and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        report = studies.run(SLOW, store=tmp_path / "b.db", preset="quick", workers=2, watch=watch)
    assert (report.computed, report.failures, len(killed)) == (24, (), 1)
    studies.run(SLOW, store=tmp_path / "a.db", preset="quick")
    here, there = (studies.export(studies.table(SLOW, tmp_path / f), tmp_path / f"{f}.csv") for f in ("a.db", "b.db"))
    assert here.read_bytes() == there.read_bytes()


def test_any_scheduler_by_its_address(tmp_path):
    few = study("grumpy", range(5))
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", protocol="tcp"
    ) as cluster:
        report = studies.run(few, store=tmp_path / "a.db", preset="quick", scheduler=cluster.scheduler_address)
    assert (report.computed, len(report.failures)) == (5, 1)


def test_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(runners, "PATIENCE", 1)
    with pytest.raises(RidgeformerError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        studies.run(STUDY, store=tmp_path / "a.db", preset="quick", scheduler="tcp://127.0.0.1:9")


def test_without_dask(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'ridgeformer\[cluster\]'"):
        studies.run(STUDY, store=tmp_path / "a.db", preset="quick", workers=1)


@contextmanager
def killing(most):
    """Kill the first worker processes that start, so many."""
    over, killed = threading.Event(), []

    def kill():
        while not over.is_set() and len(killed) < most:
            for child in multiprocessing.active_children():
                if child.pid not in killed:
                    killed.append(child.pid)
                    os.kill(child.pid, signal.SIGKILL)
            over.wait(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_a_worker_killed_while_it_starts_is_started_again(tmp_path):
    with killing(1) as killed:
        report = studies.run(study("draw", range(3)), store=tmp_path / "a.db", preset="quick", workers=1)
    assert (report.computed, report.failures, len(killed)) == (3, (), 1)


def test_workers_that_never_live_are_one_sentence(tmp_path):
    with killing(100) as killed, pytest.raises(RidgeformerError, match="Dask workers died while they started, 2 times"):
        studies.run(STUDY, store=tmp_path / "a.db", preset="quick", workers=1)
    assert len(killed) >= 2
    assert multiprocessing.active_children() == []
