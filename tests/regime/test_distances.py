from math import inf, log10

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import load, unit_rows
from ridgeformer.kernels import GramPower, ReluNTK
from ridgeformer.regime import (
    LinearisedAttention,
    check_numerically,
    finite_relu_ntk,
    finite_relu_ntks,
    gram_spectrum,
    kernel_distances,
    published_width,
    required_widths,
    width_from_measurement,
)
from ridgeformer.regime.distances import judge_criteria
from ridgeformer.regime.networks import normalise_rows


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
    assert found.ridge == 0.7


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
        kernel_distances(torch.eye(3), torch.eye(3), ridge=0.0)


@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_the_published_third_check_is_out_of_reach(ridge):
    """L14: at large kappa the inverse misses 1e-12 by far, and is as good as eps kappa allows."""
    X = torch.from_numpy(unit_rows(load("digits").X[:200]))
    found = check_numerically(GramPower(3, X)(X), ridge=ridge)
    assert found.condition > 1e6
    assert found.inverse_error > 1e-12
    assert found.inverse_error_in_units < 200
    assert found.asymmetry < 1e-12 * 200**3


def test_easy_kernels_pass_all_of_them():
    found = check_numerically(2 * torch.eye(3, dtype=torch.float64), ridge=1.0)
    assert (found.smallest, found.condition, found.asymmetry) == (2.0, 1.0, 0.0)
    assert found.inverse_error < 1e-12


def test_refuses_what_is_not_square():
    with pytest.raises(ShapeError, match=r"\(n, n\)"):
        check_numerically(torch.ones(2, 3), ridge=1.0)


def digits(n=100):
    return torch.from_numpy(unit_rows(load("digits").X[:n]))


def by_name(X, **options):
    return {need.name: need for need in required_widths(X, **options)}


def test_the_width_suffices_by_every_criterion():
    """Few rows, so that the additive width can be run; five draws, no failure allowed at a chance of 1 %."""
    X = digits(4)
    limit, ridge, tolerance = ReluNTK()(X), 0.5, 0.1
    needs = by_name(X, ridge=ridge, tolerance=tolerance)
    for name in ("additive", "multiplicative", "whitened"):
        for seed in range(5):
            width = round(10 ** needs[name].log10_sufficient)
            K = finite_relu_ntk(X, width, torch_generator(seed, name), threads=1)
            assert getattr(kernel_distances(K, limit, ridge=ridge), name) <= needs[name].tolerance


def test_frobenius_width_is_exact_in_mean_square():
    X = digits(10)
    limit = ReluNTK()(X)
    width = round(10 ** by_name(X, ridge=0.5, tolerance=0.1)["frobenius"].log10_sufficient)
    squares = [
        kernel_distances(finite_relu_ntk(X, width, torch_generator(seed, "f"), threads=1), limit, ridge=1.0).frobenius
        ** 2
        for seed in range(300)
    ]
    assert (sum(squares) / len(squares)) ** 0.5 == pytest.approx(0.1, rel=0.1)


def test_criteria_disagree_by_orders_of_magnitude_on_attention_features():
    """L4: the published width cannot be run, the ridge-whitened one can, on the same rows."""
    X = digits()
    kappa = gram_spectrum(X).condition()
    features = LinearisedAttention(X)(X)
    needs = by_name(features, ridge=0.5, kappa=kappa)
    assert needs["frobenius"].log10_sufficient < needs["whitened"].log10_sufficient < 6
    assert (
        needs["whitened"].log10_sufficient
        < needs["multiplicative"].log10_sufficient
        < needs["additive"].log10_sufficient
    )
    assert needs["published"].log10_sufficient == pytest.approx(published_width(kappa, 100).log10_sufficient)
    assert needs["published"].log10_sufficient > needs["additive"].log10_sufficient + 15
    assert {name: need.reachable for name, need in needs.items()} == {
        "additive": False,
        "frobenius": True,
        "multiplicative": True,
        "whitened": True,
        "published": False,
    }
    assert needs["whitened"].as_dict()["reachable"] is True
    raw = by_name(X, ridge=0.5)
    growth = {
        name: needs[name].log10_sufficient - raw[name].log10_sufficient for name in ("multiplicative", "whitened")
    }
    assert growth["whitened"] < 0.5
    assert 1 < growth["multiplicative"] < 3  # measured: about 50 times the width


@pytest.mark.parametrize(("kappa", "rows", "published"), [(1.2e3, 60_000, 24), (8.7e3, 50_000, 29)])
def test_published_figures_follow_from_their_formula(kappa, rows, published):
    assert int(published_width(kappa, rows).log10_sufficient) == published


def test_measurement_extrapolates_as_one_over_root_m():
    assert width_from_measurement(0.165, 400_000, 0.0165) == pytest.approx(log10(4e7))


def test_refuses_what_has_no_width():
    with pytest.raises(InputError, match="one row"):
        required_widths([[1.0, 0.0]], ridge=1.0)
    with pytest.raises(InputError, match="repeat"):
        required_widths([[1.0, 0.0], [2.0, 0.0]], ridge=1.0)
    with pytest.raises(InputError, match="ridge"):
        required_widths(torch.eye(2), ridge=0.0)


@pytest.fixture(scope="module")
def drawn():
    X = normalise_rows(torch.randn(12, 6, generator=torch_generator(0, "rows"), dtype=torch.float64))
    draws = finite_relu_ntks(X, [1_000, 40_000, 1_000_000], torch_generator(0, "neurons"), threads=1)
    return X, [(width, kernel_distances(K, ReluNTK()(X), ridge=0.5)) for width, K in draws]


def test_the_expected_width_is_where_the_distance_is_met(drawn):
    """Expected from m = 1e6 for the distance seen at 4e4: within a factor of a few of 4e4."""
    X, at = drawn
    for one in judge_criteria(X, at[0][1], tuple(at), 0.5, 10.0)[:-1]:
        seen = getattr(at[1][1], one.name)
        met = one.log10_expected + 2 * log10(one.tolerance / seen)
        assert abs(met - log10(40_000)) < 0.8


def test_what_is_expected_is_less_than_what_is_proved(drawn):
    X, at = drawn
    *measured, published = judge_criteria(X, at[0][1], tuple(at), 0.5, 10.0)
    assert all(one.log10_expected < one.log10_sufficient for one in measured)
    assert published.log10_sufficient == required_widths(X, ridge=0.5, kappa=10.0)[-1].log10_sufficient
    assert published.reachable == (published.log10_sufficient <= 9)
    assert not judge_criteria(X, at[0][1], tuple(at), 0.5, 1e3)[-1].reachable
    assert judge_criteria(X, None, (), 0.5, 10.0) == ()
