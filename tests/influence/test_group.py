import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import fit, group_influence, leave_group_out, leave_one_out
from tests.influence.influence_case import KERNELS, assert_equal, problem, refit, without


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("group", [[4], [0, 3, 7, 17], list(range(1, 18))])
def test_equals_a_real_refit(name, classes, group):
    X, y, Xq = problem(classes=classes)
    kernel = KERNELS[name](X)
    expected = refit(kernel, X, y, Xq, 0.3) - refit(kernel, X, y, Xq, 0.3, without(18, *group))
    assert_equal(leave_group_out(kernel, X, y, Xq, 0.3, group), expected)


def test_a_group_of_duplicates_is_more_than_the_sum_of_its_points():
    X, y, Xq = problem()
    X[1], y[1] = X[0], y[0]
    kernel = KERNELS["exponential"](X)
    alone = leave_one_out(kernel, X, y, Xq, 0.01)[:2].sum(0)
    together = leave_group_out(kernel, X, y, Xq, 0.01, [0, 1])
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
        group_influence(fitted, Xq, group)


def test_a_tensor_of_rows_is_a_group():
    X, y, Xq = problem()
    kernel = KERNELS["exponential"](X)
    assert_equal(
        leave_group_out(kernel, X, y, Xq, 0.3, torch.tensor([1, 2])), leave_group_out(kernel, X, y, Xq, 0.3, [2, 1])
    )
