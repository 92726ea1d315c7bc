"""A kernel of one's own needs `dense` and nothing else."""

import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import gamma


class Gaussian(Kernel):
    name = "gaussian"

    def dense(self, X, Z):
        return torch.exp(-torch.cdist(X, Z).square() / 2)


def test_diag_and_matvec_follow_from_dense():
    X = torch.randn(150, 3, generator=torch_generator(0, "rows"), dtype=torch.float64)
    kernel = Gaussian()
    torch.testing.assert_close(kernel.diag(X), torch.ones(150, dtype=torch.float64))
    torch.testing.assert_close(kernel.matvec(X, None, X), kernel(X) @ X)
    assert kernel.within_range(X) is kernel
    assert kernel.entry_error(X).shape == (150,)


def test_gamma_is_highams_and_infinite_when_it_stops_to_hold():
    u = 2.0**-53
    assert gamma(10, torch.float64) == 10 * u / (1 - 10 * u)
    assert gamma(2**24, torch.float32) == float("inf")
