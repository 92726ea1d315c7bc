"""The residual's bound needs nothing but the residual: it covers even a network that was broken."""

import numpy as np
from certified_tasks import build, draw

import ridgeformer as rf


def test_it_covers_a_broken_network_and_says_how_bad_it_is():
    X, y, Xq = draw()
    model = build("softmax", "cg", X, steps=40)
    sound = rf.certify(model, X, y, Xq).curves["residual, predictions"]
    with model.ablated("mean"):
        broken = rf.certify(model, X, y, Xq).curves["residual, predictions"]
    assert (broken.measured <= broken.bound).all()
    assert broken.bound.max() > 1e6 * sound.bound.max()
    assert sound.bound.max() < 1e-8


def test_it_needs_no_rate():
    X, y, Xq = draw()
    certificate = rf.certify(build("linear", "richardson", X, step_size=3.0), X, y, Xq)
    assert certificate["residual, coefficients"].holds
    assert np.isfinite(certificate["residual, coefficients"].bound)
