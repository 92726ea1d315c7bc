import math

import numpy as np
import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from tests.kernels.kernel_case import KernelCase


class TestExponential(KernelCase):
    def kernel(self):
        return Exponential(temperature=3.0)

    def formula(self, x, z):
        return math.exp(np.dot(x, z) / 3.0)


class TestProjected(KernelCase):
    U = torch.randn(3, 5, generator=torch_generator(3, "projection"), dtype=torch.float64)

    def kernel(self):
        return Exponential(temperature=2.5, projection=self.U)

    def formula(self, x, z):
        U = self.U.numpy()
        return math.exp(np.dot(U @ x, U @ z) / 2.5)


class TestScaled(KernelCase):
    def kernel(self):
        return Exponential(temperature=2.0, log_scale=4.0)

    def formula(self, x, z):
        return math.exp(np.dot(x, z) / 2.0 - 4.0)


def test_is_softmax_attention_before_normalisation():
    """K's rows divided by their sums are torch's own attention weights."""
    X = torch.randn(20, 8, generator=torch_generator(0, "rows"), dtype=torch.float64)
    K = Exponential(temperature=math.sqrt(8))(X)
    attention = torch.nn.functional.scaled_dot_product_attention(
        X, X, torch.eye(20, dtype=torch.float64), scale=1 / math.sqrt(8)
    )
    torch.testing.assert_close(K / K.sum(1, keepdim=True), attention, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("dtype", "length"), [(torch.float32, 10.0), (torch.float64, 30.0)])
def test_large_logits_are_refused_with_advice(dtype, length):
    X = length * torch.eye(3, dtype=dtype)
    for call in (lambda k: k(X), lambda k: k.diag(X), lambda k: k.matvec(X, X, X)):
        with pytest.raises(errors.LogitRangeError, match=r"raise the temperature.*within_range"):
            call(Exponential(temperature=1.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1.0, 10.0, 100.0])
def test_within_range_is_finite_for_long_rows(dtype, length):
    X = length * torch.nn.functional.normalize(torch.randn(6, 3, generator=torch_generator(0, "rows")), dim=1).to(dtype)
    kernel = Exponential(temperature=1.0).within_range(X)
    K = kernel(X)
    assert bool(torch.isfinite(K).all())
    assert float(K.max()) > 0.5


def test_a_prepared_kernel_refuses_what_overflows_as_before():
    for length, refused in ((5.0, False), (30.0, True)):
        X = torch.full((2, 4), length / 2, dtype=torch.float64)
        X[:, 3] = 0.0
        kernel, rows = Exponential(1.0).prepared(X)
        assert rows.shape == (2, 3)
        if refused:
            with pytest.raises(errors.LogitRangeError, match="largest logit is 675"):
                kernel.dense(rows.float(), rows.float())
        else:
            assert bool(torch.isfinite(kernel.dense(rows.float(), rows.float())).all())


def test_only_rows_that_cannot_overflow_go_unchecked():
    near, far = torch.ones(2, 3), torch.full((2, 3), 30.0)
    assert Exponential(1.0).unchecked(near).dense(near, near).max() == pytest.approx(math.exp(3.0))
    with pytest.raises(errors.LogitRangeError):
        Exponential(1.0).unchecked(far).dense(far, far)


def test_only_prepared_rows_have_their_logits_as_dot_products():
    X = torch.eye(3, dtype=torch.float64)
    kernel, rows = Exponential(0.5, log_scale=1.0).prepared(X)
    every = slice(0, 3)
    entries = kernel.entrywise(rows)(rows @ rows.T, every, every)
    torch.testing.assert_close(entries, Exponential(0.5, log_scale=1.0)(X))
    assert Exponential(0.5).unchecked(X).entrywise(X) is None
    assert Exponential(1.0, projection=2 * X).unchecked(X).entrywise(X) is None
    assert Exponential(1.0).entrywise(X) is None


def test_large_products_between_rows_that_cancel_are_accepted():
    """The range is that of the logits met, not of the row lengths: orthogonal long rows are harmless."""
    X = torch.tensor([[20.0, 0.0]])
    Z = torch.tensor([[0.0, 20.0]])
    assert Exponential(temperature=1.0)(X, Z).item() == 1.0


def test_rows_too_different_to_be_held_side_by_side_are_refused():
    with pytest.raises(errors.LogitRangeError, match=r"from 1 to 1.6e\+03"):
        Exponential(1.0).within_range(torch.tensor([[40.0], [1.0], [2.0]], dtype=torch.float64))


def test_logits_without_a_correct_digit_are_refused():
    with pytest.raises(errors.LogitRangeError, match="raise the temperature"):
        Exponential(1e-20).within_range(torch.ones(3, 4, dtype=torch.float64))


def test_rows_beyond_the_precision_are_refused():
    for length, temperature in ((1e18, 1e-30), (1e20, 1.0)):
        with pytest.raises(errors.LogitRangeError, match="overflow"):
            Exponential(temperature).within_range(torch.full((2, 2), length))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_bad_temperature(temperature):
    with pytest.raises(errors.InputError, match="temperature"):
        Exponential(temperature=temperature)


def test_projection_of_another_size():
    with pytest.raises(errors.ShapeError, match=r"\(projected, features\)"):
        Exponential(1.0, projection=torch.eye(3))(torch.ones(2, 4))


def test_bad_log_scale():
    with pytest.raises(errors.InputError, match="log_scale"):
        Exponential(1.0, log_scale=math.nan)
