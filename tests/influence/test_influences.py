import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import cross_entropy, influence, squared_loss
from ridgeformer.influence.influences import check_measure, score
from ridgeformer.kernels import Exponential
from tests.influence.influence_case import KERNELS, assert_equal, draw, problem, refit, without


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("classes", "loss"), [(0, squared_loss), (3, squared_loss), (3, cross_entropy)])
def test_loss_influence_equals_real_refits(name, classes, loss):
    X, y, Xq = problem(classes=classes)
    kernel, n, yq = KERNELS[name](X), len(X), y[:5].flip(0)
    columns = yq.reshape(5, -1)

    def losses(keep=None):
        return loss(refit(kernel, X, y, Xq, 0.3, keep).reshape(5, -1), columns)

    expected = torch.stack([losses(without(n, i)) - losses() for i in range(n)])
    assert_equal(influence(kernel, X, y, Xq, 0.3).loss_influence(loss, yq), expected)


def test_errors_of_the_arrays_bound_the_error_of_leave_one_out():
    """Moved arrays, with errors as large as the moves, cover the exact influence in every corner."""
    X, y, Xq = problem(classes=3)
    exact = influence(KERNELS["exponential"](X), X, y, Xq, 0.3)
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
    found, yq = influence(Exponential(2.0), X, y, Xq, 0.3), y[:5]
    table = score(found, yq, "true_class")
    for q in range(5):
        torch.testing.assert_close(table[:, q], found.leave_one_out[:, q, int(yq[q].argmax())])


def test_one_column_of_signs_is_the_half_difference_of_two_columns():
    X, y, Xq = problem(classes=2)
    one, two = (influence(Exponential(2.0), X, targets, Xq, 0.3) for targets in (y[:, 1], y))
    yq = y[:5]
    torch.testing.assert_close(score(one, yq[:, 1:], "true_class"), score(two, yq, "true_class"))


def test_output_and_loss():
    X, y, Xq = problem()
    found, yq = influence(Exponential(2.0), X, y, Xq, 0.3), y[:5, None]
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
