"""The oracle is a real refit with one entry of X moved by an imaginary 1e-30: its imaginary part is the derivative."""

import math

import numpy as np
import pytest
import torch

from ridgeformer import errors
from ridgeformer.algorithms import Centres, ConjugateGradients
from ridgeformer.influence import (
    AttentionFeatures,
    RawFeatures,
    adversarial_rows,
    cross_entropy,
    feature_change,
    influence,
    intervene,
    label_change,
    leave_group_out,
    leave_one_out,
    malleability,
    oracle,
    smallest_flipping_eps,
    squared_loss,
)
from ridgeformer.influence.attacks import FGSM
from ridgeformer.influence.exact import check_measure, score
from ridgeformer.kernels import DotProduct, Exponential, ReluNTK
from ridgeformer.solving import solve
from ridgeformer.solving.ridge_path import leave_one_out_path
from tests.influence.influence_case import KERNELS, assert_equal, draw, fit, problem, refit, without


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_leave_one_out_equals_real_refits(name, classes, ridge):
    X, y, Xq = problem(classes=classes)
    kernel = KERNELS[name](X)
    full = refit(kernel, X, y, Xq, ridge)
    expected = torch.stack([full - refit(kernel, X, y, Xq, ridge, without(len(X), i)) for i in range(len(X))])
    assert_equal(leave_one_out(fit(kernel, X, y, ridge), Xq), expected)


@pytest.mark.parametrize("name", KERNELS)
def test_self_influence_and_leave_one_out_residual_equal_real_refits(name):
    X, y, Xq = problem()
    kernel, n = KERNELS[name](X), len(X)
    found = influence(fit(kernel, X, y, 0.3), Xq)
    alone = torch.cat([refit(kernel, X, y, X[i : i + 1], 0.3, without(n, i)) for i in range(n)])
    assert_equal(found.residual, y - alone)
    assert_equal(found.self_influence, refit(kernel, X, y, X, 0.3) - alone)
    assert_equal(found.residual[:, None], leave_one_out_path(kernel(X), y[:, None], [0.3])[0])


def test_leverage_is_the_derivative_of_the_own_prediction_in_the_own_label():
    X, y, Xq = problem()
    kernel = Exponential(2.0)
    nudged = [y + torch.eye(len(y), dtype=torch.float64)[i] for i in range(len(y))]
    change = torch.stack(
        [(refit(kernel, X, new, X, 0.3) - refit(kernel, X, y, X, 0.3))[i] for i, new in enumerate(nudged)]
    )
    assert_equal(influence(fit(kernel, X, y, 0.3), Xq).leverage, change)


def test_infinitesimal_influence_is_the_derivative_in_a_points_weight():
    """The fit that minimises sum_j w_j (y_j - f_j)^2 + ridge |f|^2 has ridge / w_j on the diagonal."""
    X, y, Xq = problem()
    kernel, ridge = Exponential(2.0), 0.3
    K, cross = kernel(X), kernel(Xq, X)

    def predict(weights):
        return cross @ torch.linalg.solve(K + torch.diag(ridge / weights), y)

    jacobian = torch.autograd.functional.jacobian(predict, torch.ones(len(X), dtype=torch.float64))
    found = influence(fit(kernel, X, y, ridge), Xq)
    assert_equal(found.infinitesimal, jacobian.T)
    assert_equal(found.leave_one_out, found.infinitesimal / (1 - found.leverage)[:, None])


def test_large_logits_are_rescaled_and_change_nothing():
    X, y, Xq = problem()
    X, Xq = 8 * torch.nn.functional.normalize(X), 8 * torch.nn.functional.normalize(Xq)
    hot = Exponential(temperature=0.15)
    scaled = Exponential(temperature=0.15, log_scale=64 / 0.15)
    ridge = 1e180
    expected = leave_one_out(fit(scaled, X, y, ridge * math.exp(-64 / 0.15)), Xq)
    assert fit(hot, X, y, ridge).log_scale > 0
    assert_equal(leave_one_out(fit(hot, X, y, ridge), Xq), expected, 1e-9)


def test_float32_in_float32_out():
    X, y, Xq = problem()
    found = leave_one_out(fit(Exponential(2.0), X.float(), y, 0.3), Xq)
    assert found.dtype == torch.float32
    assert_equal(found.double(), leave_one_out(fit(Exponential(2.0), X, y, 0.3), Xq), 1e-4)


def test_a_singular_system_is_refused():
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match=r"singular.*raise the ridge"):
        leave_one_out(fit(DotProduct(), X, y, 1e-18), Xq)


LENSES = {
    "influence": influence,
    "leave_one_out": leave_one_out,
    "leave_group_out": lambda fit, Xq: leave_group_out(fit, Xq, [0]),
    "label_change": lambda fit, Xq: label_change(fit, Xq, -fit.y),
    "feature_change": feature_change,
    "smallest_flipping_eps": lambda fit, Xq: smallest_flipping_eps(fit, Xq, FGSM(0.1), index=0),
    "malleability": lambda fit, Xq: malleability(fit, Xq, Xq[:, 0], FGSM(0.1), measure="output"),
    "adversarial_rows": lambda fit, Xq: adversarial_rows(fit, Xq, FGSM(0.1)),
    "intervene": lambda fit, Xq: intervene(fit, Xq, Xq[:, 0].sign(), FGSM(0.1)),
    "subset_predictions": lambda fit, Xq: oracle.subset_predictions(fit, Xq, torch.eye(18) == 0),
    "removal_effects": lambda fit, Xq: oracle.removal_effects(fit, Xq, torch.arange(18)[:, None].repeat(1, 5), (1,)),
    "largest_group": lambda fit, Xq: oracle.largest_group(fit, Xq[0], 2),
}


ON_CENTRES = ("influence", "leave_one_out", "leave_group_out", "label_change")
"""Lenses that are exact for a fit on centres too; tests/solving/test_centre_features.py compares them with refits."""


@pytest.mark.parametrize("lens", LENSES)
def test_a_fit_that_is_not_exact_is_refused_and_the_same_fit_solved_directly_is_not(lens):
    X, y, Xq = problem()
    rough = solve(Exponential(2.0), X, y.sign(), 0.3, algorithm=ConjugateGradients(steps=1))
    with pytest.raises(errors.InputError, match="needs the exact fit of all rows: solve with algorithm='direct'"):
        LENSES[lens](rough, Xq)
    LENSES[lens](fit(Exponential(2.0), X, y.sign(), 0.3), Xq)


@pytest.mark.parametrize("lens", [lens for lens in LENSES if lens not in ON_CENTRES])
def test_lenses_that_move_rows_or_take_many_away_refuse_a_fit_on_centres(lens):
    X, y, Xq = problem()
    on_centres = solve(Exponential(2.0), X, y.sign(), 0.3, algorithm=Centres(count=6))
    with pytest.raises(errors.InputError, match="needs the exact fit of all rows"):
        LENSES[lens](on_centres, Xq)


def test_features_are_those_the_fit_was_made_of():
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match="not one of these features of X"):
        feature_change(fit(Exponential(2.0), X, y, 0.3), Xq, X=X, features=AttentionFeatures())
    with pytest.raises(errors.InputError, match="give X as well"):
        feature_change(fit(Exponential(2.0), AttentionFeatures()(X, Xq)[0], y, 0.3), Xq, features=AttentionFeatures())


def test_a_query_of_another_width_is_refused():
    X, y, _ = problem()
    with pytest.raises(errors.ShapeError, match="Xq has 2 features"):
        leave_one_out(fit(DotProduct(), X, y, 1.0), X[:, :2])


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("group", [[4], [0, 3, 7, 17], list(range(1, 18))])
def test_equals_a_real_refit(name, classes, group):
    X, y, Xq = problem(classes=classes)
    kernel = KERNELS[name](X)
    expected = refit(kernel, X, y, Xq, 0.3) - refit(kernel, X, y, Xq, 0.3, without(18, *group))
    assert_equal(leave_group_out(fit(kernel, X, y, 0.3), Xq, group), expected)


def test_a_group_of_duplicates_is_more_than_the_sum_of_its_points():
    X, y, Xq = problem()
    X[1], y[1] = X[0], y[0]
    kernel = KERNELS["exponential"](X)
    alone = leave_one_out(fit(kernel, X, y, 0.01), Xq)[:2].sum(0)
    together = leave_group_out(fit(kernel, X, y, 0.01), Xq, [0, 1])
    assert bool((together.abs() > 1.5 * alone.abs()).all())


@pytest.mark.parametrize(
    ("group", "words"),
    [([18], "row 18 is out of range"), ([-1], "row -1"), ([1, 1], "twice"), ([], "at least one"), ([0.5], "row number"),
     (list(range(18)), "all 18 rows")],
)  # fmt: skip
def test_bad_groups(group, words):
    X, y, Xq = problem()
    fitted = fit(KERNELS["exponential"](X), X, y, 0.3)
    with pytest.raises(errors.InputError, match=words):
        leave_group_out(fitted, Xq, group)


def test_a_tensor_of_rows_is_a_group():
    X, y, Xq = problem()
    kernel = KERNELS["exponential"](X)
    fitted = fit(kernel, X, y, 0.3)
    assert_equal(leave_group_out(fitted, Xq, torch.tensor([1, 2])), leave_group_out(fitted, Xq, [2, 1]))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("classes", [0, 3])
def test_equals_real_refits_one_label_and_many(name, classes):
    X, y, Xq = problem(classes=classes)
    kernel = KERNELS[name](X)
    new = -y if classes else draw(18, purpose="labels")
    before = refit(kernel, X, y, Xq, 0.3)
    rows = []
    for i in range(18):
        changed = y.clone()
        changed[i] = new[i]
        rows.append(refit(kernel, X, changed, Xq, 0.3) - before)
    found = label_change(fit(kernel, X, y, 0.3), Xq, new)
    assert_equal(found, torch.stack(rows))
    assert_equal(found.sum(0), refit(kernel, X, new, Xq, 0.3) - before)


def test_labels_of_another_shape_are_refused():
    X, y, Xq = problem()
    with pytest.raises(errors.ShapeError, match="give the same shape"):
        label_change(fit(KERNELS["exponential"](X), X, y, 0.3), Xq, y[:, None])


STEP = 1e-30


def dot(X, Z):
    return X @ Z.T


def exponential(X, Z):
    return np.exp(X @ Z.T / 2.0)


def relu_ntk(X, Z):
    dots = X @ Z.T
    lengths = np.sqrt((X**2).sum(1))[:, None] * np.sqrt((Z**2).sum(1))[None, :]
    same = np.abs(dots.real - lengths.real) < 1e-12 * lengths.real
    return dots * (np.pi - np.where(same, 0, np.arccos(np.where(same, 0, dots / lengths)))) / (2 * np.pi)


def attention(X, Xq, normalise):
    C = X.T @ X
    pair = X @ C, Xq @ C
    return [F / np.sqrt((F**2).sum(1, keepdims=True)) if normalise else F for F in pair]


SMOOTH = {"dot": (DotProduct(), dot), "exponential": (Exponential(2.0), exponential), "relu": (ReluNTK(), relu_ntk)}
FEATURES = {
    "raw": (RawFeatures(), lambda X, Xq: (X, Xq)),
    "attention": (AttentionFeatures(normalise=False), lambda X, Xq: attention(X, Xq, False)),
    "normalised": (AttentionFeatures(), lambda X, Xq: attention(X, Xq, True)),
}


@pytest.mark.parametrize("kernel", SMOOTH)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("classes", [0, 2])
def test_equals_refits_by_a_complex_step(kernel, features, classes):
    X, y, Xq = problem(n=7, d=3, q=2, classes=classes)
    X, Xq = X / 2, Xq / 2
    (ours, k), (seen, map_) = SMOOTH[kernel], FEATURES[features]

    def refit(X):
        rows, queries = map_(X, Xq.numpy())
        return k(queries, rows) @ np.linalg.solve(k(rows, rows) + 0.3 * np.eye(len(X)), y.numpy())

    expected = np.empty((2, classes or 1, *X.shape))
    for i, j in np.ndindex(*X.shape):
        moved = X.numpy().astype(complex)
        moved[i, j] += STEP * 1j
        expected[:, :, i, j] = refit(moved).imag.reshape(2, -1) / STEP
    found = feature_change(fit(ours, seen(X, Xq)[0], y, 0.3), Xq, features=seen, X=X)
    assert_equal(found, torch.from_numpy(expected))


def test_a_fixed_context_gives_another_gradient_and_the_same_value():
    X, y, Xq = problem()
    moving, fixed = AttentionFeatures(), AttentionFeatures(moving_context=False)
    torch.testing.assert_close(moving(X, Xq), fixed(X, Xq))
    gradients = [
        feature_change(fit(Exponential(1.0), f(X, Xq)[0], y, 0.3), Xq, features=f, X=X) for f in (moving, fixed)
    ]
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) > 0.1


def test_the_largest_first_order_effect_is_reached_by_a_real_refit():
    X, y, Xq = problem()
    kernel, eps = Exponential(2.0), 1e-6
    gradient = feature_change(fit(kernel, X, y, 0.3), Xq[:1])[0, 0]
    moved = X.clone()
    moved[4] += eps * gradient[4].sign()

    def predict(X):
        A = kernel(X) + 0.3 * torch.eye(len(X), dtype=torch.float64)
        return kernel(Xq[:1], X) @ torch.linalg.solve(A, y)

    assert_equal((predict(moved) - predict(X)) / eps, gradient[4].abs().sum()[None], 1e-4)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("classes", "loss"), [(0, squared_loss), (3, squared_loss), (3, cross_entropy)])
def test_loss_influence_equals_real_refits(name, classes, loss):
    X, y, Xq = problem(classes=classes)
    kernel, n, yq = KERNELS[name](X), len(X), y[:5].flip(0)
    columns = yq.reshape(5, -1)

    def losses(keep=None):
        return loss(refit(kernel, X, y, Xq, 0.3, keep).reshape(5, -1), columns)

    expected = torch.stack([losses(without(n, i)) - losses() for i in range(n)])
    assert_equal(influence(fit(kernel, X, y, 0.3), Xq).loss_influence(loss, yq), expected)


def test_errors_of_the_arrays_bound_the_error_of_leave_one_out():
    """Moved arrays, with errors as large as the moves, cover the exact influence in every corner."""
    X, y, Xq = problem(classes=3)
    exact = influence(fit(KERNELS["exponential"](X), X, y, 0.3), Xq)
    sharpest = 0.0
    for signs in torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3):
        moved = type(exact)(
            exact.alpha * (1 + 0.1 * signs[0]),
            exact.weights * (1 + 0.2 * signs[1]),
            exact.diagonal * (1 + 0.05 * signs[2]),
            exact.predictions,
            exact.ridge,
            alpha_error=0.1001 * exact.alpha.abs(),
            weights_error=0.2001 * exact.weights.abs(),
            diagonal_error=0.0501 * exact.diagonal,
        )
        gap = (moved.leave_one_out - exact.leave_one_out).abs()
        assert bool((gap <= moved.leave_one_out_error).all())
        sharpest = max(sharpest, float((gap / moved.leave_one_out_error).max()))
    assert sharpest > 0.8
    assert float(exact.leave_one_out_error.max()) == 0


def test_squared_loss_sums_over_outputs():
    f, y = draw(4, 3, purpose="f"), draw(4, 3, purpose="y")
    torch.testing.assert_close(squared_loss(f, y), ((f - y) ** 2).sum(1) / 2)


def test_cross_entropy_is_torchs_for_the_coded_class():
    f, labels = draw(6, 4, purpose="f"), torch.tensor([0, 3, 1, 1, 2, 0])
    coded = 2 * torch.nn.functional.one_hot(labels, 4).double() - 1
    expected = torch.nn.functional.cross_entropy(f, labels, reduction="none")
    torch.testing.assert_close(cross_entropy(f, coded), expected)


def test_the_true_class_is_the_column_of_the_largest_target():
    X, y, Xq = problem(classes=3)
    found, yq = influence(fit(Exponential(2.0), X, y, 0.3), Xq), y[:5]
    table = score(found, yq, "true_class")
    for q in range(5):
        torch.testing.assert_close(table[:, q], found.leave_one_out[:, q, int(yq[q].argmax())])


def test_one_column_of_signs_is_the_half_difference_of_two_columns():
    X, y, Xq = problem(classes=2)
    one, two = (influence(fit(Exponential(2.0), X, targets, 0.3), Xq) for targets in (y[:, 1], y))
    yq = y[:5]
    torch.testing.assert_close(score(one, yq[:, 1:], "true_class"), score(two, yq, "true_class"))


def test_output_and_loss():
    X, y, Xq = problem()
    found, yq = influence(fit(Exponential(2.0), X, y, 0.3), Xq), y[:5, None]
    torch.testing.assert_close(score(found, yq, "output"), found.leave_one_out)
    torch.testing.assert_close(score(found, yq, "loss"), found.loss_influence(squared_loss, yq))


@pytest.mark.parametrize(
    ("measure", "y", "words"),
    [
        ("loudness", [[1.0], [-1.0]], "unknown measure"),
        ("output", [[1.0, -1.0], [-1.0, 1.0]], "one output"),
        ("true_class", [[0.3], [-1.0]], "use measure='output'"),
        ("true_class", [[1.0], [1.0]], "one class only"),
        ("true_class", [[1.0, -1.0], [1.0, -1.0]], "one class only"),
    ],
)
def test_measures_without_meaning_are_refused(measure, y, words):
    y = torch.tensor(y, dtype=torch.float64)
    with pytest.raises(errors.InputError, match=words):
        check_measure(measure, y, y[:1])
