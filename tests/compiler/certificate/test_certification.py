"""Certificates of every attention hold for what was compiled, and fall for what was broken."""

import json
import math

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer import errors
from tests.compiler.certificate.certified_tasks import FEATURES, build, draw, wrong

PAIRS = [
    ("linear", "cg"), ("linear", "pcg"), ("linear", "richardson"), ("linear", "neumann"), ("linear", "chebyshev"),
    ("softmax", "cg"), ("softmax", "richardson"), ("softmax", "neumann"), ("softmax", "chebyshev"),
    ("softmax", "nadaraya_watson"), ("vanilla", "richardson"), ("imitation", "cg"),
]  # fmt: skip

MAIN_HEAD = {"vanilla": "update memories", "imitation": "tilted head"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("attention", "algorithm"), PAIRS)
def test_every_route_and_solver_holds(attention, algorithm, dtype):
    X, y, Xq = draw()
    certificate = rf.certify(build(attention, algorithm, X, dtype=dtype), X, y, Xq)
    assert not wrong(certificate), str(certificate)
    assert all(math.isfinite(check.measured) for check in certificate.checks)
    assert {check.kind for check in certificate.checks} == {"proved", "expected", "observed"}


@pytest.mark.parametrize(("attention", "algorithm"), [pair for pair in PAIRS if pair[1] != "nadaraya_watson"])
def test_enough_steps_are_proved_accurate(attention, algorithm):
    X, y, Xq = draw(supports=8)
    certificate = rf.certify(build(attention, algorithm, X, ridge=100.0, steps=60), X, y, Xq)
    assert certificate.holds, str(certificate)
    assert certificate.verdict.startswith("Proved within ")


@pytest.mark.parametrize(("attention", "algorithm"), [pair for pair in PAIRS if pair[1] != "nadaraya_watson"])
def test_a_silenced_head_is_noticed(attention, algorithm):
    X, y, Xq = draw()
    model = build(attention, algorithm, X)
    with model.ablated(MAIN_HEAD.get(attention, "kernel product")) as broken:
        found = wrong(rf.certify(broken, X, y, Xq))
    assert "weights" in found
    assert len(found) > 1
    assert not wrong(rf.certify(model, X, y, Xq))


@pytest.mark.parametrize(("attention", "algorithm"), PAIRS)
def test_perturbed_weights_are_noticed(attention, algorithm):
    """The logits of one head, in the last step, by a thousandth: too little to see in a plot."""
    X, y, Xq = draw()
    model = build(attention, algorithm, X)
    model.steps[-1][0].W_Q[0].detach().mul_(1.001)
    found = wrong(rf.certify(model, X, y, Xq))
    assert "weights" in found
    assert len(found) > 1  # what it does is noticed as well, not only that it is another number


def test_weights_that_return_nan_hold_nothing():
    X, y, Xq = draw()
    for attention in ("linear", "softmax", "vanilla", "imitation"):
        model = build(attention, None, X)
        model.steps[0][0].W_V[0].detach().fill_(torch.nan)
        certificate = rf.certify(model, X, y, Xq)
        assert not certificate.holds
        assert not certificate["predictions"].holds
        assert certificate.within == math.inf
        assert certificate.verdict.startswith("Not shown to be accurate: no distance")
        assert "the weights are not those of the specification" in certificate.verdict


@pytest.mark.parametrize("attention", ["linear", "softmax", "vanilla", "imitation"])
def test_outputs_and_batches_are_judged_at_their_worst(attention):
    X, y, Xq = draw(outputs=3, tasks=2)
    model = build(attention, None, X, outputs=3)
    certificate = rf.certify(model, X, y, Xq)
    assert not wrong(certificate), str(certificate)
    assert certificate.proved.shape == certificate.predictions.shape == (2, 4, 3)
    curve = certificate.curves["error per step"]
    assert curve.axes == ("task", "step", "output")
    assert curve.measured.shape == curve.bound.shape == (2, 7, 3)
    assert certificate.exact.shape == (2, 4, 3)
    alone = rf.certify(model, X[1], y[1], Xq[1])
    np.testing.assert_allclose(alone.curves["error per step"].measured[0], curve.measured[1], rtol=1e-6, atol=1e-12)


def test_one_bad_task_spoils_the_batch():
    X, y, Xq = draw(tasks=2)
    model = build("linear", "chebyshev", X[0])  # its spectrum is the first task's
    assert not wrong(rf.certify(model, X[0], y[0], Xq[0]))
    certificate = rf.certify(model, torch.stack([X[0], 3 * X[1]]), y, Xq)
    assert wrong(certificate)
    assert "interval compiled in" in certificate["error per step"].condition


def test_errors_are_those_of_a_solve_of_ones_own():
    X, y, Xq = draw()
    model = build("softmax", "cg", X, temperature=0.7)
    K, k = (X @ X.T / 0.7).exp(), (Xq @ X.T / 0.7).exp()
    exact = k @ torch.linalg.solve(K + 0.5 * torch.eye(len(X), dtype=torch.float64), y)
    measured = rf.certify(model, X, y, Xq).curves["predictions"].measured[0]
    np.testing.assert_allclose(measured, (model(X, y, Xq) - exact).abs(), rtol=1e-6, atol=1e-12)


def test_the_projection_belongs_to_the_problem():
    X, y, Xq = draw()
    U = draw(supports=3, seed=1)[0]
    for width in (None, 12):
        model = build("linear", "cg", X, projection=U, width=width, sketch="gaussian", steps=30)
        certificate = rf.certify(model, X, y, Xq)
        assert not wrong(certificate), str(certificate)
        K, k = X @ U.T @ U @ X.T, Xq @ U.T @ U @ X.T
        exact = k @ torch.linalg.solve(K + 0.5 * torch.eye(len(X), dtype=torch.float64), y)
        np.testing.assert_allclose(certificate.exact[0], exact, rtol=1e-8)


def test_it_is_plain_json_and_readable():
    X, y, Xq = draw()
    certificate = rf.certify(build("softmax", "cg", X), X, y, Xq)
    record = json.loads(json.dumps(certificate.as_dict()))
    assert record["holds"] is certificate.holds
    assert {check["kind"] for check in record["checks"]} == {"proved", "expected", "observed"}
    assert record["curves"]["error per step"]["axes"] == ["task", "step", "output"]
    first, second, *_ = str(certificate).splitlines()
    assert first == certificate.verdict == record["verdict"]
    assert record["proved_within"] == certificate.within
    assert "softmax-attention conjugate gradients, 7 steps" in second


def test_bad_input_is_refused_as_the_model_refuses_it():
    X, y, Xq = draw()
    with pytest.raises(errors.ShapeError, match="compiled for"):
        rf.certify(build("softmax", "cg", X), X[:, : FEATURES - 1], y, Xq[:, : FEATURES - 1])


def test_stock_units_hold_and_crude_ones_do_not():
    X, y, Xq = draw()
    assert not wrong(rf.certify(build("softmax", "cg", X, primitives="swiglu"), X, y, Xq))
    crude = rf.certify(build("softmax", "cg", X, primitives="relu", relu_knots=8), X, y, Xq)
    assert not crude.holds
    assert not crude["inexactness"].holds
    assert not rf.certify(build("softmax", "richardson", X, primitives="relu"), X, y, Xq).holds


def test_data_beyond_the_range_of_the_units_are_said():
    X, y, Xq = draw()
    assert rf.certify(build("softmax", "cg", X, primitives="swiglu"), X, y, Xq)["operand range"].holds
    narrow = build("softmax", "cg", X, primitives="relu", relu_bound=0.1)
    assert not rf.certify(narrow, X, y, Xq)["operand range"].holds
    with pytest.raises(errors.InputError, match="wider reciprocal_range"):
        build("linear", "cg", X, primitives="swiglu", reciprocal_range=(1e-6, 1.0))(X, y, Xq)


@pytest.mark.parametrize("attention", ["linear", "softmax", "vanilla", "imitation"])
def test_zero_targets_are_certified(attention):
    X, y, Xq = draw()
    certificate = rf.certify(build(attention, None, X), X, 0 * y, Xq)
    assert certificate.holds, str(certificate)


def test_a_certificate_is_about_the_bits_a_user_gets():
    """Rounding differs between one task and a batch of one, and a converged imitation magnifies it."""
    X, _, Xq = draw(supports=5, features=1)
    model = build("imitation", None, X, ridge=1e-8, steps=40)
    certificate = rf.certify(model, X, torch.ones(5), Xq)
    measured = (model(X, torch.ones(5), Xq)[:, None] - torch.from_numpy(certificate.exact[0])).abs()
    np.testing.assert_array_equal(np.abs(certificate.predictions - certificate.exact)[0], measured.numpy())


def test_a_system_that_is_singular_to_rounding_has_a_certificate():
    X, y, Xq = draw(supports=5)
    X = X[:1].repeat(5, 1)
    certificate = rf.certify(build("softmax", "richardson", X, ridge=1e-17), X, y, Xq)
    assert not certificate["precision"].holds


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_targets_whose_squares_are_lost_are_refused(size):
    X, y, Xq = draw()
    with pytest.raises(errors.InputError, match="divide y by a constant"):
        rf.certify(build("vanilla", None, X), X, size * y, Xq)
