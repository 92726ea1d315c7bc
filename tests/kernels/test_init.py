import pytest
import torch

from ridgeformer import errors
from ridgeformer.kernels import KERNELS, build_kernel


def test_every_name_builds_a_kernel_of_that_name():
    X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    for name in KERNELS:
        kernel = build_kernel(name, X)
        assert name.startswith(kernel.name)
        assert kernel(X).shape == (6, 6)


def test_unknown_names_get_the_nearest():
    with pytest.raises(errors.UnknownNameError, match="did you mean 'exponential'"):
        build_kernel("expnential", torch.eye(2))


def test_zero_rows_still_have_a_temperature():
    assert build_kernel("exponential", torch.zeros(2, 2)).temperature == 1.0
