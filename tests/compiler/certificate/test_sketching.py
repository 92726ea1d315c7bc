"""Widths below the features: every kind of sketch, both routes, under the corrected bounds."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.certificate.sketching import measure_sketch
from tests.compiler.certificate.certified_tasks import build, draw, wrong


def narrow(attention, X, kept, sketch, **options):
    full = build(attention, None, X)
    width = full.budget.overhead + kept
    return build(attention, None, X, width=width, sketch=sketch, steps=20, **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sketch", ["pca", "gaussian", "orthogonal"])
@pytest.mark.parametrize("attention", ["linear", "softmax", "imitation"])
def test_every_sketch_holds(attention, sketch, dtype):
    X, y, Xq = draw(outputs=1)
    model = narrow(attention, X, 3, sketch, reference=draw(seed=5)[0], dtype=dtype)
    certificate = rf.certify(model, X, y, Xq)
    assert not wrong(certificate), str(certificate)
    assert "plus that of the sketch" in certificate["predictions"].condition
    (evidence,) = gather(model, X, y, Xq)
    moved = (evidence.true.f - evidence.problem.f).abs().numpy()
    assert moved.max() > 0
    assert (moved <= measure_sketch(evidence).predictions).all()


def test_the_proved_distance_includes_the_sketch_and_the_advice_names_it():
    X, y, Xq = draw()
    certificate = rf.certify(narrow("linear", X, 2, "orthogonal"), X, y, Xq)
    exact = Xq @ X.T @ torch.linalg.solve(X @ X.T + 0.5 * torch.eye(len(X), dtype=torch.float64), y)
    lost = np.abs(certificate.predictions[0] - exact.numpy()).max() / exact.abs().max()
    assert certificate.within == pytest.approx(float(lost), rel=1e-6)
    assert "its sketch of 5 features to 2 alone costs" in certificate.verdict


def test_a_model_that_keeps_all_features_has_no_sketch():
    X, y, Xq = draw()
    assert "sketch" not in rf.certify(build("linear", "cg", X), X, y, Xq)["predictions"].condition


def test_the_supports_own_directions_get_the_sharper_bound():
    X, y, Xq = draw()
    own, other = (narrow("linear", X, 3, "pca", reference=rows) for rows in (X, draw(seed=5)[0]))
    sketches = [measure_sketch(gather(model, X, y, Xq)[0]) for model in (own, other)]
    assert [sketch.leading for sketch in sketches] == [True, False]
    assert sketches[0].predictions.max() < sketches[1].predictions.max()
    assert not wrong(rf.certify(own, X, y, Xq))


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
    again = rf.load_model(model.save(tmp_path / "model"))
    assert rf.certify(again, X, y, Xq).as_dict() == rf.certify(model, X, y, Xq).as_dict()
