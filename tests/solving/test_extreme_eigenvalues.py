import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving.extreme_eigenvalues import from_coefficients, lanczos


@pytest.mark.parametrize("n", [1, 2, 50, 300])
def test_ends_lie_inside_and_the_safe_end_outside(n):
    values = torch.logspace(-2, 3, n, dtype=torch.float64)
    Q, _ = torch.linalg.qr(torch.randn(n, n, generator=torch_generator(0, "Q"), dtype=torch.float64))
    A = Q * values @ Q.T
    ends = lanczos(lambda V: A @ V, n, like=A, generator=torch_generator(1, "start"))
    assert values[0] * (1 - 1e-6) <= ends.low
    assert ends.high <= values[-1] * (1 + 1e-12)
    assert ends.high_safe >= values[-1] * (1 - 1e-9)
    assert ends.kappa >= 1 - 1e-12


def test_an_invariant_start_ends_early():
    ends = lanczos(lambda V: 3 * V, 20, like=torch.eye(20).double(), generator=torch_generator(0, "s"))
    assert ends.low == pytest.approx(3)
    assert ends.high_safe == pytest.approx(3)


def test_no_usable_coefficients_no_estimate():
    assert from_coefficients([0.0], [0.0], preconditioned=False) is None
