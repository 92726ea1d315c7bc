"""Widths below the features: every kind of sketch, both routes, under the corrected bounds."""

import numpy as np
import pytest
import torch
from certified_tasks import build, draw

import ridgeformer as rf
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.certificate.sketching import measure_sketch

SKETCHES = ("sketch, kernel", "sketch, resolvent", "sketch, in sample", "sketch, predictions")


def narrow(route, X, kept, sketch, **options):
    full = build(route, None, X)
    width = full.budget.overhead + kept
    return build(route, None, X, width=width, sketch=sketch, steps=20, **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sketch", ["pca", "gaussian", "orthogonal"])
@pytest.mark.parametrize("route", ["linear", "softmax", "imitation"])
def test_every_sketch_holds(route, sketch, dtype):
    X, y, Xq = draw(outputs=1)
    model = narrow(route, X, 3, sketch, reference=draw(seed=5)[0], dtype=dtype)
    certificate = rf.certify(model, X, y, Xq)
    assert certificate.holds, str(certificate)
    assert {check.name for check in certificate.checks} >= set(SKETCHES)
    assert certificate["sketch, predictions"].measured > 0


def test_a_model_that_keeps_all_features_has_no_sketch():
    X, y, Xq = draw()
    names = {check.name for check in rf.certify(build("linear", "cg", X), X, y, Xq).checks}
    assert not names & set(SKETCHES)


def test_the_supports_own_directions_get_the_sharper_bound():
    X, y, Xq = draw()
    own, other = (narrow("linear", X, 3, "pca", reference=rows) for rows in (X, draw(seed=5)[0]))
    sketches = [measure_sketch(gather(model, X, y, Xq)[0]) for model in (own, other)]
    assert [sketch.leading for sketch in sketches] == [True, False]
    assert sketches[0].predictions.max() < sketches[1].predictions.max()
    assert rf.certify(own, X, y, Xq).holds


def test_the_error_is_against_the_full_features():
    X, y, Xq = draw()
    model = narrow("linear", X, 2, "orthogonal")
    exact = Xq @ X.T @ torch.linalg.solve(X @ X.T + 0.5 * torch.eye(len(X), dtype=torch.float64), y)
    certificate = rf.certify(model, X, y, Xq)
    measured = certificate.curves["predictions"].measured[0]
    np.testing.assert_allclose(measured, (model(X, y, Xq) - exact).abs(), rtol=1e-8)
    assert measured.max() > 1e-3


def test_a_model_saved_and_loaded_knows_what_it_sketched(tmp_path):
    X, y, Xq = draw()
    model = narrow("softmax", X, 3, "gaussian")
    again = rf.load(model.save(tmp_path / "model"))
    assert rf.certify(again, X, y, Xq).as_dict() == rf.certify(model, X, y, Xq).as_dict()
