import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.studies.surface_directions import choose_directions, curvature

START = torch.randn(4, 3, generator=torch_generator(0, "start"), dtype=torch.float64)


def height(weights):
    return weights.pow(4).sum() + (weights[0] * weights[1]).sum()


@pytest.mark.parametrize("name", ["random", "hessian"])
def test_they_are_orthonormal_and_the_same_again(name):
    u, v = choose_directions(height, START, name, seed=4)
    gram = torch.stack([u.flatten(), v.flatten()]) @ torch.stack([u.flatten(), v.flatten()]).T
    torch.testing.assert_close(gram, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(choose_directions(height, START, name, seed=4)[1], v)


def test_the_steepest_are_the_eigenvectors_of_the_hessian():
    H = torch.autograd.functional.hessian(height, START).reshape(12, 12)
    values = torch.linalg.eigvalsh(H)
    u, v = choose_directions(height, START, "hessian", seed=4)
    assert curvature(height, START, u) == pytest.approx(float(values[-1]))
    assert curvature(height, START, v) == pytest.approx(float(values[-2]))
    torch.testing.assert_close(H @ u.flatten(), values[-1] * u.flatten())


def test_an_unknown_name():
    with pytest.raises(errors.UnknownNameError, match="unknown directions"):
        choose_directions(height, START, "steepest", seed=0)
