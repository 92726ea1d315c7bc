import math

import numpy as np
import pytest
import torch

from hostile.exact import kernel_ball, rational, transformed
from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential, Gaussian
from tests.kernels.kernel_case import KernelCase


class TestGaussian(KernelCase):
    def kernel(self):
        return Gaussian(temperature=3.0)

    def formula(self, x, z):
        return math.exp(-((x - z) ** 2).sum() / 6.0)


class TestProjected(KernelCase):
    U = torch.randn(3, 5, generator=torch_generator(3, "projection"), dtype=torch.float64)

    def kernel(self):
        return Gaussian(temperature=2.5, projection=self.U)

    def formula(self, x, z):
        gap = self.U.numpy() @ (x - z)
        return math.exp(-np.dot(gap, gap) / 5.0)


def random_rows(n=12, d=4, seed=0):
    return torch.randn(n, d, generator=torch_generator(seed, "rows"), dtype=torch.float64)


def test_is_the_exponential_kernel_scaled_by_rows_and_columns():
    X = random_rows()
    scale = torch.diag((-X.square().sum(1) / 1.4).exp())
    torch.testing.assert_close(Gaussian(0.7)(X), scale @ Exponential(0.7)(X) @ scale, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("dtype", "length"), [(torch.float32, 1e15), (torch.float64, 1e150)])
def test_no_row_is_too_long_for_its_exponential(dtype, length):
    X = length * torch.eye(3, dtype=dtype)
    assert torch.equal(Gaussian(1.0)(X), torch.eye(3, dtype=dtype))
    assert torch.equal(Gaussian(1.0).diag(X), torch.ones(3, dtype=dtype))


def test_lengths_whose_squares_overflow_are_refused_and_queries_that_have_them_named():
    with pytest.raises(errors.LogitRangeError, match=r"overflow torch\.float32"):
        Gaussian(1.0)(torch.full((2, 2), 1e20))
    query = torch.tensor([[1.0, 0.0], [1e20, 0.0]])
    assert Gaussian(1.0).representable(query).tolist() == [True, False]


def test_rows_so_long_that_no_digit_of_a_distance_is_right_are_refused_by_solvers():
    X = 1e9 * torch.ones(3, 4, dtype=torch.float64)
    with pytest.raises(errors.LogitRangeError, match="subtract the mean"):
        Gaussian(1.0).within_range(X)
    assert Gaussian(1e6).within_range(X).temperature == 1e6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_entry_error_covers_the_error_against_exact_arithmetic(dtype, projected, size):
    """Rows of very different lengths side by side: the product form must cover short ones beside long ones."""
    X = (size * random_rows(24) * torch.logspace(-3, 1, 24, dtype=torch.float64)[:, None]).to(dtype)
    X[1::2] = X[::2] * (1 + 1e-3)
    U = torch.tensor([[1.0, 1.0, -1.0, 0.3]], dtype=torch.float64) if projected else None
    kernel = Gaussian(1.3, U)
    rows, _ = transformed(kernel, rational(X))
    exact = torch.tensor([[float(kernel_ball(kernel, x, z)) for z in rows] for x in rows], dtype=torch.float64)
    w = kernel.entry_error(X).double()
    error = (kernel(X, X.clone()).double() - exact).abs()
    allowed = w[:, None] * w[None, :]
    slack = 2.0**-52  # of the exact values as floats
    assert bool((error <= allowed + slack).all())
    if size >= 1:
        assert float((error / allowed).max()) > 1e-3  # and it says something


def test_gradients_where_rows_coincide_are_zero():
    X = random_rows(3).requires_grad_()
    Z = X.detach().clone()
    Gaussian(1.0)(X, Z).diagonal().sum().backward()
    torch.testing.assert_close(X.grad, torch.zeros_like(X), rtol=0, atol=1e-12)
