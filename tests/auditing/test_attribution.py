from dataclasses import replace

import torch

from ridgeformer.auditing.attribution import examine_attribution, hardest_row
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
