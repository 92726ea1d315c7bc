import numpy as np
import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import GramPower
from tests.kernels.kernel_case import KernelCase

CONTEXT = torch.randn(8, 5, generator=torch_generator(5, "context"), dtype=torch.float64)


class TestLinearisedAttention(KernelCase):
    def kernel(self):
        return GramPower(3, CONTEXT)

    def formula(self, x, z):
        C = CONTEXT.numpy().T @ CONTEXT.numpy()
        return float(x @ C @ C @ z) if np.isfinite(x).all() else np.nan


class TestOrderOne(KernelCase):
    def kernel(self):
        return GramPower(1, CONTEXT)

    def formula(self, x, z):
        return float(np.dot(x, z))


def test_on_the_context_it_is_the_gram_matrix_of_attention_features():
    features = CONTEXT @ CONTEXT.T @ CONTEXT
    torch.testing.assert_close(GramPower(3, CONTEXT)(CONTEXT), features @ features.T)


def test_a_context_of_low_rank_leaves_other_directions_at_zero():
    context = torch.tensor([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    K = GramPower(2, context)(torch.tensor([[0.0, 1.0, 1.0]]))
    assert K.item() == 0.0


def test_spectrum_is_exact_where_the_formed_product_is_lost():
    """Claim L1: at condition number 1e3 a float32 product has a negative eigenvalue; singular values do not."""
    generator = torch_generator(0, "orthogonal")
    U, _ = torch.linalg.qr(torch.randn(40, 40, generator=generator, dtype=torch.float64))
    singular = torch.logspace(0, -1.5, 40, dtype=torch.float64)  # kappa(G) = 1e3
    X = U * singular
    G = (X @ X.T).float()
    assert float(torch.linalg.eigvalsh(G @ G @ G)[0]) < 0
    torch.testing.assert_close(GramPower(3, X).spectrum(), singular**6, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("order", [0, -1, True])
def test_bad_order(order):
    with pytest.raises(errors.InputError, match="whole number"):
        GramPower(order, CONTEXT)


def test_rows_of_another_size_than_the_context():
    with pytest.raises(errors.ShapeError, match="context"):
        GramPower(3, CONTEXT)(torch.ones(2, 4))


def test_powers_that_overflow_are_refused():
    with pytest.raises(errors.InputError, match="overflows"):
        GramPower(20, 1e10 * CONTEXT)
