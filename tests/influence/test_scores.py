import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import influence, squared_loss
from ridgeformer.influence.scores import check_measure, score
from ridgeformer.kernels import Exponential
from tests.influence.influence_case import problem


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
