"""Budgets: a task over its time or memory is reported as such, and the next one runs as if nothing had been."""

import threading
import time

import pytest

from ridgeformer import studies
from ridgeformer.studies import TaskStatus
from ridgeformer.studies.task import OverTimeError, time_limit
from tests.studies import tiny_studies
from tests.studies.tiny_studies import study


@pytest.fixture(autouse=True)
def _quick_start():
    tiny_studies.context()


@pytest.mark.parametrize("options", [{}, {"processes": 1}], ids=["in process", "processes"])
def test_over_time(tmp_path, options):
    tasks = study("dawdle", [1, 0], seconds=0.4)
    report = studies.run(tasks, store=tmp_path / "a.db", preset="quick", **options)
    (failure,) = report.failures
    assert (failure.status, failure.point) == (TaskStatus.OVER_TIME, {"x": 1})
    assert failure.error == "it took more than 0.4 s"
    assert failure.seconds < 5


@pytest.mark.parametrize("function", ["hoard", "hoard_numbers"])
@pytest.mark.parametrize("options", [{}, {"processes": 1}], ids=["in process", "processes"])
def test_over_memory(tmp_path, function, options):
    tasks = study(function, [4000, 1], memory=600 << 20)
    report = studies.run(tasks, store=tmp_path / "a.db", preset="quick", **options)
    (failure,) = report.failures
    assert (failure.status, failure.point) == (TaskStatus.OVER_MEMORY, {"x": 4000})
    assert failure.error == "it asked for more than 600 MiB"


def test_the_deadline_reaches_other_threads_and_only_those_inside():
    found = []

    def late():
        try:
            with time_limit(0.05):
                while True:
                    time.sleep(0.01)
        except OverTimeError:
            found.append("over")

    thread = threading.Thread(target=late)
    thread.start()
    thread.join(10)
    assert found == ["over"]


def test_a_block_that_ends_in_time_is_left_alone():
    for _ in range(200):  # the timer fires around the end of the block: the error arrives inside it or never
        try:
            with time_limit(0.001):
                time.sleep(0.001)
        except OverTimeError:
            pass
        time.sleep(0)
    assert sum(range(1000)) == 499500
