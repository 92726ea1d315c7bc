import json
from dataclasses import replace

import torch

from ridgeformer import datasets
from ridgeformer.auditing import audit
from ridgeformer.auditing.run import STAGES, examine_attribution, hardest_row
from tests.auditing.small_audits import SMALL, small_audit


def test_the_row_asked_about_is_held_out_and_the_hardest():
    audit = small_audit("wine")
    outputs = audit.certified.solution.predict(audit.data.Xt) + audit.data.mean
    lead = []
    for row, own in zip(outputs, audit.data.labels_t.tolist(), strict=True):
        others = torch.cat([row[:own], row[own + 1 :]])
        lead.append(float(row[own] - others.max()))
    assert audit.attribution.row == audit.data.rows_t[lead.index(min(lead))]
    assert audit.attribution.row not in audit.data.rows


def test_the_largest_error_for_regression():
    audit = small_audit("diabetes")
    error = (audit.certified.solution.predict(audit.data.Xt) - audit.data.yt).abs().flatten()
    assert audit.attribution.row == audit.data.rows_t[int(error.argmax())]


def test_rows_of_a_class_never_trained_on_are_passed_over():
    audit = small_audit("wine")
    kept = audit.data.labels != 0
    data = replace(audit.data, labels=audit.data.labels[kept])
    outputs = torch.zeros_like(audit.data.yt)
    outputs[:, 0] = -5.0  # the missing class is the hardest
    assert int(data.labels_t[hardest_row(data, outputs)]) != 0


def test_it_is_asked_of_the_dataset_as_given():
    audit = small_audit("digits")
    again = examine_attribution(audit.data.dataset, audit.data, audit.certified, SMALL)
    assert again.truth == audit.data.dataset.classes[audit.data.dataset.y[again.row]]


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
    assert len(record["answer"]) == 5
    assert len(record["regime"]["answers"]) == 2 * len(SMALL.regime_widths) * SMALL.repeats
    assert len(record["influence"]["helpful"]) == SMALL.points
    assert record["malleability"]["moved"] == 3
    assert {row["claim"] for row in record["claims"]["rows"]} >= {"W4", "B2"}


def test_the_dataset_as_given_is_kept():
    digits = small_audit("digits")
    assert digits.data.dataset.n > len(digits.data.rows) + len(digits.data.rows_t) == SMALL.max_rows
