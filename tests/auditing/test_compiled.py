"""The audit's compiled transformers solve the audit's own problem."""

import json
from dataclasses import replace

import pytest
import torch

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.auditing.answer import _transformers
from ridgeformer.auditing.compiled import MOST_STEPS, QUERIES, SUPPORTS, examine_compiled
from ridgeformer.auditing.field import run_field
from ridgeformer.datasets import Split
from ridgeformer.solving import solve
from tests.auditing.small_audits import small_audit


def examine(name):
    data = Split.of(datasets.load(name))
    certified = certify_fit(data, Settings())
    return data, certified, examine_compiled(data, certified, Settings())


def certify_fit(data, settings):
    return run_field([data], replace(settings, methods=("attention",)))[1]


@pytest.fixture(scope="module")
def diabetes():
    return examine("diabetes")


def test_both_attentions_hold_and_agree(diabetes):
    _, _, compiled = diabetes
    assert [model.attention for model in compiled] == ["linear", "softmax"]
    for model in compiled:
        assert model.certificate.holds, str(model.certificate)
        assert model.agreement < 1e-4
        assert model.budget.width == model.features + model.budget.overhead
        assert model.supports == Settings().compiled_rows
        assert len(model.errors) == len(model.bound) == model.steps
        assert (model.errors <= model.bound).all()


def test_it_is_the_audits_problem(diabetes):
    """On data with fewer rows than the cap, the softmax route's exact answers are the certified fit's."""
    data, certified, compiled = examine("wine")
    exact = torch.from_numpy(compiled[1].certificate.exact[0])
    torch.testing.assert_close(exact, certified.fit.predict(data.Xt[: len(exact)]), rtol=1e-6, atol=1e-9)


def test_plain_json(diabetes):
    record = json.loads(json.dumps([model.as_dict() for model in diabetes[2]]))
    assert record[0]["holds"] is record[0]["accurate"] is True
    assert record[0]["proved_within"] <= 0.01
    assert record[1]["sublayers"] == diabetes[2][1].budget.sublayers


def test_the_answer_says_when_a_certificate_fails(diabetes):
    first, second = diabetes[2]
    assert _transformers((first, second)).endswith(second.certificate.verdict)
    assert second.certificate.verdict.startswith("Proved within ")
    checks = tuple(replace(check, holds=check.name != "accuracy") for check in first.certificate.checks)
    bad = replace(first.certificate, checks=checks)
    said = _transformers((replace(first, certificate=bad), second))
    assert said.startswith("As a transformer: compiled for linear attention. Not shown to be accurate: proved only ")


def test_logits_beyond_range_are_brought_into_it():
    """A kernel this sharp has a ridge no float64 holds unscaled: the temperature is raised, the audit goes on."""
    data = Split.of(datasets.load("digits"), max_rows=60)
    certified = certify_fit(data, Settings(temperatures=(0.001,)))
    assert certified.fit.kernel.log_scale > 900
    _, softmax = examine_compiled(data, certified, Settings())
    failed = [check.name for check in softmax.certificate.failed]  # its predictions are lost in rounding
    assert failed == ["accuracy"], str(softmax.certificate)
    assert "raise the ridge or the temperature" in softmax.certificate.verdict


@pytest.mark.parametrize("name", ["wine", "diabetes"])
def test_the_model_runs_on_its_task_and_approaches_the_fit(name):
    audit = small_audit(name)
    watched = audit.watched
    assert len(watched.X) == len(watched.labels) == SUPPORTS
    assert len(watched.Xq) == QUERIES
    assert watched.model.spec.steps <= MOST_STEPS
    kernel, ridge = audit.certified.fit.kernel, audit.certified.fit.ridge
    exact = solve(kernel, watched.X, watched.y, ridge).predict(watched.Xq).flatten()
    near = watched.model(watched.X, watched.y, watched.Xq).flatten()
    assert float((near - exact).norm() / exact.norm()) < 0.5
    assert float(torch.corrcoef(torch.stack([near, exact]))[0, 1]) > 0.9


def test_its_output_and_rows_have_names():
    watched = small_audit("wine").watched
    assert watched.output.startswith("class ")
    assert all(label.startswith("row ") and "class" in label for label in watched.labels)
    assert small_audit("diabetes").watched.output == "the target"
