"""The rates hold because of their numbers: with wrong ones they fail."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer import bounds
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.certificate.expected import (
    diagonal,
    measure_sketch,
    preconditioned_spectrum,
    promise_rate,
    promise_vanilla,
)
from tests.compiler.certificate.certified_tasks import build, draw, wrong


def test_the_curve_is_the_classical_bound_plus_the_floor():
    X, y, Xq = draw()
    certificate = rf.certify(build("linear", "cg", X), X, y, Xq)
    values = torch.linalg.eigvalsh(X @ X.T).clamp_min(0) + 0.5
    kappa = float(values[-1] / values[0])
    expected = [bounds.cg_error_factor(kappa, t) + float(certificate.floor[0]) for t in range(1, 8)]
    np.testing.assert_allclose(certificate.curves["error per step"].bound[0, :, 0], expected, rtol=1e-9)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_gradient_descent_is_judged_by_the_step_it_took(attention):
    X, y, Xq = draw()
    (evidence,) = gather(build(attention, "richardson", X), X, y, Xq)
    high = float(evidence.problem.eigenvalues[-1])
    assert 0 < evidence.eta < 2 / high
    assert promise_rate(evidence).met
    assert not promise_rate(replace(evidence, eta=2.1 / high)).met
    faster = promise_rate(replace(evidence, eta=1.5 / high))
    assert not bool((faster.measured <= faster.bound).all())


def test_a_step_size_that_diverges_is_said():
    X, y, Xq = draw()
    certificate = rf.certify(build("linear", "richardson", X, step_size=3.0), X, y, Xq)
    assert not certificate.holds
    assert "2/(largest eigenvalue)" in certificate["error per step"].condition


def test_jacobi_has_its_own_condition_number():
    A = torch.diag(torch.tensor([1.0, 100.0, 1e4], dtype=torch.float64))
    assert preconditioned_spectrum(A, 1.0) == pytest.approx((1.0, 1.0))


def test_a_preconditioned_eigenvalue_that_rounds_to_zero_is_at_least_the_ridge_over_the_diagonal():
    A = 1e8 * torch.ones(2, 2, dtype=torch.float64)  # 1e-14 I is lost in it
    low, high = preconditioned_spectrum(A, 1e-14)
    assert low >= 1e-22
    assert high == pytest.approx(2.0)


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_a_query_far_from_every_support_has_a_kernel_weighted_mean(kernel):
    X, y, Xq = draw(supports=3, queries=1)
    model = build("softmax", "nadaraya_watson", X, kernel=kernel, temperature=0.01 if kernel == "gaussian" else 1.0)
    certificate = rf.certify(model, X, y, Xq + 2.0)
    assert certificate["kernel-weighted mean"].holds


def test_rows_whose_kernel_entries_have_no_squares_are_refused():
    X, y, Xq = draw(supports=3)
    for size in (1e90, 1e160):
        with pytest.raises(rf.errors.InputError, match="hold their squares"):
            rf.certify(build("linear", "richardson", X), size * X, y, Xq)


def test_the_vanilla_iteration_contracts_in_the_d_norm_as_derived():
    X, y, Xq = draw()
    (evidence,) = gather(build("vanilla", None, X, sink=0.3, steps=40), X, y, Xq)
    D, A = diagonal(evidence), evidence.problem.A
    symmetric = torch.eye(len(D), dtype=torch.float64) - A / (D[:, None] * D).sqrt()
    values = torch.linalg.eigvalsh(symmetric)
    rate = 1 - 0.5 / float(D.max())
    assert float(values[0]) >= -1e-12
    assert float(values[-1]) <= rate + 1e-12
    promise = promise_vanilla(evidence)
    np.testing.assert_allclose(promise.bound[-1, 0], rate**40 + evidence.floor, rtol=1e-12)
    assert promise.met


def test_a_query_far_from_every_support_still_converges():
    """Z_x + e^c below one half: the slot's own step is e^c / (Z_x + e^c), never above 1."""
    X, y, Xq = draw(supports=1)
    X, Xq = torch.full_like(X, 1.0), torch.full_like(Xq, -1.0)
    model = build("vanilla", None, X, ridge=0.05, steps=60)
    (evidence,) = gather(model, X, y, Xq)
    assert bool((evidence.problem.cross.sum(1) + 0.05 < 0.5).all())
    assert rf.certify(model, X, y, Xq)["predictions"].holds


def test_zero_targets_are_solved_exactly():
    X, y, Xq = draw(outputs=2)
    y[:, 1] = 0
    for attention in ("linear", "softmax", "vanilla", "imitation"):
        certificate = rf.certify(build(attention, None, X, outputs=2), X, y, Xq)
        assert not wrong(certificate), str(certificate)
        assert certificate.curves["accuracy"].measured[0, 1] == 0.0


def test_a_condition_number_float32_cannot_hold_is_said():
    X, y, Xq = draw(size=1.0)
    certificate = rf.certify(build("softmax", "cg", X, ridge=1e-6, dtype="float32"), X, y, Xq)
    assert not certificate["precision"].holds
    assert certificate.floor[0] > 1


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_one_support_attains_chebyshevs_bound_and_rounding_is_allowed_for(attention):
    """The system has condition number 1, and roundings pile up with that of the ends compiled in."""
    for seed in range(5):
        X, y, Xq = draw(supports=1, queries=2, features=3, seed=seed, size=0.7)
        K = float(X @ X.T) if attention == "linear" else float((X @ X.T).exp())
        model = build(attention, "chebyshev", X, ridge=0.1, steps=20, spectrum=(0.1, 0.1 + K))
        certificate = rf.certify(model, X, y, Xq)
        assert not wrong(certificate), str(certificate)
        worst = np.max(certificate.curves["error per step"].measured / certificate.curves["error per step"].bound)
        assert worst > 0.999  # the bound is attained: without the model of rounding it would be exceeded


def test_small_targets_make_a_preconditioned_float32_network_idle_early_and_that_is_allowed_for():
    """r'z is r^2 over the ridge: it falls below what a guarded reciprocal divides by before rounding is reached."""
    X, y, Xq = draw(supports=40, features=4)
    model = build("linear", "pcg", X, ridge=1e6, steps=16, dtype="float32")
    certificate = rf.certify(model, X, 1e-11 * y, Xq)
    assert not wrong(certificate), str(certificate)
    assert certificate["error per step"].measured > 1e-6  # rounding alone leaves 5e-7
    assert not wrong(rf.certify(model, X, y, Xq))


def test_conjugate_gradients_that_have_converged_stay_there():
    """The second step leaves 1e-17 of a residual of 2; before, its direction was lost, and later steps ended in NaN."""
    rows = [0.2587524863818271, -0.01748457330885583], [-0.7160309617409129, -0.11920394406306269]
    X, Xq = (torch.tensor(part, dtype=torch.float64)[:, None] for part in rows)
    y = torch.tensor(
        [[-0.5280698470083, -0.07185583729598313], [0.6712817187425695, 1.6569018424569641]], dtype=torch.float64
    )
    model = build("linear", "pcg", X, ridge=0.006841578852546629, steps=30, outputs=2)
    certificate = rf.certify(model, X, y, Xq)
    assert np.isfinite(certificate.predictions).all()
    assert certificate.accurate
    assert not [check.name for check in certificate.failed if check.kind == "expected"]


@pytest.mark.parametrize(("attention", "algorithm"), [("linear", "cg"), ("softmax", "cg")])
def test_a_search_direction_is_rounded_at_its_own_size(attention, algorithm):
    """p = r + beta p: overwriting the old direction by subtraction left eps times its size behind."""
    for seed in range(12):
        X, y, Xq = draw(supports=2, queries=1, features=1, seed=seed, size=0.2)
        (evidence,) = gather(build(attention, algorithm, X, ridge=0.007, steps=8), X, y, Xq)
        r, p, rho = (evidence.values[name] for name in ("r", "p", "rho"))
        expected = r[1:] + rho[1:] / rho[:-1].where(rho[:-1] > 0, 1.0) * p[:-1]
        assert bool(((p[1:] - expected).norm(dim=1) <= 1e-14 * (r[1:].norm(dim=1) + expected.norm(dim=1))).all()), seed


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
