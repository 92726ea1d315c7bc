from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import load, unit_rows
from ridgeformer.kernels import GramPower
from ridgeformer.regime import check_numerically, kernel_distances


def pair(seed, n=6):
    generator = torch_generator(seed, "pair")
    A = torch.randn(n, n + 2, generator=generator, dtype=torch.float64)
    E = torch.randn(n, n, generator=generator, dtype=torch.float64)
    return A @ A.T, A @ A.T + 0.05 * (E + E.T)


def test_equals_the_definitions():
    L, K = pair(0)
    found = kernel_distances(K, L, ridge=0.7)
    dK, inverse = K - L, torch.linalg.inv(L)
    whitened = torch.linalg.inv(L + 0.7 * torch.eye(6, dtype=torch.float64))
    norm = torch.linalg.matrix_norm(dK, 2)
    assert found.additive == pytest.approx(float(norm / torch.linalg.eigvalsh(L)[0]))
    assert found.frobenius == pytest.approx(float(dK.norm() / L.norm()))
    assert found.multiplicative == pytest.approx(float(torch.linalg.eigvals(inverse @ dK).abs().max()))
    assert found.whitened == pytest.approx(float(torch.linalg.eigvals(whitened @ dK).abs().max()))
    assert found.definite
    assert found.as_dict()["ridge"] == 0.7


@given(st.integers(0, 50), st.floats(1e-3, 10.0))
def test_whitened_bounds_the_error_of_ridge_regression(seed, ridge):
    L, K = pair(seed)
    d = kernel_distances(K, L, ridge=ridge).whitened
    eye = torch.eye(6, dtype=torch.float64)
    error = torch.linalg.solve(K + ridge * eye, K) - torch.linalg.solve(L + ridge * eye, L)
    if d < 1:
        assert float(torch.linalg.matrix_norm(error, 2)) <= d / (1 - d) * (1 + 1e-9)


def test_singular_limits_have_no_relative_distance():
    L = torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64))
    found = kernel_distances(L + 0.01 * torch.eye(2), L, ridge=1.0)
    assert (found.additive, found.multiplicative, found.definite) == (inf, inf, False)
    assert found.whitened == pytest.approx(0.01)


def test_refuses_kernels_of_other_rows():
    with pytest.raises(ShapeError, match="same rows"):
        kernel_distances(torch.eye(2), torch.eye(3), ridge=1.0)
    with pytest.raises(ShapeError, match=r"\(n, n\)"):
        kernel_distances(torch.ones(2, 3), torch.eye(3), ridge=1.0)
    with pytest.raises(InputError, match="ridge"):
        kernel_distances(torch.eye(3), torch.eye(3), ridge=0)


@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_the_published_third_check_is_out_of_reach(ridge):
    """L14: at large kappa the inverse misses 1e-12 by far, and is as good as eps kappa allows."""
    X = torch.from_numpy(unit_rows(load("digits").X[:200]))
    found = check_numerically(GramPower(3, X)(X), ridge=ridge)
    assert found.condition > 1e6
    assert found.inverse_error > 1e-12
    assert found.inverse_error_in_units < 200
    assert found.asymmetry < 1e-12 * 200**3
    assert found.as_dict()["smallest"] == found.smallest


def test_easy_kernels_pass_all_of_them():
    found = check_numerically(2 * torch.eye(3, dtype=torch.float64), ridge=1.0)
    assert (found.smallest, found.condition, found.asymmetry) == (2.0, 1.0, 0.0)
    assert found.inverse_error < 1e-12


def test_refuses_what_is_not_square():
    with pytest.raises(ShapeError, match=r"\(n, n\)"):
        check_numerically(torch.ones(2, 3), ridge=1.0)
