import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

from ridgeformer import datasets
from ridgeformer.auditing import audit, field
from ridgeformer.auditing.field import METHODS
from ridgeformer.auditing.run import STAGES, hardest_row
from ridgeformer.datasets import Split
from ridgeformer.regime import measurement
from ridgeformer.solving import direct, solve
from tests.auditing.small_audits import SMALL, small_audit


def test_the_row_asked_about_is_held_out_and_the_hardest():
    audit = small_audit("wine")
    outputs = audit.certified.fit.predict(audit.data.Xt) + audit.data.mean
    lead = []
    for row, own in zip(outputs, audit.data.labels_t.tolist(), strict=True):
        others = torch.cat([row[:own], row[own + 1 :]])
        lead.append(float(row[own] - others.max()))
    assert audit.attribution.row == audit.data.rows_t[lead.index(min(lead))]
    assert audit.attribution.row not in audit.data.rows


def test_the_largest_error_for_regression():
    audit = small_audit("diabetes")
    error = (audit.certified.fit.predict(audit.data.Xt) - audit.data.yt).abs().flatten()
    assert audit.attribution.row == audit.data.rows_t[int(error.argmax())]


def test_rows_of_a_class_never_trained_on_are_passed_over():
    audit = small_audit("wine")
    kept = audit.data.labels != 0
    data = replace(audit.data, labels=audit.data.labels[kept])
    outputs = torch.zeros_like(audit.data.yt)
    outputs[:, 0] = -5.0  # the missing class is the hardest
    assert int(data.labels_t[hardest_row(data, outputs)]) != 0


def test_rows_are_numbered_as_in_the_dataset_given():
    audit = small_audit("digits")
    assert audit.data.dataset.n > SMALL.max_rows
    assert audit.attribution.truth == audit.data.dataset.classes[audit.data.dataset.y[audit.attribution.row]]


@pytest.mark.parametrize("name", ["wine", "digits", "diabetes"])
def test_the_certified_fit_is_the_one_explained(name):
    audit = small_audit(name)
    found, fit = audit.attribution, audit.certified.fit
    assert (found.ridge, found.training_rows) == (fit.ridge, len(fit.X))
    place = int(np.flatnonzero(audit.data.rows_t == found.row)[0])
    output = 0 if audit.data.labels_t is None else int(audit.data.labels_t[place])
    full = fit.predict(audit.data.Xt[place : place + 1])[0, output]
    assert found.output == pytest.approx(float(full + audit.data.mean[output]))
    point = found.helpful[0]
    keep = torch.from_numpy(audit.data.rows != point.row)
    again = solve(fit.kernel, fit.X[keep], fit.y[keep], fit.ridge).predict(audit.data.Xt[place : place + 1])
    assert abs(point.score) == pytest.approx(abs(float(full - again[0, output])), rel=1e-6)


def test_an_audit_prepares_selects_factorises_and_trains_once(monkeypatch):
    """Counted where the work is done: how often, on which rows, with which network."""
    prepared, selected, factorised, trained = [], [], [], []
    of, choose, factorise, train = Split.of, field.tune_kernel, direct.factorise_in_place, measurement.train

    def count(calls, function):
        def counted(*given, **options):
            calls.append(given)
            return function(*given, **options)

        return counted

    monkeypatch.setattr(Split, "of", count(prepared, of))
    monkeypatch.setattr(field, "tune_kernel", count(selected, choose))
    for name in ("direct", "fit", "solver"):  # wherever the function is called from
        module = import_module(f"ridgeformer.solving.{name}")
        monkeypatch.setattr(module, "factorise_in_place", count(factorised, factorise))
    monkeypatch.setattr(measurement, "train", count(trained, train))
    found = audit(datasets.load("digits"), SMALL)
    assert len(prepared) == 1
    assert len(selected) == 2  # the kernel of attention once, and the Gaussian one
    certified = found.certified.fit
    assert [(len(A), ridge) for A, ridge in factorised].count((len(certified.X), certified.ridge)) == 1
    networks = 2 * len(SMALL.regime_widths) * SMALL.repeats
    assert len(trained) == len({id(model) for model, *_ in trained}) == 2 * networks  # each with its linearisation


def test_same_seed_same_numbers_and_progress_names_every_stage_once():
    seen = []
    again = audit(datasets.load("wine"), SMALL, progress=lambda *said: seen.append(said))
    one, other = small_audit("wine").as_dict(), again.as_dict()
    for record in (one, other):
        record.pop("seconds")
        for part in (*record["fits"], *record["regime"]["answers"]):
            part.pop("seconds")
    assert one == other
    assert [said[:2] for said in seen] == [(step, len(STAGES)) for step in range(len(STAGES) + 1)]
    assert [said[2] for said in seen] == [*STAGES, "done"]


def test_as_dict_is_plain_json_with_every_part():
    record = json.loads(json.dumps(small_audit("wine").as_dict()))
    assert record["data"]["name"] == "wine"
    assert set(record["seconds"]) == set(STAGES)
    assert record["versions"]["torch"]
    assert len(record["answer"]) == 6
    assert set(record["metrics"]) >= {"attention"}
    assert {fit["key"] for fit in record["fits"]} == set(METHODS) - {"centres"}  # all rows are in the direct solution
    assert len(record["regime"]["answers"]) == 2 * len(SMALL.regime_widths) * SMALL.repeats
    assert len(record["influence"]["helpful"]) == SMALL.points
    assert record["malleability"]["moved"] == 3
    assert {row["claim"] for row in record["claims"]["rows"]} >= {"W4", "B2"}


def test_the_dataset_as_given_is_kept():
    digits = small_audit("digits")
    assert digits.data.dataset.n > len(digits.data.rows) + len(digits.data.rows_t) == SMALL.max_rows
