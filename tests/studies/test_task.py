"""Tasks: keys and seeds that depend on what they should, outcomes instead of exceptions."""

import json
from dataclasses import replace

import pytest
import torch

from ridgeformer.core.errors import InputError
from ridgeformer.studies import Result, StudyTask, TaskStatus
from ridgeformer.studies.task import as_json, execute, find_object
from tests.studies.tiny_studies import study

TASK = StudyTask("tiny", 1, "tests.studies.tiny_studies:draw", {"x": 1, "y": 0.5}, seed=0)


def test_the_key_depends_on_everything_that_matters_and_on_no_order():
    others = [
        replace(TASK, **change)
        for change in (
            {"study": "other"}, {"version": 2}, {"function": "a:b"}, {"params": {"x": 2, "y": 0.5}}, {"seed": 1},
            {"root": 1},
        )
    ]  # fmt: skip
    assert len({TASK.key, *(task.key for task in others)}) == 7
    assert replace(TASK, params={"y": 0.5, "x": 1}).key == TASK.key
    assert replace(TASK, seconds=1.0, memory=10).key == TASK.key


def test_seeds_differ_between_tasks_and_stay_under_a_new_version():
    tasks = study("draw", range(40), seeds=5).tasks("quick")
    assert len({task.spawned for task in tasks}) == len(tasks)
    assert replace(TASK, version=2).spawned == TASK.spawned
    assert replace(TASK, root=1).spawned != TASK.spawned
    assert 0 <= TASK.spawned < 2**63


def test_a_task_runs_on_one_thread_and_gives_the_threads_back(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.setattr("tests.studies.tiny_studies.grumpy", lambda x, seed: {"threads": torch.get_num_threads()})
        (task,) = study("grumpy", [1]).tasks("quick")
        assert json.loads(execute(task).values) == [{"threads": 1}]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("returned", "message"),
    [(3, "a dictionary of values"), ([1], "a dictionary of values"), ({"x": torch.ones(1)}, "only plain numbers")],
)
def test_results_that_cannot_be_stored_are_failures(monkeypatch, returned, message):
    monkeypatch.setattr("tests.studies.tiny_studies.grumpy", lambda x, seed: returned)
    (task,) = study("grumpy", [1]).tasks("quick")
    outcome = execute(task)
    assert outcome.status == TaskStatus.FAILED
    assert message in outcome.error.splitlines()[-1]


def test_rows_and_tensors(monkeypatch):
    result = Result([{"step": 1}, {"step": 2}], {"w": torch.ones(2).t()})
    monkeypatch.setattr("tests.studies.tiny_studies.grumpy", lambda x, seed: result)
    (task,) = study("grumpy", [1]).tasks("quick")
    outcome = execute(task)
    assert outcome.values == '[{"step":1},{"step":2}]'
    assert outcome.tensors


def test_floats_are_written_exactly():
    for value in (0.1, 1 / 3, 5e-324, 1.7976931348623157e308):
        assert json.loads(as_json([value])) == [value]


@pytest.mark.parametrize("name", ["nowhere:f", "math:nothing", "math", ":f"])
def test_names_that_lead_nowhere(name):
    with pytest.raises(InputError, match="cannot be imported"):
        find_object(name)
