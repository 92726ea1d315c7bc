"""Runs that are killed, that share a store, that fail: the table is the same and nothing is done twice."""

import os
import random
import time
from dataclasses import replace

import pytest

from ridgeformer import studies
from ridgeformer.core.errors import InputError, UnknownNameError
from ridgeformer.studies import Store, TaskStatus
from tests.studies import tiny_studies
from tests.studies.tiny_studies import GRUMPY, STUDY, study


def csv_bytes(store, path):
    return studies.export(studies.table(STUDY, store), path).read_bytes()


@pytest.fixture
def reference(tmp_path):
    """The table of a run that nothing interrupted."""
    studies.run(STUDY, store=tmp_path / "reference.db", preset="quick")
    return csv_bytes(tmp_path / "reference.db", tmp_path / "reference.csv")


def recorded(store):
    if not store.exists():
        return set()
    lines = {task.key: f"{task.params['x']} {task.spawned}" for task in STUDY.tasks("quick")}
    with Store(store) as kept:
        return {lines[key] for key in kept.statuses("tiny")}


def log_lines(log):
    return log.read_text().splitlines() if log.exists() else []


def test_killed_at_20_random_moments_and_resumed(tmp_path, reference):
    store, log, moments, mid = tmp_path / "killed.db", tmp_path / "log", random.Random(5), 0
    for _ in range(20):
        before, told = recorded(store), len(log_lines(log))
        child = tiny_studies.context().Process(target=tiny_studies.run_here, args=(store, log, 0.02))
        child.start()
        time.sleep(moments.uniform(0.01, 0.3))
        child.kill()
        child.join()
        mid += len(log_lines(log)) > told
        assert not before & set(log_lines(log)[told:]), "a recorded task ran again"
    assert mid >= 5, "the kills came before anything had begun"
    assert 0 < len(recorded(store)) < len(STUDY.tasks("quick")), "the kills came too late or too early to show anything"
    studies.run(STUDY, store=store, preset="quick")
    assert csv_bytes(store, tmp_path / "killed.csv") == reference


def test_two_processes_on_one_store_do_each_task_once(tmp_path, reference):
    store, log = tmp_path / "shared.db", tmp_path / "log"
    arguments = {"target": tiny_studies.run_here, "args": (store, log, 0.005)}
    children = [tiny_studies.context().Process(**arguments) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    assert len(log_lines(log)) == len(set(log_lines(log))) == len(STUDY.tasks("quick"))
    assert csv_bytes(store, tmp_path / "shared.csv") == reference


def test_a_dead_runs_claims_are_taken_over_while_another_waits(tmp_path):
    small = study("draw", range(2))
    store = tmp_path / "a.db"
    with Store(store) as other:  # a living owner, in this process
        first, second = small.tasks("quick")
        other.claim(first.key)
        seen = []

        def watch(progress):
            seen.append(progress.done)
            if progress.done == 1:
                other.close()  # gives the claim back, as a dead owner does

        report = studies.run(small, store=store, preset="quick", watch=watch)
    assert (report.computed, seen[-1]) == (2, 2)
    assert second.key != first.key


def test_failures_are_recorded_and_the_rest_goes_on(tmp_path):
    report = studies.run(GRUMPY, store=tmp_path / "a.db", preset="quick")
    assert (report.total, report.computed, len(report.failures)) == (6, 6, 1)
    assert report.failures[0].status == TaskStatus.FAILED
    assert report.failures[0].error.splitlines()[-1] == "ValueError: three is not to my taste"
    assert studies.table(GRUMPY, tmp_path / "a.db").column("value").to_pylist() == [0, 1, 2, 4, 5]


def test_failures_stay_until_they_are_retried(tmp_path):
    for retry, computed in ((False, 6), (False, 0), (True, 1)):
        assert studies.run(GRUMPY, store=tmp_path / "a.db", preset="quick", retry=retry).computed == computed


def test_a_larger_preset_uses_what_a_smaller_one_computed(tmp_path):
    small, large = study("draw", range(3)), study("draw", range(5))
    studies.run(small, store=tmp_path / "a.db", preset="quick")
    assert studies.run(large, store=tmp_path / "a.db", preset="quick").computed == 2
    assert studies.table(large, tmp_path / "a.db").num_rows == 5


def test_a_new_version_is_computed_and_said_and_the_old_one_stays_readable(tmp_path):
    old = study("draw", range(3))
    studies.run(old, store=tmp_path / "a.db", preset="quick")
    new = replace(old, version=2, function="tests.studies.tiny_studies:grumpy")
    report = studies.run(new, store=tmp_path / "a.db", preset="quick")
    assert report.computed == 3
    assert "3 results are of version 1 of this study; version 2 computes its own" in report.notes[0]
    assert "value" in studies.table(new, tmp_path / "a.db").column_names
    assert "trace" in studies.table(new, tmp_path / "a.db", version=1).column_names


def test_results_of_another_library_version_are_kept_and_said(tmp_path, monkeypatch):
    small = study("draw", range(3))
    monkeypatch.setattr("ridgeformer.studies.store.LIBRARY", "0.0.1")
    studies.run(small, store=tmp_path / "a.db", preset="quick")
    monkeypatch.undo()
    report = studies.run(small, store=tmp_path / "a.db", preset="quick")
    assert report.computed == 0
    assert "3 results were computed by ridgeformer 0.0.1" in report.notes[0]


def test_an_interrupt_leaves_a_resumable_store_without_claims(tmp_path):
    def watch(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    small = study("draw", range(5))
    with pytest.raises(KeyboardInterrupt):
        studies.run(small, store=tmp_path / "a.db", preset="quick", watch=watch)
    assert studies.run(small, store=tmp_path / "a.db", preset="quick").computed == 3
    assert not list((tmp_path / "a.db.claims").glob("?" * 32 + ".lock"))


def test_progress_counts_what_was_there_before(tmp_path):
    seen = []
    studies.run(study("grumpy", range(4)), store=tmp_path / "a.db", preset="quick")
    studies.run(GRUMPY, store=tmp_path / "a.db", preset="quick", watch=seen.append)
    assert (seen[-1].total, seen[-1].done, seen[-1].failed, seen[-1].running) == (6, 5, 1, 0)
    assert seen[-1].remaining == 0
    assert seen[0].done == 4


def test_wrong_wishes(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'quick'"):
        studies.run(STUDY, store=tmp_path / "a.db", preset="quik")
    with pytest.raises(InputError, match="give one of them"):
        studies.run(STUDY, store=tmp_path / "a.db", preset="quick", processes=2, workers=2)
    assert os.listdir(tmp_path) in ([], ["a.db.claims", "a.db"], ["a.db", "a.db.claims"])
