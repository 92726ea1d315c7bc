"""What is proved holds whatever the weights are, and follows from the specification alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.certificate import accuracy
from ridgeformer.compiler.certificate.accuracy import prove
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.core.errors import InputError
from tests.compiler.certificate.certified_tasks import build, draw, wrong


def exact(X, y, Xq, ridge, temperature=1.0):
    K, k = (X @ X.T / temperature).exp(), (Xq @ X.T / temperature).exp()
    return (k @ torch.linalg.solve(K + ridge * torch.eye(len(X), dtype=torch.float64), y)).numpy()


def test_an_inaccurate_run_is_not_called_certified():
    """Every check of a run of two steps holds, at a relative error far above one."""
    X, y, Xq = draw(supports=40, size=1.5)
    model = build("softmax", "cg", X, ridge=1e-3, steps=2, temperature=4.0)
    certificate = rf.certify(model, X, y, Xq)
    truth = exact(X, y, Xq, 1e-3, 4.0)
    error = np.abs(certificate.predictions[0] - truth).max() / np.abs(truth).max()
    assert error > 0.3
    assert not wrong(certificate)
    assert not certificate.holds
    assert not certificate.accurate
    assert certificate.within >= error
    assert certificate.verdict.startswith("Not shown to be accurate: proved only within ")
    assert "more steps" in certificate.verdict


def test_the_problem_comes_from_the_specification():
    """With one weight of the embedding gone, the network solves another problem, and solves it well."""
    X, y, Xq = draw(supports=12)
    model = build("softmax", "cg", X, steps=40)
    model.embed.support.detach()[0, 0] = 0.0
    certificate = rf.certify(model, X, y, Xq)
    truth = exact(X, y, Xq, 0.5)
    error = np.abs(certificate.predictions[0] - truth).max() / np.abs(truth).max()
    assert error > 0.01
    assert certificate.within >= error
    assert not certificate.holds
    assert {"weights", "predictions", "coefficients"} <= set(wrong(certificate))
    np.testing.assert_allclose(certificate.exact[0], truth, rtol=1e-9)


@pytest.mark.parametrize("attention", ["linear", "softmax", "vanilla", "imitation"])
def test_the_bound_covers_a_broken_network_and_says_how_bad_it_is(attention):
    X, y, Xq = draw()
    model = build(attention, None, X, steps=60, ridge=20.0)
    sound = rf.certify(model, X, y, Xq)
    model.steps[0][0].W_Q[0].detach().mul_(2.0)
    broken = rf.certify(model, X, y, Xq)
    assert (np.abs(broken.predictions - sound.exact) <= broken.proved * (1 + 1e-9)).all()
    assert broken.within > 2 * sound.within


def test_the_networks_own_coefficients_are_a_proof_as_well(monkeypatch):
    """Where the direct solve proves nothing near, the residual of the stream's alpha still does."""
    X, y, Xq = draw(supports=10)
    (evidence,) = gather(build("softmax", "cg", X, steps=8, temperature=2.0), X, y, Xq)
    by_solve = prove(evidence)

    def useless(*arguments, **options):
        fit = solve(*arguments, **options)
        return replace(fit, residual_norm=fit.residual_norm + 1e6)

    solve = accuracy.solve
    monkeypatch.setattr(accuracy, "solve", useless)
    by_residual = prove(evidence)
    assert "direct float64 solve" in by_solve.how
    assert "own coefficients" in by_residual.how
    assert by_solve.bound.max() < by_residual.bound.max() < 1.0
    assert (np.abs(evidence.predictions.numpy() - by_solve.exact) <= by_residual.bound).all()


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("softmax", {"ridge": 1e-2}),
        ("linear", {"ridge": 1e-2}),
        ("linear", {"algorithm": "richardson", "ridge": 3.0}),
        ("linear", {"algorithm": "chebyshev", "ridge": 0.5}),
        ("vanilla", {"ridge": 8.0}),
        ("imitation", {"ridge": 0.5}),
    ],
)
def test_the_advised_number_of_steps_is_enough_and_one_less_is_not(attention, options):
    X, y, Xq = draw(supports=12)
    algorithm, ridge = options.get("algorithm"), options["ridge"]
    few = rf.certify(build(attention, algorithm, X, ridge=ridge, steps=1), X, y, Xq)
    more = int(few.advice.removeprefix("run ").split()[0].replace(",", ""))
    assert more > 1
    assert rf.certify(build(attention, algorithm, X, ridge=ridge, steps=1 + more), X, y, Xq).accurate
    assert not rf.certify(build(attention, algorithm, X, ridge=ridge, steps=more), X, y, Xq).accurate


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention": "softmax", "algorithm": "nadaraya_watson"}, "one softmax head averages the targets"),
        ({"attention": "softmax", "algorithm": "cg", "steps": 30, "primitives": "relu", "relu_knots": 8}, "ReLU units"),
        ({"attention": "softmax", "algorithm": "richardson", "ridge": 1e-6}, "2,000 steps would not be enough"),
        ({"attention": "imitation", "algorithm": "cg", "steps": 30, "epsilon": 0.5}, "its tilt (epsilon 0.5)"),
    ],
)
def test_where_steps_do_not_help_the_reason_is_said(options, words):
    X, y, Xq = draw()
    certificate = rf.certify(build(options.pop("attention"), options.pop("algorithm"), X, **options), X, y, Xq)
    assert not certificate.accurate
    assert words in certificate.verdict


def test_float32_rounding_is_named():
    X, y, Xq = draw(size=1.0)
    certificate = rf.certify(
        build("softmax", "cg", X, ridge=1e-5, dtype="float32", steps=200), X, y, Xq, tolerance=1e-7
    )
    assert not certificate.accurate
    assert "float32" in certificate.verdict or "would not be enough" in certificate.verdict


def test_the_tolerance_decides():
    X, y, Xq = draw()
    model = build("softmax", "cg", X, steps=9)
    within = rf.certify(model, X, y, Xq).within
    assert 0 < within < 1
    assert rf.certify(model, X, y, Xq, tolerance=1.01 * within).accurate
    assert not rf.certify(model, X, y, Xq, tolerance=0.99 * within).accurate
    with pytest.raises(InputError, match="tolerance"):
        rf.certify(model, X, y, Xq, tolerance=0.0)


def test_it_is_relative_to_the_largest_exact_prediction_of_each_output():
    X, y, Xq = draw(outputs=2)
    y[:, 1] *= 1e6
    model = build("softmax", "cg", X, outputs=2, steps=5)
    certificate = rf.certify(model, X, y, Xq)
    error = np.abs(certificate.predictions - certificate.exact)[0].max(0) / np.abs(certificate.exact)[0].max(0)
    np.testing.assert_allclose(certificate.curves["accuracy"].measured[0], error, rtol=1e-6)
    assert certificate.within == certificate.curves["accuracy"].measured.max()


def test_a_problem_float64_cannot_pose_proves_nothing():
    X, y, Xq = draw(supports=5)
    (evidence,) = gather(build("linear", "cg", X), X, y, Xq)
    proof = prove(replace(evidence, rows=1e200 * evidence.rows))
    assert proof.bound.min() == math.inf
    assert proof.relative.min() == math.inf
