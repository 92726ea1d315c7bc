import pytest
import torch

from ridgeformer.auditing.watched import MOST_STEPS, QUERIES, SUPPORTS
from ridgeformer.solving import solve
from tests.auditing.small_audits import small_audit


@pytest.mark.parametrize("name", ["wine", "diabetes"])
def test_the_model_runs_on_its_task_and_approaches_the_fit(name):
    audit = small_audit(name)
    watched = audit.watched
    assert len(watched.X) == len(watched.labels) == SUPPORTS
    assert len(watched.Xq) == QUERIES
    assert watched.model.spec.steps <= MOST_STEPS
    kernel, ridge = audit.certified.solution.kernel, audit.certified.solution.ridge
    exact = solve(kernel, watched.X, watched.y, ridge).predict(watched.Xq).flatten()
    near = watched.model(watched.X, watched.y, watched.Xq).flatten()
    assert float((near - exact).norm() / exact.norm()) < 0.5
    assert float(torch.corrcoef(torch.stack([near, exact]))[0, 1]) > 0.9


def test_its_output_and_rows_have_names():
    watched = small_audit("wine").watched
    assert watched.output.startswith("class ")
    assert all(label.startswith("row ") and "class" in label for label in watched.labels)
    assert small_audit("diabetes").watched.output == "the target"
