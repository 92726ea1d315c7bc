import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import label_change
from tests.influence.influence_case import KERNELS, assert_equal, draw, problem, refit


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
    found = label_change(kernel, X, y, Xq, 0.3, new)
    assert_equal(found, torch.stack(rows))
    assert_equal(found.sum(0), refit(kernel, X, new, Xq, 0.3) - before)


def test_labels_of_another_shape_are_refused():
    X, y, Xq = problem()
    with pytest.raises(errors.ShapeError, match="give the same shape"):
        label_change(KERNELS["exponential"](X), X, y, Xq, 0.3, y[:, None])
