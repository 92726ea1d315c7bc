import pytest
import torch

from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.regime import expected_qkv_kernel, gram_spectrum, qkv_features


def rows(kappa=100.0, n=20):
    """Square rows whose G has condition number kappa."""
    generator = torch_generator(0, "rows")
    U, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
    return U * torch.logspace(0, -torch.tensor(kappa).log10() / 2, n, dtype=torch.float64)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("head_width", [None, 3])
def test_average_over_heads_is_the_expected_kernel(tied, head_width):
    X = rows(n=4)
    features = qkv_features(X, torch_generator(0, "heads"), heads=30_000, head_width=head_width, tied=tied)
    expected = expected_qkv_kernel(X, head_width=head_width, tied=tied)
    assert float((features @ features.T - expected).norm() / expected.norm()) < 0.03


def test_one_head_equals_its_formula():
    X, generator = rows(n=4), torch_generator(3, "head")
    found = qkv_features(X, torch_generator(3, "head"), head_width=5)
    Q, K = (torch.randn(4, 5, generator=generator, dtype=torch.float64) / 5**0.5 for _ in range(2))
    torch.testing.assert_close(found, (X @ Q) @ (X @ K).T @ X)


def test_heads_bring_the_condition_number_back():
    """L6: one draw has kappa^3 or more; 64 independent heads have 139 at kappa_G = 100; tied ones stay above."""
    X = rows()

    def condition(heads, tied=False):
        return gram_spectrum(qkv_features(X, torch_generator(0, "heads"), heads=heads, tied=tied)).condition(20)

    assert condition(1) > 1e6
    assert condition(64) == pytest.approx(139, rel=0.25)
    assert condition(64, tied=True) > 4 * condition(64)


def test_refuses_no_heads():
    with pytest.raises(InputError, match="heads"):
        qkv_features(torch.eye(2), torch_generator(0, "heads"), heads=0)
